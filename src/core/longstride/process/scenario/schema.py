"""Keys of scenario files that allocation cannot change: delays, automatic activities, rosters, logged waiting."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
Discipline = Literal["earliest enabled first", "oldest case first"]
_TOLERANCE = 1e-6
MOST_AT_ONCE = 100
"""Most tasks that a person does at once."""

MOST_WEEKS = 60
"""Most weeks after which rosters repeat."""


def places(names: Sequence[str]) -> dict[str, int]:
    """Return the index of each name; names are distinct."""
    return {name: i for i, name in enumerate(names)}


class Strict(BaseModel):
    """A part of a scenario; it refuses unknown keys, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Horizon(Strict):
    """Length of an episode, in time units."""

    stop: Literal["time"] = "time"
    value: float = Field(gt=0)


class Capacity(Strict):
    """Limits at which an episode ends with a message."""

    open_cases: int | None = Field(default=None, ge=1)
    waiting_tasks: int | None = Field(default=None, ge=1)


class Delay(Strict):
    """An activity's time without a person, in time units; distributions as in ``service``."""

    activity: str
    distribution: Literal["exponential", "constant", "uniform", "lognormal", "quantiles"]
    mean: float | None = Field(default=None, gt=0)
    cv: float | None = Field(default=None, gt=0, le=100)
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, gt=0)
    quantiles: list[float] | None = Field(default=None, min_length=2)


class DutyPlan(Strict):
    """Working hours of a resource on some days of the week, with the probability of such a day.

    ``hours`` are whole hours of the day like ``"09:00-17:00"``. The probabilities of a day add up to at most 1. On
    the other days the resource is absent. With ``week`` 1 ``of`` 3 the plan holds in the second week since time 0, and
    in every third one after that.
    """

    days: list[Day] = Field(min_length=1)
    p: float = Field(gt=0, le=1)
    hours: list[str] = Field(min_length=1)
    week: int = Field(default=0, ge=0)
    of: int = Field(default=1, ge=1, le=MOST_WEEKS)

    def mask(self) -> int:
        """Return a bit for each hour of the day, the lowest for 00:00-01:00."""
        bits = 0
        for stretch in self.hours:
            first, last = int(stretch[:2]), int(stretch[6:8])
            bits |= (1 << last) - (1 << first)
        return bits


class Batch(Strict):
    """An activity whose tasks one person does together, in one service time.

    A batch is ready if it has ``size`` tasks, or if its first task has waited for the time ``longest``. It begins when
    it is ready and a person is free, or with ``start`` "policy" whenever a policy begins it with the tasks that wait.
    """

    activity: str
    size: int = Field(ge=2)
    longest: float | None = Field(default=None, gt=0)
    start: Literal["ready", "policy"] = "ready"


class Waiting(Strict):
    """Mean times of a logged case in time units; delays are in open time.

    ``world_at_least`` is the waiting during which the log proves that the person was free. ``world`` is the sum of the
    scenario's external delays: the rest of it is unexplained and counted as external.
    """

    cycle: float = Field(ge=0)
    waiting: float = Field(ge=0)
    world_at_least: float = Field(ge=0)
    world: float = Field(ge=0)


class Logged(Strict):
    """Figures of the log that a scenario was mined from; times of a case from first start to last end, in time units.

    ``people`` is waiting that the log leaves unexplained. The shares of the cycle time add up to 1. ``tolerance`` is
    the difference of the simulated base beyond which no verdict is given; ``doubts`` are clauses why none is given
    even if the base agrees.
    """

    mean: float = Field(ge=0)
    median: float = Field(ge=0)
    p90: float = Field(ge=0)
    work: float = Field(ge=0, le=1)
    people: float = Field(ge=0, le=1)
    external: float = Field(ge=0, le=1)
    tolerance: float = Field(default=0.15, ge=0)
    warnings: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)


def problems_of_delays(delays: list[Delay], key: str, activities: list[str]) -> Iterator[str]:
    """Yield a sentence for each problem in the delays or automatic activities of a scenario."""
    needed = {"uniform": {"low", "high"}, "lognormal": {"mean", "cv"}, "quantiles": {"quantiles"}}
    known, often = set(activities), Counter(delay.activity for delay in delays)
    for i, delay in enumerate(delays):
        where = f"{key}[{i}]"
        if delay.activity not in known:
            yield f"{where}.activity: {delay.activity!r} is not listed in the scenario."
        if often[delay.activity] > 1:
            yield f"{where}: {delay.activity!r} is listed twice."
        expected = needed.get(delay.distribution, {"mean"})
        given = set(delay.model_dump(exclude_none=True)) - {"activity", "distribution"}
        if given != expected:
            yield f"{where}: {delay.distribution} needs {sorted(expected)}, not {sorted(given)}."
        if delay.low is not None and delay.high is not None and delay.low > delay.high:
            yield f"{where}: low {delay.low:g} is above high {delay.high:g}."
        q = delay.quantiles
        if q and (min(q) < 0 or max(q) == 0 or any(a > b for a, b in pairwise(q))):
            yield f"{where}.quantiles: times must not be negative, all zero, or decrease."


def problems_of_batches(batches: list[Batch], activities: set[str]) -> Iterator[str]:
    """Yield a sentence for each problem in the batches; ``activities`` are those that people do."""
    often = Counter(batch.activity for batch in batches)
    for i, batch in enumerate(batches):
        if batch.activity not in activities:
            yield f"batches[{i}].activity: no person does {batch.activity!r} in the scenario."
        if often[batch.activity] > 1:
            yield f"batches[{i}]: {batch.activity!r} is listed twice."


def problems_of_clock(weights: list[float] | None) -> Iterator[str]:
    """Yield a sentence for each problem in the clock of the delays."""
    if weights is None:
        return
    if len(weights) != 168:
        yield f"delay_clock: expected 168 numbers, one for each hour of the week, not {len(weights)}."
    if min(weights, default=0.0) < 0 or sum(weights) == 0:
        yield "delay_clock: the numbers must not be negative, nor all zero."


def problems_of_rosters(
    rosters: dict[str, list[DutyPlan]], resources: list[str], fixed: set[str], at_once: dict[str, int]
) -> Iterator[str]:
    """Yield a sentence for each problem in the rosters, and in the numbers of tasks that people do at once.

    ``fixed`` are the resources with working hours.
    """
    for name, most in at_once.items():
        if name not in resources:
            yield f"at_once: {name!r} is not listed in the scenario's resources."
        if not 1 <= most <= MOST_AT_ONCE:
            yield f"at_once: {name!r} does {most} tasks at once; expected 1 to {MOST_AT_ONCE}."
    known = set(resources)
    for name, plans in rosters.items():
        if name not in known:
            yield f"rosters: {name!r} is not listed in the scenario's resources."
        if name in fixed:
            yield f"rosters: {name!r} has working_hours, too; keep one of them."
        total: dict[tuple[str, int], float] = {}
        weeks = weeks_of(plans)
        for i, plan in enumerate(plans):
            if plan.week >= plan.of:
                yield f"rosters.{name}[{i}].week: {plan.week} is not one of 0 to {plan.of - 1}."
            for stretch in plan.hours:
                if not _stretch(stretch):
                    yield f"rosters.{name}[{i}].hours: {stretch!r} is not a stretch of whole hours like 09:00-17:00."
            for day, week in product(plan.days, range(plan.week, min(weeks, MOST_WEEKS), plan.of)):
                total[day, week] = total.get((day, week), 0.0) + plan.p
        for (weekday, _), p in total.items():
            if p > 1 + _TOLERANCE:
                yield f"rosters.{name}: the probabilities of {weekday} add up to {p:.6g}, more than 1."

    if (weeks := weeks_of([plan for plans in rosters.values() for plan in plans])) > MOST_WEEKS:
        yield f"rosters: together they repeat after {weeks} weeks, more than {MOST_WEEKS}."


def weeks_of(plans: Sequence[DutyPlan]) -> int:
    """Return the number of weeks after which some plans repeat together."""
    return math.lcm(*(plan.of for plan in plans))


def _stretch(text: str) -> bool:
    parts = text.split("-")
    if len(parts) != 2 or any(len(part) != 5 or part[2:] != ":00" or not part[:2].isdigit() for part in parts):
        return False
    return 0 <= int(parts[0][:2]) < int(parts[1][:2]) <= 24
