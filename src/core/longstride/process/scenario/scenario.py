"""Scenarios of schema resource-allocation-scenario/1: their fields, and checks that they are possible."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, get_args

from pydantic import Field

from longstride.errors import UserError
from longstride.process.scenario.aims import Aims, problems_of_aims
from longstride.process.scenario.calendar import Absence, Moment, hour_of_clock, merged, problems_of_calendar
from longstride.process.scenario.case_values import CaseValues, problems_of_values
from longstride.process.scenario.classes import class_names, flows_of
from longstride.process.scenario.schema import (
    Batch,
    Capacity,
    Day,
    Delay,
    Discipline,
    DutyPlan,
    Horizon,
    Logged,
    Strict,
    Waiting,
    problems_of_batches,
    problems_of_clock,
    problems_of_delays,
    problems_of_rosters,
)

_CLOCK = r"^([01]\d|2[0-4]):[0-5]\d$"
DAYS = get_args(Day)
HOURS_PER_UNIT = {"seconds": 1 / 3600, "minutes": 1 / 60, "hours": 1.0, "days": 24.0}
HOURS_PER_WEEK = 168
_NEED_REAL_TIME = "hours of the week need a time_unit of seconds, minutes, hours or days."


class Arrivals(Strict):
    """Arrivals of cases: ``poisson`` (rate), ``weekly`` (rate of each hour of the week) or ``replay`` (times).

    Rates are cases per time unit; times are time units since the start of the episode. ``gaps`` of weekly arrivals are
    quantiles, in even steps of probability, of the expected number of arrivals from one to the next (mean 1); without
    them arrivals are a Poisson process.
    """

    process: Literal["poisson", "weekly", "replay"]
    rate: float | None = Field(default=None, gt=0)
    rates: list[float] | None = None
    times: list[float] | None = None
    gaps: list[float] | None = Field(default=None, min_length=2)


class Service(Strict):
    """Service time of a resource for an activity that it can do, in time units.

    ``exponential`` and ``constant`` need mean; ``lognormal`` needs mean and cv (standard deviation / mean);
    ``uniform`` needs low and high; ``quantiles`` needs at least two times in even steps of probability.
    ``observations`` counts the events of this pair in a log: the ``logged`` heuristic chooses in that proportion.
    """

    activity: str
    resource: str
    distribution: Literal["exponential", "constant", "uniform", "lognormal", "quantiles"]
    mean: float | None = Field(default=None, gt=0)
    cv: float | None = Field(default=None, gt=0, le=100)
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, gt=0)
    quantiles: list[float] | None = Field(default=None, min_length=2)
    observations: int | None = Field(default=None, ge=0)


class Shift(Strict):
    """An interval of working hours, the same on each of some days; ``to`` may be 24:00."""

    days: list[Day] = Field(min_length=1)
    from_: str = Field(alias="from", pattern=_CLOCK)
    to: str = Field(pattern=_CLOCK)


class Scenario(Strict):
    """A process: its arrivals, activities, resources, service times, flow and working hours.

    Time 0 of an episode is a Monday, 00:00, if ``time_unit`` is a real unit.
    """

    schema_: Literal["resource-allocation-scenario/1"] = Field(alias="schema")
    name: str
    description: str = ""
    time_unit: Literal["abstract", "seconds", "minutes", "hours", "days"] = "abstract"
    horizon: Horizon
    warmup: float = Field(default=0.0, ge=0)
    arrivals: Arrivals
    activities: list[str] = Field(min_length=1)
    resources: list[str] = Field(min_length=1)
    service: list[Service] = Field(min_length=1)
    flow: dict[str, Any]
    working_hours: dict[str, list[Shift]] = Field(default_factory=dict)
    rosters: dict[str, list[DutyPlan]] = Field(default_factory=dict)
    begins: str | None = None
    absences: list[Absence] = Field(default_factory=list)
    holidays: list[Moment] = Field(default_factory=list)
    at_once: dict[str, int] = Field(default_factory=dict)
    at_end_of_duty: Literal["finish", "pause"] = "finish"
    delays: list[Delay] = Field(default_factory=list)
    delay_clock: list[float] | None = None
    automatic: list[Delay] = Field(default_factory=list)
    batches: list[Batch] = Field(default_factory=list)
    case_values: CaseValues | None = None
    waiting: Waiting | None = None
    logged: Logged | None = None
    capacity: Capacity = Field(default_factory=Capacity)
    aims: Aims = Field(default_factory=Aims)
    queue_discipline_within_activity: Discipline = "earliest enabled first"
    queue_discipline_between_activities: Discipline = "oldest case first"

    @property
    def hour(self) -> float:
        """Length of an hour in time units (NaN if the unit is abstract)."""
        return 1.0 / HOURS_PER_UNIT[self.time_unit] if self.time_unit in HOURS_PER_UNIT else math.nan

    @property
    def has_clock(self) -> bool:
        """Whether the hour of the week matters."""
        return bool(self.working_hours or self.rosters) or self.arrivals.rates is not None or self.has_leave

    @property
    def has_leave(self) -> bool:
        """Whether there are absences or holidays."""
        return bool(self.absences or self.holidays)

    @property
    def by_the_day(self) -> bool:
        """Whether duty follows a plan for each day instead of a repeating week."""
        pauses = self.at_end_of_duty == "pause" and bool(self.working_hours)
        return bool(self.rosters) or self.has_leave or pauses

    @property
    def has_delays(self) -> bool:
        """Whether cases can have external delays; a flow of cases contains its own."""
        lists = any(set(flow) == {"cases"} for flow in flows_of(self.flow))
        return bool(self.delays or self.automatic or self.batches) or lists

    @property
    def policy_starts_batches(self) -> bool:
        """Whether policies decide when some batches begin."""
        return any(batch.start == "policy" for batch in self.batches)

    @property
    def classes(self) -> list[str]:
        """Names of the classes of cases; none if the flow has none."""
        return class_names(self.flow)

    @property
    def on_duty(self) -> float:
        """Share of the time on duty, as mean over the resources."""
        intervals = (stretch for name in self.resources for stretch in self.weekly_hours({name}))
        return sum(end - start for start, end in intervals) / (HOURS_PER_WEEK * len(self.resources))

    def weekly_hours(self, names: set[str]) -> list[tuple[float, float]]:
        """Return the hours of the week in which at least one of the resources is on duty, as merged intervals."""
        if any(name not in self.working_hours and name not in self.rosters for name in names):
            return [(0.0, float(HOURS_PER_WEEK))]
        return merged(
            (24.0 * DAYS.index(day) + hour_of_clock(start), 24.0 * DAYS.index(day) + hour_of_clock(end))
            for name in names
            for days, start, end in self._stretches(name)
            for day in days
        )

    def _stretches(self, name: str) -> Iterator[tuple[list[Day], str, str]]:
        """Yield days, start and end of the hours at which a resource may be on duty."""
        for shift in self.working_hours.get(name, ()):
            yield shift.days, shift.from_, shift.to
        for plan in self.rosters.get(name, ()):
            for stretch in plan.hours:
                yield plan.days, stretch[:5], stretch[6:]


def check_scenario(scenario: Scenario) -> None:
    """Check the conditions that types of single fields cannot express.

    Raises:
        UserError: fields contradict each other; the message names the place.
    """
    if problem := next(_problems(scenario), None):
        raise UserError(problem)


def _problems(scenario: Scenario) -> Iterator[str]:
    """Yield problems in order; later checks may rely on earlier ones."""
    for kind in ("activities", "resources"):
        names = getattr(scenario, kind)
        if len(set(names)) != len(names):
            often = Counter(names)
            yield f"{kind}: {next(n for n in names if often[n] > 1)!r} is listed twice."
    if scenario.warmup >= scenario.horizon.value:
        yield f"warmup: {scenario.warmup:g} leaves no time of a horizon of {scenario.horizon.value:g}."
    yield from _problems_of_arrivals(scenario, scenario.arrivals)
    yield from _problems_of_services(scenario)
    yield from _problems_of_hours(scenario)
    yield from problems_of_delays(scenario.delays, "delays", scenario.activities)
    yield from problems_of_delays(scenario.automatic, "automatic", scenario.activities)
    yield from problems_of_batches(scenario.batches, {service.activity for service in scenario.service})
    yield from problems_of_clock(scenario.delay_clock)
    yield from problems_of_values(scenario.case_values, scenario.activities)
    names = scenario.activities, scenario.resources, scenario.classes
    yield from problems_of_aims(scenario.aims, scenario.arrivals.times, *names)
    if scenario.time_unit == "abstract" and (scenario.delay_clock or scenario.at_end_of_duty == "pause"):
        yield f"delay_clock, at_end_of_duty: {_NEED_REAL_TIME}"


def _problems_of_arrivals(scenario: Scenario, arrivals: Arrivals) -> Iterator[str]:
    needed = {"poisson": "rate", "weekly": "rates", "replay": "times"}[arrivals.process]
    given = arrivals.model_dump(exclude_none=True, exclude={"process"})
    if scenario.arrivals.gaps is not None and needed == "rates":
        del given["gaps"]
        if min(scenario.arrivals.gaps) < 0 or max(scenario.arrivals.gaps) == 0:
            yield "arrivals.gaps: gaps must not be negative, nor all zero."
    if set(given) != {needed}:
        yield f"arrivals: {arrivals.process} arrivals need {needed} and nothing else, not {sorted(given)}."
    rates, times = arrivals.rates, arrivals.times
    if rates is not None:
        if len(rates) != HOURS_PER_WEEK:
            yield f"arrivals.rates: expected 168 rates, one for each hour of the week, not {len(rates)}."
        if min(rates) < 0 or sum(rates) == 0:
            yield "arrivals.rates: rates must not be negative, nor all zero."
        if scenario.time_unit == "abstract":
            yield f"arrivals.rates: {_NEED_REAL_TIME}"
    if times is not None:
        if not times or min(times) < 0:
            yield "arrivals.times: expected at least one time, none of them negative."
        if any(a > b for a, b in pairwise(times)):
            yield "arrivals.times: the times must not decrease."


def _problems_of_services(scenario: Scenario) -> Iterator[str]:
    seen, activities, resources = set(), set(scenario.activities), set(scenario.resources)
    for i, service in enumerate(scenario.service):
        where = f"service[{i}]"
        for kind, names in (("activity", activities), ("resource", resources)):
            if getattr(service, kind) not in names:
                yield f"{where}.{kind}: {getattr(service, kind)!r} is not listed in the scenario."
        if (service.activity, service.resource) in seen:
            yield f"{where}: {service.activity!r} by {service.resource!r} is listed twice."
        seen.add((service.activity, service.resource))
        needed = {"uniform": {"low", "high"}, "lognormal": {"mean", "cv"}, "quantiles": {"quantiles"}}
        expected = needed.get(service.distribution, {"mean"})
        given = {name for name in ("mean", "cv", "low", "high", "quantiles") if getattr(service, name) is not None}
        if given != expected:
            yield f"{where}: {service.distribution} needs {sorted(expected)}, not {sorted(given)}."
        if service.low is not None and service.high is not None and service.low > service.high:
            yield f"{where}: low {service.low:g} is above high {service.high:g}."
        q = service.quantiles
        if q and (q[0] < 0 or q[-1] == 0 or q != sorted(q)):
            yield f"{where}.quantiles: times must not be negative, all zero, or decrease."
    automatic = {delay.activity for delay in scenario.automatic}
    done = {service.activity for service in scenario.service}
    for activity in scenario.activities:
        if activity not in automatic and activity not in done:
            yield f"service: no resource can do {activity!r}; add a service with this activity."


def _problems_of_hours(scenario: Scenario) -> Iterator[str]:
    yield from problems_of_rosters(scenario.rosters, scenario.resources, set(scenario.working_hours), scenario.at_once)
    for key in ("rosters", "absences", "holidays"):
        if getattr(scenario, key) and scenario.time_unit == "abstract":
            yield f"{key}: {_NEED_REAL_TIME}"
    calendar = {"absences": scenario.absences, "holidays": scenario.holidays}
    yield from problems_of_calendar(calendar, scenario.begins, scenario.hour, scenario.resources)
    by_the_hour = scenario.rosters or scenario.at_end_of_duty == "pause" or scenario.has_leave
    for resource, shifts in scenario.working_hours.items():
        if resource not in scenario.resources:
            yield f"working_hours: {resource!r} is not listed in the scenario's resources."
        if scenario.time_unit == "abstract":
            yield f"working_hours: {_NEED_REAL_TIME}"
        for i, shift in enumerate(shifts):
            if not 0 <= hour_of_clock(shift.from_) < hour_of_clock(shift.to) <= 24:
                yield f"working_hours.{resource}[{i}]: {shift.from_} to {shift.to} is not a stretch of one day."
            if by_the_hour and (hour_of_clock(shift.from_) % 1 or hour_of_clock(shift.to) % 1):
                yield (
                    f"working_hours.{resource}[{i}]: with rosters, pauses or absences, these must be whole hours, "
                    f"not {shift.from_} to {shift.to}."
                )
    able: dict[str, list[str]] = {}
    for service in scenario.service:
        able.setdefault(service.activity, []).append(service.resource)
    for activity in scenario.activities:
        people = able.get(activity)
        if people and all(scenario.working_hours.get(r, scenario.rosters.get(r)) == [] for r in people):
            yield f"working_hours: no resource that can do {activity!r} is ever on duty."
