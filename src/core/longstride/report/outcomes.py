"""What the policies achieve: the table of the evaluation, distributions of each metric, a simulator's own figures."""

from typing import Any

import numpy as np

from longstride.errors import one_line
from longstride.escaping import plot_text
from longstride.report.charts import STYLE, as_svg, draw, have_matplotlib
from longstride.report.page import Block, Cell, Figure, Section, Table, Text, plain
from longstride.report.run_data import RunData
from longstride.simulators.simulator import Simulator
from longstride.text import format_number, scale_of
from longstride.training.evaluation.comparison import kind_of
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic
from longstride.training.evaluation.table import evaluation_cells

_MOST_METRICS = 8
"""Metrics whose distribution is drawn."""


def evaluation_section(run: RunData, command: str) -> Section:
    """Return the table of the evaluation, or the command that makes it."""
    if run.evaluation is None or run.simulator is None:
        why = "The simulator is not available." if run.evaluation else "The policy has not been evaluated yet."
        return Section("evaluation", "Evaluation", [Text([f"{why} This writes the table: {command}"], "missing")])
    cells = evaluation_cells(run.evaluation, run.simulator)
    rows = []
    for row in cells.rows:
        name = f"{row.name} ({row.kind})" if row.kind in ("bound", "reference") else row.name
        tone = {"better": "better", "worse": "worse"}.get(row.verdict, "")
        begins = f"{row.verdict}:"
        shown = [Cell(text, tone=tone if row.verdict and text.startswith(begins) else "") for text in row.cells]
        rows.append([Cell(name, bold=row.best), *shown])
    caption = (
        f"{cells.title}. Every policy meets the same random streams, so differences are taken episode by episode "
        "(paired, Student's t). The best mean is bold. trained takes the most likely action, trained_sampled draws "
        "one, untrained is the policy that training began with."
    )
    blocks: list[Block] = [Table("Policies on the same episodes", ["policy", *cells.headers], rows, caption)]
    blocks += [Text(run.evaluation.messages[:5], "warning")] if run.evaluation.messages else []
    return Section("evaluation", "Evaluation", blocks)


def whatif_section(run: RunData) -> Section | None:
    """Return what whatif.json holds; None where there is none, or one of another version."""
    content = run.whatif
    try:
        table, sentences = content["table"], content["sentences"]
        rows = [plain(*row) for row in table["rows"]]
        caption = "The same random streams in every scenario, so differences are taken episode by episode."
        blocks: list[Block] = [Table(table["title"], table["headers"], rows, caption)]
        for name, lines in sentences.items():
            blocks.append(Text([f"{name}:", *lines]))
    except (LookupError, TypeError, AttributeError):
        return None
    return Section("whatif", "What if", blocks)


def metrics_section(run: RunData) -> Section | None:
    """Return histograms of the simulator's metrics over the evaluated episodes, and the simulator's own figures."""
    blocks: list[Block] = []
    if run.evaluation is not None and run.simulator is not None:
        blocks += _histograms(run.evaluation, run.simulator)
        blocks += _own_figures(run.evaluation, run.simulator)
    return Section("metrics", "Metrics of the simulator", blocks) if blocks else None


def _histograms(evaluation: Evaluation, simulator: Simulator) -> list[Block]:
    best = best_heuristic(evaluation.records, simulator)
    policies = [name for name in ("trained", best) if name in evaluation.records]
    policies = policies or [name for name in evaluation.records if kind_of(name, simulator) != "bound"][:2]
    numbers = {
        (policy, metric): [r[metric] for r in evaluation.records[policy] if not isinstance(r.get(metric, []), list)]
        for policy in policies
        for metric in dict.fromkeys(name for record in evaluation.records[policy] for name in record)
    }
    metrics = list(dict.fromkeys(metric for (_, metric), values in numbers.items() if values))[:_MOST_METRICS]

    def paint(figure: Any) -> None:
        grid = figure.subplots(-(-len(metrics) // 2), 2, squeeze=False).ravel()
        for axes, metric in zip(grid, metrics, strict=False):
            shown = {p: numbers[p, metric] for p in policies if numbers.get((p, metric))}
            scale = scale_of(simulator.unit_of(metric), float(np.median(np.concatenate(list(shown.values())))))
            values = [np.array(of) * scale.factor for of in shown.values()]
            bins = np.histogram_bin_edges(np.concatenate(values), "auto" if len(values[0]) > 4 else 5)
            for colour, name, of in zip(STYLE.series, shown, values, strict=False):
                label = plot_text(f"{name}, mean {format_number(float(np.mean(of)))}")
                axes.hist(of, bins=bins, color=colour, alpha=0.5, label=label)
                axes.axvline(float(np.mean(of)), color=colour, linewidth=1.5)
            axes.set_xlabel(plot_text(scale.header(metric)), fontsize="small")
            axes.set_ylabel("episodes", fontsize="small")
            axes.legend(
                fontsize="x-small", frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0
            )
        for axes in grid[len(metrics) :]:
            axes.set_visible(False)

    if not metrics:
        return []
    title = f"Distribution over {evaluation.episodes} episodes: {' and '.join(policies)}"
    return [Figure(title, draw("metrics", 2.4 * -(-len(metrics) // 2), paint))]


def _own_figures(evaluation: Evaluation, simulator: Simulator) -> list[Block]:
    """Return what the simulator's ``figures`` returns; a failure is a sentence in its place."""
    make = getattr(simulator, "figures", None)
    if make is None:
        return []
    if not have_matplotlib():
        return [
            Text(["The simulator has figures of its own, which need matplotlib: pip install matplotlib."], "missing")
        ]
    try:
        made = make(evaluation.records)
        return [Figure(str(title), as_svg(figure, f"own{i}")) for i, (title, figure) in enumerate(made.items())]
    except Exception as error:  # a user's own code, which must not cost the rest of the page
        sentence = f"figures() of {type(simulator).__name__} failed: {type(error).__name__}: {one_line(error)}."
        return [Text([sentence], "warning")]
