"""Prints a recommendation as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from longstride.process.recommend.advice import DRAWN, POSTPONE, Advice
from longstride.text import Say, counted, format_number, scale_of

_WHAT = "person", "activity", "case"
_FIGURES = "probability", "waited", "service time", "fastest", "others free", "chosen by"
"""Headers of the table, or of several tables in a narrow terminal."""

_WORDS = "person", "activity", "case", "chosen by"
"""Headers of columns without numbers."""


def print_advice(advice: Advice, console: Console, say: Say) -> None:
    """Print the ranked assignments, then the recommendation, its reason, and the choices of heuristics."""
    if advice.assignments:
        for place, headers in enumerate(_parts(advice, console)):
            console.print(_table(advice, headers, more=place > 0))
    say(advice.words)
    if advice.drawn:
        say(DRAWN)
    if advice.recommended is not None:
        say(f"Why: {advice.assignments[0]['reason']}")
    for name, choice in advice.heuristics.items():
        if choice is not None:
            say(f"{name} would give {choice['activity']} of case {choice['case']} to {choice['person']}.")


def _parts(advice: Advice, console: Console) -> list[list[str]]:
    """Return the headers of each table: as many as fit into the terminal."""
    options = console.options.update(max_width=1_000)
    parts = [[*_WHAT]]
    for header in _FIGURES:
        wider = [*parts[-1], header]
        if console.measure(_table(advice, wider, len(parts) > 1), options=options).maximum <= console.width:
            parts[-1] = wider
        else:
            parts.append([*_WHAT[::2], header])
    return parts


def _table(advice: Advice, headers: Sequence[str], more: bool = False) -> Table:
    """Return a table of some columns of the assignments; ``more`` if it continues another table."""
    hidden = advice.feasible - len(advice.assignments)
    caption = f"{hidden:,} less probable assignments are not shown (--top 0 shows all)" if hidden else None
    title = None if more else counted(advice.feasible, "feasible assignment")
    table = Table(title=title, caption=None if more else caption)
    for header in headers:
        table.add_column(header, justify="left" if header in _WORDS else "right")
    for row in advice.assignments:
        is_best = advice.recommended is not None and row is advice.assignments[0]
        cells = _cells(row, advice.unit)
        # As text, so that brackets in names are not markup.
        table.add_row(*(Text(cells[header]) for header in headers), style="bold" if is_best else None)
    if not more:
        postponed = {"person": "nobody", "activity": POSTPONE.partition(";")[0].rstrip(".")}
        postponed["probability"] = _share(advice.postpone)
        table.add_row(*(postponed.get(header, "") for header in headers))
    return table


def _cells(row: Mapping[str, Any], unit: str) -> dict[str, str]:
    """Return the cells of an assignment by header."""
    return {
        **{name: row[name] for name in ("person", "activity", "case")},
        "probability": _share(row["probability"]),
        "waited": _time(row["waited"], unit),
        "service time": _time(row["service_time"], unit),
        "fastest": _time(row["fastest_service_time"], unit),
        "others free": f"{row['free_others']:,} of {row['others']:,}",
        "chosen by": ", ".join(row["chosen_by"]),
    }


def _share(probability: float) -> str:
    return f"{format_number(100 * probability, 3)} %"


def _time(value: float, unit: str) -> str:
    return scale_of(unit, value).show(value, 3)
