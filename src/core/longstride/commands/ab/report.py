"""From the records of runs to a report: times by phase, the learned metric, sentences; pure functions."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any, NamedTuple

from rich.table import Table

from longstride.text import format_duration
from longstride.training.evaluation.statistics import Paired, paired_difference, paired_ratio

Records = Sequence[dict[str, Any]]
Pairs = Sequence[dict[str, Any]]
FEW = 5
PHASES = ("simulation", "transfer", "update")
ITERATION = "iteration"
"""The three phases together."""


class CommonMetric(NamedTuple):
    """The main metric of both sides' simulators; its name is empty where they have none in common."""

    name: str
    lower_is_better: bool


_LABELS = {
    "step": "iteration, each step",
    "first_iteration": "first iteration (warm-up)",
    "outside_iterations": "outside iterations (start, compiling, saving)",
}
_LAST_COMPARED = "step"
"""The last row of the comparison; those after it are only shown."""


def run_figures(records: Records, seconds: float, metric: str, batch_size: int) -> dict[str, Any]:
    """Return JSON values about a run, from two or more records and the seconds of its process from start to end.

    The first record is warm-up and counts in no median. The metric may be ``"return"``.

    Returns:
        ``seconds``: medians over iterations of each phase, of the whole ``iteration``, of a ``step`` (an iteration
        divided by its steps), and apart from them the ``first_iteration`` and the time ``outside_iterations`` (start,
        loading, compiling, evaluations, saving); the ``outcome``; and what was ``chosen``, by the plan or in the run.
    """
    times = [_times(record) for record in records]
    return {
        "iterations": len(records),
        "seconds": {
            **{name: median(each[name] for each in times[1:]) for name in times[0]},
            "first_iteration": times[0][ITERATION],
            "outside_iterations": seconds - sum(each[ITERATION] for each in times),
        },
        "outcome": outcome_of(records, metric),
        "chosen": {**{name: records[-1][name] for name in ("execution", "precision")}, "batch_size": batch_size},
    }


def outcome_of(records: Records, metric: str) -> float | None:
    """Return a metric's mean in a run's last evaluation, else in the later half of its iterations; None if unknown."""
    evaluations = [record["evaluation"]["metrics"] for record in records if record.get("evaluation")]
    if evaluations and metric in evaluations[-1]:
        return float(evaluations[-1][metric]["mean"])
    later = records[(len(records) + 1) // 2 :]
    values = [r["return"] if metric == "return" else r["metrics"].get(metric) for r in later]
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None


def played_the_same(a: Records, b: Records) -> bool:
    """Return whether two runs played the same steps to the bit, in every iteration."""
    digests_a, digests_b = ([record.get("trajectory_sha256") for record in records] for records in (a, b))
    return digests_a == digests_b and None not in digests_a


def _times(record: dict[str, Any]) -> dict[str, float]:
    phases = {phase: float(record[f"{phase}_seconds"]) for phase in PHASES}
    whole = sum(phases.values())
    return {**phases, ITERATION: whole, "step": whole / record["steps"]}


def compare(pairs: Pairs, metric: CommonMetric) -> dict[str, Any]:
    """Return JSON values: for each time both medians and the ratio B / A, for the metric the difference B - A.

    The pairs, one or more, are those of :func:`longstride.commands.ab.runs.read_pair`.
    """
    a, b = ([pair[side]["seconds"] for pair in pairs] for side in "ab")
    result = {
        "pairs": len(pairs),
        "seconds": {name: _compared([run[name] for run in a], [run[name] for run in b]) for name in a[0]},
        "played_the_same": all(pair["played_the_same"] for pair in pairs),
        "outcome": _outcome(pairs, metric),
    }
    return {**result, "sentences": [_ran_as(pairs), *_sentences(result, metric)]}


def table_of(comparison: dict[str, Any]) -> Table:
    """Return the table of a comparison."""
    table = Table(
        title=f"Medians over {comparison['pairs']} pairs; their ratios' geometric mean and 95 % interval (Student's t)"
    )
    table.add_column("", no_wrap=True)
    for name in ("A", "B", "B / A", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in comparison["seconds"].items():
        ratio = interval = "-"
        if row["ratio"]:
            ratio = f"{row['ratio']['value']:.3f}"
            if row["ratio"]["low"] is not None:
                interval = f"{row['ratio']['low']:.3f} to {row['ratio']['high']:.3f}"
        times = (format_duration(row[side]) for side in "ab")
        table.add_row(_LABELS.get(name, name), *times, ratio, interval, end_section=name == _LAST_COMPARED)
    return table


def _compared(a: list[float], b: list[float]) -> dict[str, Any]:
    ratio = paired_ratio(b, a)
    return {"a": median(a), "b": median(b), "ratio": asdict(ratio) if ratio else None}


def _outcome(pairs: Pairs, metric: CommonMetric) -> dict[str, Any] | None:
    """Return the means of both outcomes and their paired difference; None where there is nothing to compare."""
    a, b = ([pair[side]["outcome"] for pair in pairs] for side in "ab")
    if not metric.name or None in a or None in b:
        return None
    return {"metric": metric.name, "a": fmean(a), "b": fmean(b), "difference": asdict(paired_difference(b, a))}


def _ran_as(pairs: Pairs) -> str:
    """Return the plan's choices for the settings, which may be the same for both: on a CPU auto is FP32."""
    a, b = (" or ".join(sorted({_format_chosen(pair[side]["chosen"]) for pair in pairs})) for side in "ab")
    return f"Both ran with {a}." if a == b else f"A ran with {a}; B with {b}."


def _format_chosen(chosen: dict[str, Any]) -> str:
    return f"{chosen['execution']} steps in {chosen['precision']}, minibatches of {chosen['batch_size']:,} samples"


def _sentences(result: dict[str, Any], metric: CommonMetric) -> list[str]:
    """Return which side is faster and where, whether the learned metric differs, and how much to believe."""
    ratios = {name: result["seconds"][name]["ratio"] for name in (ITERATION, *PHASES)}
    lines = [_faster(name, Paired(**ratio)) for name, ratio in ratios.items() if ratio]
    lines.append(_learning(result, metric))
    if result["pairs"] < FEW:
        lines.append(f"Few pairs ({result['pairs']}): the same command with more --pairs adds to them.")
    return lines


def _faster(name: str, ratio: Paired) -> str:
    words = f"{name.capitalize()}: B takes {ratio.value:.3g} times as long as A"
    if ratio.low is None or ratio.high is None:
        return f"{words} in the one pair that there is."
    verdict = "B is faster" if ratio.high < 1 else "A is faster" if ratio.low > 1 else "no difference is shown"
    return f"{words} (95 % interval {ratio.low:.3g} to {ratio.high:.3g}): {verdict}."


def _learning(result: dict[str, Any], metric: CommonMetric) -> str:
    if result["played_the_same"]:
        return "Learning: both sides played the same steps in every iteration, to the bit."
    if result["outcome"] is None:
        return "Learning: not compared, because the two sides have no main metric in common or no episode ended."
    outcome, difference = result["outcome"], Paired(**result["outcome"]["difference"])
    words = f"Learning: {metric.name.replace('_', ' ')} is {outcome['a']:.5g} (A) and {outcome['b']:.5g} (B)"
    low, high = difference.low, difference.high
    if low is None or high is None:
        return f"{words} in the one pair that there is."
    verdict = "no difference is shown"
    if high < 0 or low > 0:
        verdict = "B learns better" if metric.lower_is_better == (high < 0) else "B learns worse"
    return f"{words}, B - A {difference.value:.3g} (95 % interval {low:.3g} to {high:.3g}): {verdict}."
