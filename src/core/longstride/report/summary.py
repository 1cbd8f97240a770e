"""The top of the page: what came out, for somebody who reads nothing else."""

from typing import Any

from longstride.report.machine import run_seconds
from longstride.report.page import Tile
from longstride.report.run_data import RunData
from longstride.simulators.simulator import Simulator
from longstride.text import Scale, counted, format_duration, format_number, in_words, scale_of
from longstride.training.evaluation.comparison import comparison_sentence, verdicts
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic, summarise
from longstride.training.evaluation.plain_words import plain_words


def subtitle(run: RunData) -> str:
    """Return what was trained on what, for how long."""
    source = run.checkpoint.get("simulator", {})
    name = source.get("scenario") or str(source.get("simulator", "")).rpartition(":")[2] or "a simulator"
    steps = sum(record["steps"] for record in run.records)
    return f"A policy for {name}: {counted(len(run.records), 'iteration')}, {steps:,} steps of simulation."


def verdict(run: RunData) -> tuple[str, str]:
    """Return the first sentence of the page, and its tone."""
    result, simulator = run.evaluation, run.simulator
    if result is not None and simulator is not None and "trained" in result.records:
        found = verdicts(result, simulator).get("trained")
        tone = found.word if found is not None and found.word in ("better", "worse") else ""
        return comparison_sentence(result, simulator), tone
    curve = run.curve
    if not len(curve.values):
        return f"No episode of this run has a number for {in_words(curve.metric)}.", ""
    first, last = float(curve.mean[0]), float(curve.mean[-1])
    scale = curve.scale
    means = f"means of {curve.window} iterations" if curve.window else "single iterations"
    return (
        f"Not evaluated yet. In training the {in_words(curve.metric)} went from {scale.show(first)} to "
        f"{scale.show(last)} ({means}).",
        "",
    )


def words(run: RunData) -> list[str]:
    """Return what the policy changes, in plain words."""
    if run.evaluation is None or run.simulator is None:
        return []
    return plain_words(run.evaluation, run.simulator)


def tiles(run: RunData) -> list[Tile]:
    """Return the numbers at the top."""
    found = []
    if run.evaluation is not None and run.simulator is not None:
        found = _results(run.evaluation, run.simulator)
    return [*found, Tile("training took", format_duration(run_seconds(run)), f"{len(run.records)} iterations")]


def _results(result: Evaluation, simulator: Simulator) -> list[Tile]:
    best, metric = best_heuristic(result.records, simulator), simulator.main_metric
    labels = {
        "trained": "trained policy",
        str(best): f"best heuristic: {best}",
        "untrained": "untrained policy",
        **{name: f"no policy can beat: {in_words(name)}" for name in simulator.bounds},
    }
    means = {name: summarise(records).get(metric) for name, records in result.records.items()}
    sizes = [mean["mean"] for name in labels if (mean := means.get(name))]
    scale = scale_of(simulator.unit_of(metric), sizes[0] if sizes else 0.0)
    return [_tile(labels[name], metric, means[name], scale) for name in labels if name in means]


def _tile(label: str, metric: str, mean: dict[str, Any] | None, scale: Scale) -> Tile:
    """Return the tile of a policy's mean; a dash with the metric's name and unit if no episode has the metric."""
    if mean is None:
        return Tile(label, f"-{scale.suffix}", in_words(metric))
    half = format_number((mean["high"] - mean["low"]) / 2 * scale.factor, 2)
    return Tile(label, scale.show(mean["mean"]), f"{in_words(metric)}, ±\u00a0{half}")


def warnings(run: RunData) -> list[str]:
    """Return what a reader has to know first: a run that stopped early, files that are missing."""
    records = run.evaluation.records if run.evaluation is not None else {}
    opening = run.simulator.hooks.opening(run.simulator, records) if run.simulator is not None else []
    found = [*opening, *run.notes]
    if run.interrupted:
        done, planned = run.iterations
        of = f" of {planned}" if planned else ""
        found.insert(0, f"This run is not finished: it has done iteration {done}{of}.")
    return found
