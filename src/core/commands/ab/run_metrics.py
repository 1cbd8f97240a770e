"""What one run of a comparison took and learned: pure functions of the records of its metrics.jsonl."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

PHASES = ("simulation", "transfer", "update")
ROUND = "round"
"""The three phases together."""

Records = Sequence[dict[str, Any]]


def figures_of(records: Records, seconds: float, metric: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values about a run.

    Args:
        records: of its rounds, two or more; the first is warm-up and counts in no median.
        seconds: of its process, from start to end.
        metric: of the simulator, or ``"return"``.
        plan: of the run.

    Returns:
        ``seconds``: medians over rounds of each phase, of the whole ``round``, of a ``decision`` (a round by its
        decisions), and apart from them the ``first_round`` and what is ``outside_rounds`` (start, loading, compiling,
        evaluations, saving); the ``outcome``; and what was ``chosen``, by the plan or while it ran.
    """
    rounds = [_seconds(record) for record in records]
    return {
        "rounds": len(records),
        "seconds": {
            **{name: median(spent[name] for spent in rounds[1:]) for name in rounds[0]},
            "first_round": rounds[0][ROUND],
            "outside_rounds": seconds - sum(spent[ROUND] for spent in rounds),
        },
        "outcome": outcome_of(records, metric),
        "chosen": {
            **{name: records[-1][name] for name in ("execution", "precision")},
            "batch_size": plan["batch_size"],
        },
    }


def outcome_of(records: Records, metric: str) -> float | None:
    """Return what a run learned: the metric's mean in its last evaluation, else in the later half of its rounds.

    None where no episode of these ended.
    """
    evaluated = [record["evaluation"]["metrics"] for record in records if record.get("evaluation")]
    if evaluated and metric in evaluated[-1]:
        return float(evaluated[-1][metric]["mean"])
    values = [_metric(record, metric) for record in records[(len(records) + 1) // 2 :]]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def played_the_same(a: Records, b: Records) -> bool:
    """Return whether two runs played the same decisions to the bit, in every round."""
    digests = [[record.get("trajectory_sha256") for record in records] for records in (a, b)]
    return digests[0] == digests[1] and None not in digests[0]


def _seconds(record: dict[str, Any]) -> dict[str, float]:
    spent = {phase: float(record[f"{phase}_seconds"]) for phase in PHASES}
    whole = sum(spent.values())
    return {**spent, ROUND: whole, "decision": whole / record["steps"]}


def _metric(record: dict[str, Any], metric: str) -> float | None:
    value = record["return"] if metric == "return" else record["metrics"].get(metric)
    return None if value is None else float(value)
