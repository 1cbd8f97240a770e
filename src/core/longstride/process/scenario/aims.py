"""Keys of scenario files that say what a process is measured by: due dates, costs, a promise, and the objective."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field

from longstride.errors import suggestion
from longstride.process.scenario.schema import Strict

QUANTITIES = {
    "cycle_time": "mean_cycle_time",
    "tardiness": "mean_tardiness",
    "late": "share_late",
    "cost": "cost_per_case",
    "waiting": "mean_waiting_time",
    "handovers": "handovers_per_case",
    "overtime": "overtime_per_case",
}
"""What an objective can weigh, in the order of the simulator's arrays, and the metric that shows each."""

TIMES = "cycle_time", "tardiness", "waiting", "overtime"
"""Quantities that are times: their weights are for an hour, or for a time unit where that is abstract."""

NEEDED = {"tardiness": "due", "late": "due", "cost": "costs"}
"""Keys of a scenario without which a quantity is unknown."""

OBJECTIVE, SHARE_BEYOND = "objective", "share_beyond_target"
"""Metrics: of an objective of several quantities, the sum of theirs times their weights; of a target, cases beyond."""

WITH_PROMISE = "objective_with_promise"
"""Metric of a target: that of the objective, more by the share of the promised exceptions that a policy exceeds."""

OF_ALL = "mean_cycle_time", "median_cycle_time", "p90_cycle_time"
"""Metrics of every process of which the least is the best."""

_WORDS = {
    "due": "due dates; --due '5 days' gives each case five days",
    "costs": "costs; --cost 40 pays each person 40 an hour",
}


class Due(Strict):
    """The allowance of a case, in time units from its arrival to its due date.

    ``after`` is the same for all cases, ``quantiles`` are in even steps of probability, and ``each`` has one for each
    of the times of replayed arrivals.
    """

    after: float | None = Field(default=None, gt=0)
    quantiles: list[float] | None = Field(default=None, min_length=2)
    each: list[float] | None = Field(default=None, min_length=1)


class Costs(Strict):
    """Costs of people for an hour (a time unit where that is abstract), and of each task of an activity.

    ``everyone`` is for people without a rate of their own. They are paid while they are ``at work`` on a task, or while
    they are ``on duty`` or at work.
    """

    everyone: float = Field(default=0.0, ge=0)
    per_hour: dict[str, float] = Field(default_factory=dict)
    per_task: dict[str, float] = Field(default_factory=dict)
    paid: Literal["at work", "on duty"] = "at work"

    def rates(self, resources: Sequence[str]) -> list[float]:
        """Return the rate of each resource."""
        return [self.per_hour.get(name, self.everyone) for name in resources]


class Target(Strict):
    """A promise: this share of the cases is done within so many time units of their arrival."""

    share: float = Field(gt=0, lt=1)
    within: float = Field(gt=0)


class Aims(Strict):
    """What a process is measured by. ``objective`` is quantity -> weight; without one it is the cycle time.

    ``main_metric`` names the metric that chooses the best policy; without one it is that of the objective.
    """

    objective: dict[str, float] = Field(default_factory=dict)
    due: Due | None = None
    costs: Costs | None = None
    target: Target | None = None
    main_metric: str | None = None

    @property
    def metrics(self) -> list[str]:
        """Metrics of which the least is the best, besides those of every process."""
        known = {"due": self.due is not None, "costs": self.costs is not None}
        named = [
            metric for name, metric in QUANTITIES.items() if known.get(NEEDED.get(name, ""), name in self.objective)
        ]
        own = [name for name in named if name not in OF_ALL] + ([OBJECTIVE] if len(self.objective) > 1 else [])
        own = ["p95_cycle_time", *own] if self != Aims() else own
        return own + ([SHARE_BEYOND, WITH_PROMISE] if self.target else [])

    @property
    def minimised(self) -> str:
        """The metric of the objective."""
        names = list(self.objective) or [next(iter(QUANTITIES))]
        return QUANTITIES[names[0]] if len(names) == 1 else OBJECTIVE

    @property
    def shown_metric(self) -> str:
        """The main metric."""
        return self.main_metric or (WITH_PROMISE if self.target else self.minimised)


def problems_of_aims(
    aims: Aims, times: Sequence[float] | None, activities: Sequence[str], resources: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each problem; ``times`` are those of replayed arrivals, the rest the names of a scenario."""
    if aims.due is not None:
        yield from _problems_of_due(aims.due, times)
    costs = aims.costs or Costs()
    for key, names in (("per_hour", resources), ("per_task", activities)):
        for name, amount in getattr(costs, key).items():
            if name not in names:
                yield f"aims.costs.{key}: {name!r} is not listed in the scenario{suggestion(name, names)}"
            if amount < 0.0:
                yield f"aims.costs.{key}: {name!r} costs {amount:g}; expected an amount, 0 or more."
    for name, weight in aims.objective.items():
        if name not in QUANTITIES:
            yield f"The objective weighs {name!r}, which no process has{suggestion(name, QUANTITIES, _known())}"
        if weight <= 0.0:
            yield f"The weight of {name} in the objective is {weight:g}; expected a number above 0."
        if name in NEEDED and getattr(aims, NEEDED[name]) is None:
            yield f"The objective weighs {name}, but the process has no {_WORDS[NEEDED[name]]}."
    known = [*OF_ALL, *aims.metrics]
    if aims.main_metric is not None and aims.main_metric not in known:
        ending = suggestion(aims.main_metric, known, f"there are {', '.join(known)}")
        yield f"The main metric {aims.main_metric!r} is none that this process minimises{ending}"


def _known() -> str:
    return f"there are {', '.join(QUANTITIES)}"


def _problems_of_due(due: Due, times: Sequence[float] | None) -> Iterator[str]:
    given = due.model_dump(exclude_none=True)
    if len(given) != 1:
        yield f"aims.due: expected one of after, quantiles and each, not {' and '.join(given) or 'none'}."
    if due.quantiles and any(a > b for a, b in pairwise(due.quantiles)):
        yield "aims.due.quantiles: allowances must not decrease."
    if due.each and len(due.each) != len(times or ()):
        yield f"aims.due.each: {len(due.each)} allowances do not fit {len(times or ())} replayed arrivals."
