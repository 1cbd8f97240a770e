"""Better, worse, or no difference shown: a policy against another one, episode by episode on the same streams."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.text import ROUNDING, format_half, format_number, in_words, scale_of
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic, paired_values
from longstride.training.evaluation.statistics import paired_difference

_SMALL = 0.01
"""Size below which a difference has a unit of its own."""

Word = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class Verdict:
    """How a policy compares with another by one metric, over the episodes in which both have it."""

    metric: str  # name of the metric
    unit: str  # its unit, "" where there is none
    against: str  # the other policy
    word: Word  # what the interval of the difference shows; a difference that is not judged is "no difference shown"
    value: float  # mean of the policy
    other: float  # mean of the other policy
    difference: float  # mean of policy minus other, in the metric's unit
    low: float  # lower end of its 95 % interval, Student's t over the pairs
    high: float  # upper end
    parts: Mapping[str, float] = field(default_factory=dict)  # half of the interval by source; none: episodes alone

    def percent(self, difference: float) -> float | None:
        """Return a difference in per cent of the other policy; None unless both means are positive.

        A share of a negative number, or of one that changes its sign, says nothing.
        """
        return 100.0 * difference / self.other if self.value > 0 and self.other > 0 else None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values: the verdict, the difference and its interval in units and in per cent."""
        ends = {"difference": self.difference, "low": self.low, "high": self.high}
        percents = {f"{name}_percent": self.percent(value) for name, value in ends.items()}
        parts = {"parts": dict(self.parts)} if self.parts else {}
        return {"verdict": self.word, "against": self.against, "unit": self.unit, **ends, **percents, **parts}

    @property
    def short(self) -> str:
        """The word and the difference with half its interval: in per cent, else in units, such as ``-25 ± 1.4 %``."""
        half, percent = (self.high - self.low) / 2, self.percent(self.difference)
        if self._is_none:
            return self.word
        if percent is None:
            scale = scale_of(self.unit, self.difference)
            return f"{self.word}: {_signed(self.difference * scale.factor)} ± {scale.show(half, 2)}"
        return f"{self.word}: {_signed(percent)} ± {format_half(100.0 * half / self.other, percent)} %"

    def means(self, name: str = "") -> str:
        """Return both means, such as ``5.6 h against 7.5 h mean cycle time``; a name stands behind the other one."""
        scale = scale_of(self.unit, self.other)
        suffix = "" if scale.unit in self.metric.split("_") else scale.suffix  # not "3 orders ... orders"
        value, other = (f"{number * scale.factor:,.4g}{suffix}" for number in (self.value, self.other))
        return f"{value} against {other}{f' ({name})' if name else ''} {in_words(self.metric)}"

    @property
    def long(self) -> str:
        """The difference with its 95 % interval, in per cent and in units."""
        if self._is_none:
            return "no difference in any episode; paired"
        scale, percents = scale_of(self.unit, self.other), [self.percent(number) for number in self._numbers]
        largest = max(map(abs, self._numbers))
        if largest * scale.factor < _SMALL:  # seconds of a cycle time in days
            scale = scale_of(self.unit, largest)
        mean, low, high = (_signed(number * scale.factor) for number in self._numbers)
        share, least, most = (_signed(number) if number is not None else "" for number in percents)
        if not share:
            return f"{mean}{scale.suffix}, 95 % interval {low} to {high}{scale.suffix}; paired"
        units = f"{mean}{scale.suffix}, {low} to {high}{scale.suffix}"
        return f"{share} %, 95 % interval {least} to {most} %; {units}; paired{self._sources}"

    @property
    def _sources(self) -> str:
        """The parts of half the interval, in points of per cent."""
        if not self.parts:
            return ""
        points = {name: 100.0 * half / self.other for name, half in self.parts.items()}
        named = ", ".join(f"{half:.1f} from {name}" for name, half in points.items())
        return f"; of the ±{sum(points.values()):.1f} points, {named}"

    @property
    def _is_none(self) -> bool:
        """Whether both are the same in all episodes."""
        return not any(self._numbers)

    @property
    def _numbers(self) -> tuple[float, float, float]:
        return self.difference, self.low, self.high


def _signed(number: float) -> str:
    """Return a number with its sign and three digits, or all of those before the point; without an exponent."""
    if 1e-12 < abs(number) < 1e-4:
        return f"{number:+.{2 - math.floor(math.log10(abs(number)))}f}"
    return f"{number:+,.0f}" if abs(number) >= 999.5 else f"{number:+.3g}"


def compare(result: Evaluation, simulator: Simulator, policy: str, against: str, metric: str = "") -> Verdict | None:
    """Compare two policies by a metric, the main one if none is named; None for less than two common episodes."""
    metric = metric or simulator.main_metric
    values, others = paired_values(result.records[policy], result.records[against], metric)
    if len(values) < 2 or isinstance(values[0], list):
        return None
    difference = paired_difference(values, others)
    means = fmean(values), fmean(others)
    numbers = difference.value, difference.low or 0.0, difference.high or 0.0  # None only for a single pair
    rounding = ROUNDING * max(map(abs, means))
    found, low, high = numbers if max(map(abs, numbers)) > rounding else (0.0, 0.0, 0.0)
    word = word_of(low, high, simulator.main_metric_lower_is_better)
    return Verdict(metric, simulator.unit_of(metric), against, word, *means, found, low, high)


def word_of(low: float, high: float, lower_is_better: bool) -> Word:
    """Return what an interval of a difference shows."""
    above, below = low > 0, high < 0
    better, worse = (below, above) if lower_is_better else (above, below)
    return "better" if better else "worse" if worse else "no difference shown"


def verdicts(result: Evaluation, simulator: Simulator) -> dict[str, Verdict]:
    """Return the verdict on each policy and heuristic against the best heuristic, which itself has none.

    There are none where the simulator withholds them.
    """
    best = best_heuristic(result.records, simulator)
    if best is None or simulator.hooks.withheld(simulator):
        return {}
    names = [name for name in result.records if name != best and name not in simulator.bounds]
    found = {name: compare(result, simulator, name, best) for name in names}
    return {name: verdict for name, verdict in found.items() if verdict is not None}


def optimum_sentence(result: Evaluation, simulator: Simulator, policy: str = "trained") -> str:
    """Return how far a policy is from the optimum; empty if it is not known or not played."""
    if simulator.optimal not in result.records or policy not in result.records:
        return ""
    verdict = compare(result, simulator, policy, simulator.optimal)
    if verdict is None:
        return ""
    if verdict.word != "worse":
        return f"No difference shown to the optimum, {simulator.optimal}: {verdict.means()} ({verdict.long})."
    percent, scale = verdict.percent(verdict.difference), scale_of(verdict.unit, verdict.difference)
    size = scale.show(abs(verdict.difference), 2) if percent is None else f"{format_number(abs(percent), 2)} %"
    side = "above" if verdict.difference > 0 else "below"
    return f"{size} {side} the optimum, {simulator.optimal}: {verdict.means()} ({verdict.long})."


def comparison_sentence(result: Evaluation, simulator: Simulator) -> str:
    """Return how the trained policy compares with the optimum, if it is known, and with the best heuristic.

    A simulator may withhold the verdict: then it is the reason.
    """
    return simulator.hooks.withheld(simulator) or " ".join(
        filter(None, (optimum_sentence(result, simulator), _heuristic_sentence(result, simulator)))
    )


def _heuristic_sentence(result: Evaluation, simulator: Simulator) -> str:
    best = best_heuristic(result.records, simulator)
    if best is None and simulator.optimal in result.records:
        return ""
    if best is None:
        played = any(name in simulator.heuristics for name in result.records)
        return f"No heuristic has a number for {simulator.main_metric}." if played else "No heuristic to compare with."
    verdict = compare(result, simulator, "trained", best)
    if verdict is None:
        return f"Too few episodes to compare with {best}."
    words = {"better": "Better than", "worse": "Worse than", "no difference shown": "No difference shown to"}
    return f"{words[verdict.word]} the best heuristic, {best}: {verdict.means()} ({verdict.long})."


def as_json(result: Evaluation, simulator: Simulator) -> dict[str, Any]:
    """Return what evaluation.json holds beside the means: metric, units, verdicts, and each episode's numbers."""
    names = dict.fromkeys(name for records in result.records.values() for record in records for name in record)
    return {
        **result.as_json(),
        "main_metric": simulator.main_metric,
        "lower_is_better": simulator.main_metric_lower_is_better,
        "units": {name: unit for name in names if (unit := simulator.unit_of(name))},
        "kinds": {name: kind_of(name, simulator) for name in result.records},
        "best_heuristic": best_heuristic(result.records, simulator),
        "verdicts": {name: verdict.as_json() for name, verdict in verdicts(result, simulator).items()},
        "seed": result.seed,
        "messages": result.messages,
        "per_episode": {name: _columns(records) for name, records in result.records.items()},
    }


def kind_of(name: str, simulator: Simulator) -> str:
    """Return whether a row of an evaluation is a ``policy``, a ``heuristic`` or a ``bound``."""
    if name in simulator.heuristics:
        return "heuristic"
    return "bound" if name in simulator.bounds else "policy"


def from_json(content: dict[str, Any]) -> Evaluation | None:
    """Return the evaluation that :func:`as_json` wrote; None if an earlier version wrote it."""
    try:
        records = {
            name: [{k: column[i] for k, column in columns.items() if _is_known(column[i])} for i in range(count)]
            for name, columns in content["per_episode"].items()
            for count in [len(next(iter(columns.values()), []))]
        }
        references = content.get("references", {})
        return Evaluation(content["episodes"], records, content["messages"], references, content["seed"])
    except (KeyError, TypeError, AttributeError, IndexError):
        return None


def _is_known(value: Any) -> bool:
    """Return whether a metric of an episode is there and finite: earlier versions wrote infinite ones."""
    return value is not None and bool(np.isfinite(value).all())


def _columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the metrics by name, a value (or None) for each episode."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}
