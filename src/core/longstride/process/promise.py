"""The promise of a target: the weight of a case beyond it, and sentences about the aims of a process.

The weight is the multiplier of a constraint: the share of cases beyond the target is at most what is promised. Dual
ascent raises it while the promise is missed and lowers it, to 0 at least, while it is kept (Boyd and Vandenberghe,
Convex Optimization, 2004, section 5.5.5; for policies: Tessler et al., Reward Constrained Policy Optimization, 2019).
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from longstride.process.kernel.aims.arrays import BEYOND
from longstride.process.scenario.aims import LAST, QUANTITIES, SHARE_BEYOND, TIMES
from longstride.process.scenario.scenario import Scenario
from longstride.simulators.hooks import Records
from longstride.text import in_words, scale_of
from longstride.training.evaluation.statistics import mean_and_margin

_WORDS = {
    "cycle_time": "cycle time",
    "tardiness": "tardiness",
    "late": "late case",
    "cost": "unit of cost",
    "waiting": "waiting",
    "handovers": "handover",
    "overtime": "overtime",
}

_RATE = 0.5
"""Step of the weight where the share beyond the target is twice the promised exceptions or more. The unit is the weight
at which the promised exceptions alone cost as much as all that the first iteration paid."""


class DualAscent:
    """The weight of a case beyond the target, which is in ``parameters.weights``, and the unit of its steps."""

    def __init__(self) -> None:
        self._unit = 0.0

    def learn(self, simulator: Any, records: Records) -> dict[str, float]:
        """Change the weight by the episodes of an iteration; return it. Without a target there is none."""
        target, weights = simulator.scenario.aims.target, simulator.parameters["weights"]
        shares = [record[SHARE_BEYOND] for record in records if SHARE_BEYOND in record]
        if target is None or not shares:
            return {} if target is None else {"target_weight": float(weights[BEYOND])}
        exceptions = 1.0 - target.share
        self._unit = self._unit or abs(fmean(record["return"] for record in records)) / exceptions
        missed = min(fmean(shares) / exceptions - 1.0, 1.0)
        weights[BEYOND] = max(float(weights[BEYOND]) + _RATE * self._unit * missed, 0.0)
        return {"target_weight": float(weights[BEYOND])}

    def state(self, simulator: Any) -> dict[str, float]:
        """Return the JSON values of a checkpoint."""
        return {"unit": self._unit, "weight": float(simulator.parameters["weights"][BEYOND])}

    def restore(self, simulator: Any, state: Mapping[str, float]) -> None:
        """Restore :meth:`state`; a checkpoint of a run without a target has none."""
        self._unit = state.get("unit", 0.0)
        simulator.parameters["weights"][BEYOND] = state.get("weight", 0.0)


def aims_sentences(scenario: Scenario) -> list[str]:
    """Return sentences about the objective and the main metric; nothing where both are the usual ones."""
    aims, hour = scenario.aims, "time unit" if scenario.time_unit == "abstract" else "hour"
    weights = [f"one of {name} counts {weight:g} times" for name, weight in aims.class_weights.items()]
    counted = [f"Classes of cases: {', '.join(weights)}."] if aims.weighs else []
    if aims.late_cases == LAST:
        counted.append("All policies and rules serve cases last that can no longer be in time.")
    if len(aims.objective) > 1:
        parts = [
            f"{weight:g} for each {f'{hour} of ' if name in TIMES else ''}{_WORDS[name]}"
            for name, weight in aims.objective.items()
        ]
        return [f"Objective, for each case: {', '.join(parts)}.", *counted]
    usual = next(iter(QUANTITIES))
    one = QUANTITIES[next(iter(aims.objective), usual)]
    return [*([f"Objective: {in_words(one)}."] if one != QUANTITIES[usual] or counted else []), *counted]


def late_cases_hint(scenario: Scenario) -> list[str]:
    """Return a sentence about ``late_cases`` if late cases still take their turn, although they cost nothing more."""
    aims = scenario.aims
    if "late" not in aims.objective or "tardiness" in aims.objective or aims.late_cases == LAST:
        return []
    return [
        "In each queue, cases that can no longer be in time still take their turn; LATE_CASES = 'last' serves them "
        "after all others."
    ]


def promise_sentences(scenario: Scenario, records: Mapping[str, Records]) -> list[str]:
    """Return a sentence that says which policies keep the promise of the target, with 95 % intervals."""
    target, found = scenario.aims.target, list[str]()
    if target is None:
        return []
    for name, episodes in records.items():
        share = share_within(episodes)
        if share is None:
            continue
        mean, low, high = share
        word = (
            "keeps it" if low >= target.share else "misses it" if high < target.share else "is not shown to do either"
        )
        found.append(
            f"{name} {word} with {100.0 * mean:.1f} % (95 % interval {100.0 * low:.1f} to {100.0 * high:.1f} %)"
        )
    scale = scale_of(scenario.time_unit, target.within)
    promise = f"{100.0 * target.share:g} % of the cases within {target.within * scale.factor:g}{scale.suffix}"
    return [f"Promise of {promise}: {'; '.join(found)}."] if found else []


def share_within(episodes: Records) -> tuple[float, float, float] | None:
    """Return the share of cases within the target, and the ends of its 95 % interval, from 0 to 1.

    It is None for less than two episodes that have it.
    """
    shares = np.array([1.0 - record[SHARE_BEYOND] for record in episodes if SHARE_BEYOND in record])
    if len(shares) < 2:
        return None
    mean, margin = (float(number) for number in mean_and_margin(shares))
    return mean, max(mean - margin, 0.0), min(mean + margin, 1.0)
