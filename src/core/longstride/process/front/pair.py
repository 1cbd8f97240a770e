"""Two metrics of a process that are weighed against each other, and the objectives of the policies between them."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.process.kernel.aims.arrays import length_of_hour
from longstride.process.read_aims import changed
from longstride.process.scenario.aims import NEEDED, OF_ALL, QUANTITIES, SHARE_BEYOND, TIMES
from longstride.process.scenario.scenario import Scenario
from longstride.simulators.hooks import Records

DEFAULT = "cost_per_case,mean_cycle_time"
"""Metrics of a front without --metrics."""

SPAN = 16.0
"""The largest weight of the second metric is this many times that at which both count the same, the least a part."""

_QUANTITIES = {
    **dict.fromkeys((*OF_ALL, "p95_cycle_time", SHARE_BEYOND), "cycle_time"),
    **{metric: name for name, metric in QUANTITIES.items()},
}
"""What an objective weighs for each metric: for quantiles and promises of cycle times, these themselves."""

_FLAGS = {"due": "--due '5 days'", "costs": "--cost 40"}


class Pair(NamedTuple):
    """Two metrics, of which the least is the best, and the quantities that an objective weighs for them."""

    metrics: tuple[str, str]
    quantities: tuple[str, str]

    def objective(self, weight: float) -> dict[str, float]:
        """Return the objective in which the second quantity has a weight and the first one 1."""
        return {self.quantities[0]: 1.0, self.quantities[1]: weight}

    def on(self, scenario: Scenario, weight: float = 1.0) -> Scenario:
        """Return a scenario with the objective of a weight, so that it has both metrics.

        Raises:
            UserError: the scenario has no costs or due dates, which a quantity needs.
        """
        return changed(scenario, {"objective": self.objective(weight), "main_metric": None})


def read_pair(text: str, scenario: Scenario) -> Pair:
    """Return the metrics in a text such as ``cost_per_case,mean_cycle_time``.

    Raises:
        UserError: they are not two metrics of the scenario, or both follow from one quantity.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) != 2:
        raise UserError(f"--metrics is {text!r}; expected two metrics, such as {DEFAULT}.")
    for name in names:
        if name not in _QUANTITIES:
            known = ", ".join(_QUANTITIES)
            raise UserError(f"--metrics: {name!r} is not a metric of a process{suggestion(name, _QUANTITIES, known)}")
        needed = NEEDED.get(_QUANTITIES[name])
        if needed and getattr(scenario.aims, needed) is None:
            raise UserError(f"--metrics: {name} needs {needed} of the process; add {_FLAGS[needed]}.")
        if name == SHARE_BEYOND and scenario.aims.target is None:
            raise UserError(f"--metrics: {name} needs a promise; add --target '95% within 10 days'.")
    first, second = (_QUANTITIES[name] for name in names)
    if first == second:
        raise UserError(f"--metrics: {names[0]} and {names[1]} are both about {first}; name metrics of two quantities.")
    return Pair((names[0], names[1]), (first, second))


def even_weight(pair: Pair, scenario: Scenario, records: Records) -> float:
    """Return the weight with which both quantities of the mean case of some episodes count the same; 1 if one is 0.

    Raises:
        UserError: no episode has a value of one of them.
    """
    first, second = (_in_hours(mean_of(records, QUANTITIES[name]), name, scenario) for name in pair.quantities)
    return first / second if first > 0.0 and second > 0.0 else 1.0


def mean_of(records: Records, metric: str) -> float:
    """Return the mean of a metric over the episodes that have it.

    Raises:
        UserError: none has, such as a share of late cases where every due date is after the end.
    """
    values = [float(record[metric]) for record in records if metric in record]
    if not values:
        raise UserError(
            f"--metrics: no episode has a value of {metric}; name another metric, or a due date or a promise that "
            "falls within an episode."
        )
    return fmean(values)


def spread_weights(even: float, count: int) -> list[float]:
    """Return weights around an even one, in the order of training: the middle, the ends, then those between.

    They are even steps of the logarithm, rounded to three digits.
    """
    exponents = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
    middle = (count - 1) // 2
    order = list(dict.fromkeys([middle, 0, count - 1, *_halves(0, middle), *_halves(middle, count - 1)]))
    return [float(f"{even * SPAN ** exponents[i]:.3g}") for i in order]


def read_weights(text: str) -> list[float]:
    """Return the weights in a text such as ``0.5,2,8``.

    Raises:
        UserError: one is no number above 0, or two are equal.
    """
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if not weights or not all(0.0 < weight < float("inf") for weight in weights) or len(set(weights)) < len(weights):
        raise UserError(f"--weights is {text!r}; expected different numbers above 0, such as 0.5,2,8.")
    return weights


def _in_hours(value: float, quantity: str, scenario: Scenario) -> float:
    return value / (length_of_hour(scenario) if quantity in TIMES else 1.0)


def _halves(low: int, high: int) -> Sequence[int]:
    """Return the numbers between two others, each half before its parts."""
    if high - low < 2:
        return []
    middle = (low + high) // 2
    return [middle, *_halves(low, middle), *_halves(middle, high)]
