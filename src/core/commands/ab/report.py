"""What pairs of runs say: times by phase, what was learned, and sentences about both."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any, NamedTuple

from rich.table import Table

from core.commands.ab.run_metrics import PHASES, ROUND
from core.training.evaluation.statistics import Paired, paired_difference, paired_ratio

Pairs = Sequence[dict[str, Any]]
FEW = 5


class Outcome(NamedTuple):
    """What is looked at beside the time: a metric of the simulator; empty where the two sides have no common one."""

    metric: str
    lower_is_better: bool


_LABELS = {
    "decision": "round, each decision",
    "first_round": "first round (warm-up)",
    "outside_rounds": "outside rounds (start, compiling, saving)",
}
_LAST_COMPARED = "decision"
"""What comes after it is shown, but no part of the comparison."""


def compare(pairs: Pairs, outcome: Outcome) -> dict[str, Any]:
    """Return JSON values: of each measure both medians and the ratio b / a, and of the outcome the difference b - a.

    Args:
        pairs: what :func:`core.commands.ab.runs.read_pair` says of each, one or more.
        outcome: what is looked at beside the time.
    """
    a, b = ([pair[side]["seconds"] for pair in pairs] for side in "ab")
    found = {name: _compared([run[name] for run in a], [run[name] for run in b]) for name in a[0]}
    same = all(pair["played_the_same"] for pair in pairs)
    result = {"pairs": len(pairs), "seconds": found, "played_the_same": same, "outcome": _learned(pairs, outcome)}
    return {**result, "sentences": [_ran_as(pairs), *_sentences(result, outcome)]}


def table_of(comparison: dict[str, Any]) -> Table:
    """Return the table of a comparison."""
    table = Table(
        title=f"Medians over {comparison['pairs']} pairs; their ratios' geometric mean and 95 % interval (Student's t)"
    )
    table.add_column("", no_wrap=True)
    for name in ("A", "B", "B / A", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in comparison["seconds"].items():
        times = [_duration(row["a"]), _duration(row["b"])]
        ratio = f"{row['ratio']['value']:.3f}" if row["ratio"] else "-"
        cells = (ratio, _interval(row["ratio"]))
        table.add_row(_LABELS.get(name, name), *times, *cells, end_section=name == _LAST_COMPARED)
    return table


def _compared(a: list[float], b: list[float]) -> dict[str, Any]:
    ratio = paired_ratio(a, b)
    return {"a": median(a), "b": median(b), "ratio": asdict(ratio) if ratio else None}


def _learned(pairs: Pairs, outcome: Outcome) -> dict[str, Any] | None:
    """Return the means of both outcomes and their paired difference; None where there is nothing to compare."""
    a, b = ([pair[side]["outcome"] for pair in pairs] for side in "ab")
    if not outcome.metric or None in a or None in b:
        return None
    difference = asdict(paired_difference(a, b))
    return {"metric": outcome.metric, "a": fmean(a), "b": fmean(b), "difference": difference}


def _ran_as(pairs: Pairs) -> str:
    """Return what the plan made of the settings, which may be the same for both: on a CPU auto is FP32."""
    a, b = (" or ".join(sorted({_in_words(pair[side]["chosen"]) for pair in pairs})) for side in "ab")
    return f"Both ran with {a}." if a == b else f"A ran with {a}; B with {b}."


def _in_words(chosen: dict[str, Any]) -> str:
    return f"{chosen['execution']} steps in {chosen['precision']}, minibatches of {chosen['batch_size']:,} samples"


def _sentences(result: dict[str, Any], outcome: Outcome) -> list[str]:
    """Return which side is faster and where, whether what was learned differs, and how much to believe."""
    lines = [_faster(name, result["seconds"][name]["ratio"]) for name in (ROUND, *PHASES)]
    lines.append(_learning(result, outcome))
    if result["pairs"] < FEW:
        lines.append(f"Few pairs ({result['pairs']}): the same command with more --pairs adds to them.")
    return list(filter(None, lines))


def _faster(name: str, ratio: dict[str, Any] | None) -> str:
    if ratio is None:
        return ""
    value = Paired(**ratio)
    words = f"{name.capitalize()}: B takes {value.value:.3g} times as long as A"
    if value.low is None or value.high is None:
        return f"{words} in the one pair that there is."
    faster = "B is faster" if value.high < 1 else "A is faster" if value.low > 1 else "no difference is shown"
    return f"{words} (95 % interval {value.low:.3g} to {value.high:.3g}): {faster}."


def _learning(result: dict[str, Any], outcome: Outcome) -> str:
    if result["played_the_same"]:
        return "Learning: both sides played the same decisions in every round, to the bit."
    if result["outcome"] is None:
        return "Learning: not compared, because the two sides have no main metric in common or no episode ended."
    learned = result["outcome"]
    value = Paired(**learned["difference"])
    words = f"Learning: {outcome.metric.replace('_', ' ')} is {learned['a']:.5g} (A) and {learned['b']:.5g} (B)"
    if value.low is None or value.high is None:
        return f"{words} in the one pair that there is."
    b_is_lower, b_is_higher = value.high < 0, value.low > 0
    better = b_is_lower if outcome.lower_is_better else b_is_higher
    verdict = (
        "no difference is shown" if not (b_is_lower or b_is_higher) else f"B learns {'better' if better else 'worse'}"
    )
    return f"{words}, B - A {value.value:.3g} (95 % interval {value.low:.3g} to {value.high:.3g}): {verdict}."


def _interval(ratio: dict[str, Any] | None) -> str:
    return f"{ratio['low']:.3f} to {ratio['high']:.3f}" if ratio and ratio["low"] is not None else "-"


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "0"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.2f} {unit}"
    return f"{seconds * 1e6:,.2f} µs"
