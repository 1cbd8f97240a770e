"""Several runs on one page."""

from collections.abc import Mapping, Sequence
from typing import Any

from longstride.report.charts import STYLE, draw
from longstride.report.machine import run_seconds
from longstride.report.outcomes import evaluation_section
from longstride.report.page import Block, Cell, Figure, Page, Section, Table, Text, plain
from longstride.report.run_data import RunData
from longstride.report.settings import quoted
from longstride.report.summary import warnings
from longstride.text import format_duration, format_half, in_words
from longstride.training.evaluation.evaluate import summarise
from longstride.training.run_directory.plots import baselines_of, draw_curve


def side_by_side(runs: Sequence[RunData], names: Sequence[str], evaluate: str) -> Page:
    """Return a page that compares runs.

    Args:
        runs: the runs, at least two.
        names: a name for each, all different.
        evaluate: command that evaluates a run, up to its directory.
    """
    named = dict(zip(names, runs, strict=True))
    metrics = {run.main_metric for run in runs}
    cautions = [f"{name}: {sentence}" for name, run in named.items() for sentence in warnings(run)]
    if len(metrics) > 1:
        cautions.append(f"The runs have different main metrics ({', '.join(sorted(metrics))}), which do not compare.")
    sections = [
        Section("results", "Results", [_table(named), Text([_caution(runs)])]),
        Section("learning", "Learning", _curves(named)),
        Section("settings", "Settings that differ between the runs", [_differences(named)]),
    ]
    for i, (name, run) in enumerate(named.items()):
        section = evaluation_section(run, f"{evaluate} {quoted(run.directory)}")
        sections.append(Section(f"evaluation{i}", f"Evaluation of {name}", section.blocks))
    return Page(f"{len(runs)} runs side by side", ", ".join(names), "", "", [], [], cautions, sections)


def unique_names(runs: Sequence[RunData]) -> list[str]:
    """Return the name of each run, with its folder where two have the same."""
    names = [run.name for run in runs]
    return [str(run.directory) if names.count(run.name) > 1 else run.name for run in runs]


def _caution(runs: Sequence[RunData]) -> str:
    if all(run.evaluation is not None for run in runs):
        return "Each row is one run; another seed gives another result. --mode ab compares settings by pairs of runs."
    return "Runs that were not evaluated are compared by their last iterations, which are played with random actions."


def _table(named: Mapping[str, RunData]) -> Table:
    rows = []
    for name, run in named.items():
        curve = run.curve
        last = curve.scale.show(float(curve.mean[-1])) if len(curve.values) else "-"
        trained = run.evaluation.records.get("trained") if run.evaluation else None
        mean = summarise(trained).get(run.main_metric) if trained else None
        scale = curve.scale
        shown = f"{scale.show(mean['mean'])} ± {_half(mean, scale.factor)}" if mean else "-"
        steps = sum(record["steps"] for record in run.records)
        rows.append(plain(name, shown, last, str(len(run.records)), f"{steps:,}", format_duration(run_seconds(run))))
    metric = in_words(next(iter(named.values())).main_metric)
    headers = ["run", f"{metric}, evaluated", "at the end of training", "iterations", "steps", "time"]
    return Table("The runs", headers, rows, "With 95 % intervals over the episodes of the evaluation.")


def _curves(named: Mapping[str, RunData]) -> list[Block]:
    curves = {name: run.curve for name, run in named.items()}
    first = next(iter(named.values()))
    same = {curve.metric for curve in curves.values()} == {next(iter(curves.values())).metric}
    lines = baselines_of(first.evaluation_file, first.curve.metric) if same else {}

    def paint(figure: Any) -> None:
        draw_curve(figure.add_subplot(), curves, lines, first.curve.scale, STYLE)

    caption = "Points are iterations, lines their moving means, bands 95 % intervals of those."
    return [
        Figure(
            f"{in_words(first.curve.metric).capitalize()} over the iterations", draw("learning", 4.2, paint), caption
        )
    ]


def _differences(named: Mapping[str, RunData]) -> Block:
    names = dict.fromkeys(setting for run in named.values() for setting in run.settings if setting != "run_directory")
    rows = []
    for setting in names:
        values = [run.settings.get(setting, "not known") for run in named.values()]
        if any(value != values[0] for value in values):
            rows.append([Cell(setting.upper()), *(Cell(str(value)) for value in values)])
    if not rows:
        return Text(["The runs have the same settings."])
    return Table("Settings", ["setting", *named], rows, numeric=False)


def _half(mean: Mapping[str, float], factor: float) -> str:
    """Return half the interval of a mean."""
    return format_half((mean["high"] - mean["low"]) / 2 * factor, mean["mean"] * factor)
