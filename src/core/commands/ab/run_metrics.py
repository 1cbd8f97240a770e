"""Times and result of one run of a comparison: pure functions of the records of its metrics.jsonl."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

PHASES = ("simulation", "transfer", "update")
ITERATION = "iteration"
"""The three phases together."""

Records = Sequence[dict[str, Any]]


def run_figures(records: Records, seconds: float, metric: str, batch_size: int) -> dict[str, Any]:
    """Return JSON values about a run whose process took some seconds, start and end included.

    Its records are two or more; the first is warm-up and counts in no median. The metric may be ``"return"``.

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
    """Return what a run learned: the metric's mean in its last evaluation, else in the later half of its iterations.

    None where no episode of these ended.
    """
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
