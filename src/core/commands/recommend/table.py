"""A recommendation as a table for people."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.commands.recommend.advice import POSTPONE, Advice
from core.text import Say, counted, format_number, scale_of


def print_advice(advice: Advice, console: Console, say: Say) -> None:
    """Print the ranked assignments, then the recommendation, its reason, and what heuristics would do."""
    if advice.assignments:
        console.print(_table(advice))
    say(advice.words)
    if advice.recommended is not None:
        say(f"Why: {advice.assignments[0]['reason']}")
    for name, choice in advice.heuristics.items():
        if choice is not None:
            say(f"{name} would give {choice['activity']} of case {choice['case']} to {choice['person']}.")


def _table(advice: Advice) -> Table:
    hidden = advice.feasible - len(advice.assignments)
    caption = f"{hidden:,} less probable assignments are not shown (--top 0 shows all)" if hidden else None
    table = Table(title=counted(advice.feasible, "feasible assignment"), caption=caption)
    for header in ("person", "activity", "case"):
        table.add_column(header)
    for header in ("probability", "waited", "service time", "fastest", "others free"):
        table.add_column(header, justify="right")
    table.add_column("chosen by")
    rows = [(row["probability"], row) for row in advice.assignments]
    for probability, row in rows:
        is_best = advice.recommended is not None and row is advice.assignments[0]
        times = (_time(row[name], advice.unit) for name in ("waited", "service_time", "fastest_service_time"))
        cells = (row["person"], row["activity"], row["case"], _share(probability), *times)
        others = f"{row['free_others']:,} of {row['others']:,}"
        # As text: in a name, brackets are no markup.
        texts = map(Text, (*cells, others, ", ".join(row["chosen_by"])))
        table.add_row(*texts, style="bold" if is_best else None)
    table.add_row("nobody", POSTPONE.partition(";")[0].rstrip("."), "", _share(advice.postpone))
    return table


def _share(probability: float) -> str:
    return f"{format_number(100 * probability, 3)} %"


def _time(value: float, unit: str) -> str:
    return scale_of(unit, value).show(value, 3)
