"""Keys of scenario files that say what a process is measured by: due dates, costs, a promise, and the objective."""

from collections.abc import Iterator, Mapping, Sequence
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

LAST = "last"
"""Value of ``late_cases``: queues serve cases that can no longer be in time after all others, not in turn."""

_WORDS = {
    "due": "due dates; --due '5 days' gives each case five days",
    "costs": "costs; --cost 40 pays each person 40 an hour",
}


class Due(Strict):
    """The allowance of a case, in time units from its arrival to its due date.

    ``after`` is the same for all cases, ``quantiles`` are in even steps of probability, and ``each`` has one for each
    of the times of replayed arrivals. ``by_class`` has those of classes of cases; the others are for the rest of them.
    """

    after: float | None = Field(default=None, gt=0)
    quantiles: list[float] | None = Field(default=None, min_length=2)
    each: list[float] | None = Field(default=None, min_length=1)
    by_class: dict[str, "Due"] = Field(default_factory=dict)

    @property
    def of_all(self) -> "Due | None":
        """The allowance of classes without one of their own; None if all have their own."""
        plain = self.model_copy(update={"by_class": {}})
        return plain if plain != Due() else None

    @property
    def differs(self) -> bool:
        """Whether allowances differ between cases."""
        return self.after is None or bool(self.by_class)


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
    ``class_weights`` is class of cases -> how often one of its cases counts in the objective, once by default.
    ``late_cases`` says when queues serve cases that can no longer be in time. With ``last`` the case with the earliest
    due date goes first among those that still can, and a case without a due date has that of the target.
    """

    objective: dict[str, float] = Field(default_factory=dict)
    due: Due | None = None
    costs: Costs | None = None
    target: Target | None = None
    main_metric: str | None = None
    class_weights: dict[str, float] = Field(default_factory=dict)
    late_cases: Literal["in turn", "last"] = "in turn"

    @property
    def weighs(self) -> bool:
        """Whether some cases count more or less than once."""
        return any(weight != 1.0 for weight in self.class_weights.values())

    @property
    def metrics(self) -> list[str]:
        """Metrics of which the least is the best, besides those of every process."""
        known = {"due": self.due is not None, "costs": self.costs is not None}
        named = [
            metric for name, metric in QUANTITIES.items() if known.get(NEEDED.get(name, ""), name in self.objective)
        ]
        own = [name for name in named if name not in OF_ALL]
        own += [OBJECTIVE] if len(self.objective) > 1 or self.weighs else []
        own = ["p95_cycle_time", *own] if self != Aims() else own
        return own + ([SHARE_BEYOND, WITH_PROMISE] if self.target else [])

    @property
    def minimised(self) -> str:
        """The metric of the objective."""
        names = list(self.objective) or [next(iter(QUANTITIES))]
        return QUANTITIES[names[0]] if len(names) == 1 and not self.weighs else OBJECTIVE

    @property
    def shown_metric(self) -> str:
        """The main metric."""
        return self.main_metric or (WITH_PROMISE if self.target else self.minimised)


def class_metrics(aims: Aims, classes: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the metrics of classes of cases: name -> the metric of all cases, and the number of the class."""
    of_all = ["mean_cycle_time", *([QUANTITIES["late"]] if aims.due else [])] if classes else []
    return {f"{metric} of {name}": (metric, c) for metric in of_all for c, name in enumerate(classes)}


def problems_of_aims(
    aims: Aims,
    times: Sequence[float] | None,
    activities: Sequence[str],
    resources: Sequence[str],
    classes: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a sentence for each problem; ``times`` are those of replayed arrivals, the rest the names of a scenario."""
    if aims.due is not None:
        yield from _problems_of_due(aims.due, times, classes)
    yield from _problems_of_weights(aims.class_weights, classes)
    if aims.late_cases == LAST and aims.due is None and aims.target is None:
        yield f"Late cases come last, but the process has neither a target nor {_WORDS['due']}."
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
    known = [*OF_ALL, *aims.metrics, *class_metrics(aims, classes)]
    if aims.main_metric is not None and aims.main_metric not in known:
        missing = next((_WORDS[key] for name, key in NEEDED.items() if QUANTITIES[name] == aims.main_metric), "")
        if missing:
            yield f"The main metric is {aims.main_metric}, but the process has no {missing}."
            return
        ending = suggestion(aims.main_metric, known, f"there are {', '.join(known)}")
        yield f"The main metric {aims.main_metric!r} is none that this process minimises{ending}"


def _known() -> str:
    return f"there are {', '.join(QUANTITIES)}"


def _problems_of_weights(weights: Mapping[str, float], classes: Sequence[str]) -> Iterator[str]:
    for name, weight in weights.items():
        if name not in classes:
            yield f"aims.class_weights: {_no_class(name, classes)}"
        if weight <= 0.0:
            yield f"aims.class_weights: cases of {name!r} count {weight:g} times; expected a number above 0."


def _problems_of_due(due: Due, times: Sequence[float] | None, classes: Sequence[str]) -> Iterator[str]:
    for name, own in due.by_class.items():
        where = f"aims.due.by_class.{name}"
        if name not in classes:
            yield f"aims.due.by_class: {_no_class(name, classes)}"
        if own.by_class or own.each:
            yield f"{where}: expected after or quantiles."
        yield from _problems_of_allowance(own, where)
    missing = [name for name in classes if name not in due.by_class]
    if due.by_class and due.of_all is None:
        if missing:
            yield f"aims.due: the class {missing[0]!r} has no due date; add it to by_class, or an after for the others."
    else:
        yield from _problems_of_allowance(due, "aims.due")
    if due.each and due.by_class:
        yield "aims.due: each is for all cases, so there can be no by_class."
    if due.each and len(due.each) != len(times or ()):
        yield f"aims.due.each: {len(due.each)} allowances do not fit {len(times or ())} replayed arrivals."


def _problems_of_allowance(due: Due, where: str) -> Iterator[str]:
    given = due.model_dump(exclude_none=True, exclude={"by_class"})
    if len(given) != 1:
        yield f"{where}: expected one of after, quantiles and each, not {' and '.join(given) or 'none'}."
    if due.quantiles and any(a > b for a, b in pairwise(due.quantiles)):
        yield f"{where}.quantiles: allowances must not decrease."


def _no_class(name: str, classes: Sequence[str]) -> str:
    """Return the sentence about a class that a scenario does not have."""
    if not classes:
        return f"{name!r} is a class of cases, but the flow has none; write it as flow.classes, or mine CLASSES."
    return f"the flow has no class {name!r}{suggestion(name, classes)}"
