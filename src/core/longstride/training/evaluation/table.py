"""The table of an evaluation as cells of text, and for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.table import Table
from rich.text import Text

from longstride.simulators.simulator import Simulator
from longstride.text import Scale, format_half, format_number, in_words, scale_of
from longstride.training.evaluation.comparison import kind_of, verdicts
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic

_COLOURS = {"better": "green", "worse": "red"}
"""Colours of verdicts, where the terminal has any."""

_PADDING, _BORDERS = 3, 5
"""Letters that a column of a table takes beside its text, and that the table takes with its first column."""


@dataclass(frozen=True)
class Row:
    """A row of the table: a policy, a heuristic, a bound or a reference."""

    name: str  # of the row
    kind: str  # "policy", "heuristic", "bound" or "reference"
    cells: list[str]  # one for each header
    best: bool = False  # whether it has the best mean of the main metric among policies and heuristics
    verdict: str = ""  # "better", "worse" or "no difference shown", against the best heuristic; "" for none


@dataclass(frozen=True)
class EvaluationCells:
    """An evaluation as text."""

    title: str  # of the table
    headers: list[str]  # of the columns after the name, with units
    rows: list[Row]  # of the table


def evaluation_cells(result: Evaluation, simulator: Simulator) -> EvaluationCells:
    """Return a row for each policy and a column for each metric of one number, the main metric first.

    The next columns have the verdict against the best heuristic and, with references, the gap to the first of them. A
    column has one unit, which suits its middle value.
    """
    main, summary = simulator.main_metric, result.as_json()["policies"]
    played = [values for name, values in summary.items() if kind_of(name, simulator) != "bound"] or [*summary.values()]
    filled = [n for n, value in _union(played).items() if not isinstance(value["mean"], list)]
    names = dict.fromkeys([main, *filled, *simulator.metric_names])
    metrics = [name for name in names if name != "return" or main == "return"]
    scales = {name: _scale(simulator.unit_of(name), name, summary) for name in metrics}
    more, judged, best = _more_columns(result, simulator), verdicts(result, simulator), _best(summary, simulator)
    headers = [_header(name, scales[name].unit) for name in metrics]
    rows = []
    for name, values in summary.items():
        cells = [_cell(values.get(metric), scales[metric]) for metric in metrics]
        cells[1:1] = [column.get(name, "-") for column in more.values()]
        word = judged[name].word if name in judged else ""
        rows.append(Row(name, kind_of(name, simulator), cells, name == best, word))
    for name, value in result.references.items():
        scale = scales.get(main, Scale("", 1.0))
        cells = [format_number(value * scale.factor) if metric == main else "-" for metric in metrics]
        cells[1:1] = [column.get(name, "-") for column in more.values()]
        rows.append(Row(name, "reference", cells))
    title = f"Mean and 95 % interval over {result.episodes} episodes"
    return EvaluationCells(title, [headers[0], *more, *headers[1:]], rows)


def evaluation_table(result: Evaluation, simulator: Simulator) -> Table:
    """Return :func:`evaluation_cells` as one table, however wide; the row with the best mean is bold."""
    cells = evaluation_cells(result, simulator)
    return _table(cells, range(len(cells.headers)), cells.title)


def evaluation_tables(result: Evaluation, simulator: Simulator, width: int) -> list[Table]:
    """Return :func:`evaluation_cells` as tables for a terminal of ``width`` letters, in each as many columns as fit."""
    cells = evaluation_cells(result, simulator)
    room = width - max(len(row.name) for row in cells.rows) - _BORDERS
    parts: list[list[int]] = [[]]
    left = room
    for column, header in enumerate(cells.headers):
        wide = max(len(header), *(len(row.cells[column]) for row in cells.rows)) + _PADDING
        if wide > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= wide
    return [_table(cells, part, "" if i else cells.title) for i, part in enumerate(parts)]


def _table(cells: EvaluationCells, columns: Sequence[int], title: str) -> Table:
    """Return some of the columns as a table."""
    table = Table(title=title or None)
    table.add_column("policy", no_wrap=True)
    for column in columns:
        table.add_column(Text(cells.headers[column]), justify="right", no_wrap=True)
    for row in cells.rows:
        shown = row.name, *(row.cells[column] for column in columns)
        table.add_row(*(Text(cell, style=_style(cell, row)) for cell in shown))
    return table


def _style(cell: str, row: Row) -> str:
    judged = bool(row.verdict) and cell.startswith(f"{row.verdict}:")
    return f"{'bold' if row.best else ''} {_COLOURS.get(row.verdict, '') if judged else ''}".strip()


def _union(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _best(summary: dict[str, dict[str, Any]], simulator: Simulator) -> str | None:
    """Return the policy or heuristic with the best mean of the main metric."""
    main, sign = simulator.main_metric, 1 if simulator.main_metric_lower_is_better else -1
    names = [name for name, values in summary.items() if main in values and kind_of(name, simulator) != "bound"]
    return min(names, key=lambda name: sign * summary[name][main]["mean"], default=None) if len(names) > 1 else None


def _header(metric: str, unit: str) -> str:
    """Return the name of a metric with its unit, where the name does not say it."""
    return in_words(metric) + (f", {unit}" if unit and unit not in metric else "")


def _scale(unit: str, metric: str, summary: dict[str, dict[str, Any]]) -> Scale:
    means = sorted(abs(values[metric]["mean"]) for values in summary.values() if metric in values)
    return scale_of(unit, means[len(means) // 2] if means else 0.0)


def _more_columns(result: Evaluation, simulator: Simulator) -> dict[str, dict[str, str]]:
    """Return header -> row -> cell: the verdicts, and the gaps to the first reference."""
    best, judged = best_heuristic(result.records, simulator), verdicts(result, simulator)
    words = {name: verdict.short for name, verdict in judged.items()}
    columns = {f"against {best}": words} if words else {}
    if result.references:
        name, value = next(iter(result.references.items()))
        main, records = simulator.main_metric, result.records
        values = {policy: [r[main] for r in of if main in r] for policy, of in records.items()}
        means = {policy: fmean(of) for policy, of in values.items() if of} | result.references
        columns[f"gap to {name}"] = {policy: _gap(mean, value) for policy, mean in means.items()}
    return columns


def _gap(mean: float, reference: float) -> str:
    positive = mean > 0 and reference > 0  # a share of anything else says nothing
    return f"{100 * (mean - reference) / reference:+,.3g} %" if positive else f"{mean - reference:+,.3g}"


def _cell(value: dict[str, float] | None, scale: Scale) -> str:
    if value is None:
        return "-"
    mean, half = value["mean"] * scale.factor, (value["high"] - value["low"]) / 2 * scale.factor
    return f"{format_number(mean)} ± {format_half(half, mean)}"
