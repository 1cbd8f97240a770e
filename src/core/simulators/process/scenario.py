"""Scenario files: JSON of schema resource-allocation-scenario/1, validated with sentences."""

import json
import math
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import UserError

_CLOCK = r"^([01]\d|2[0-4]):[0-5]\d$"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS_PER_UNIT = {"seconds": 1 / 3600, "minutes": 1 / 60, "hours": 1.0, "days": 24.0}
HOURS_PER_WEEK = 168


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Horizon(_Strict):
    """How long an episode is, in time units."""

    stop: Literal["time"] = "time"
    value: float = Field(gt=0)


class Arrivals(_Strict):
    """When cases arrive: ``poisson`` (rate), ``weekly`` (rate of each hour of the week) or ``replay`` (times).

    Rates are cases per time unit; times are time units since the start of the episode.
    """

    process: Literal["poisson", "weekly", "replay"]
    rate: float | None = Field(default=None, gt=0)
    rates: list[float] | None = None
    times: list[float] | None = None


class Service(_Strict):
    """How long a resource takes for an activity it can do, in time units.

    ``exponential`` and ``constant`` take mean; ``lognormal`` mean and cv (standard deviation / mean); ``uniform`` low
    and high; ``quantiles`` a list of at least two times in even steps of probability. ``observations`` counts how
    often a log showed this pair: the ``logged`` heuristic chooses resources in that proportion.
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


class Shift(_Strict):
    """One stretch of working hours, the same on each of some days; ``to`` may be 24:00."""

    days: list[Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]] = Field(
        min_length=1
    )
    from_: str = Field(alias="from", pattern=_CLOCK)
    to: str = Field(pattern=_CLOCK)


class Capacity(_Strict):
    """Limits that end an episode with a message when they are reached."""

    open_cases: int | None = Field(default=None, ge=1)
    waiting_tasks: int | None = Field(default=None, ge=1)


class Scenario(_Strict):
    """A process: its arrivals, activities, resources, service times, flow and working hours.

    Time 0 of an episode is a Monday, 00:00, where ``time_unit`` is a real unit.
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
    capacity: Capacity = Field(default_factory=Capacity)
    queue_discipline_within_activity: Literal["earliest enabled first"] = "earliest enabled first"

    @property
    def hour(self) -> float:
        """Length of an hour in time units (NaN where the unit is abstract)."""
        return 1.0 / HOURS_PER_UNIT[self.time_unit] if self.time_unit in HOURS_PER_UNIT else math.nan


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        UserError: the file is missing, is not JSON, or describes an impossible process.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"There is no scenario file {path}.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read the scenario file {path}: {error}.") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}.") from None
    return parse_scenario(data, str(path))


def parse_scenario(data: Any, source: str) -> Scenario:
    """Check the content of a scenario file.

    Args:
        data: what the JSON holds.
        source: where it comes from, for messages.

    Raises:
        UserError: it describes an impossible process; the message names the place.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source}: a scenario is a JSON object, not {type(data).__name__}.")
    from core.simulators.process.parameters import build_parameters

    try:
        scenario = Scenario.model_validate(data)
        _check(scenario)
        build_parameters(scenario)
    except ValidationError as error:
        raise UserError(f"{source}: {_sentence(error)}") from None
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return scenario


def scenario_content(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as the JSON values that :func:`parse_scenario` reads."""
    return scenario.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")


def _sentence(error: ValidationError) -> str:
    """Turn the first problem that pydantic found into a sentence with its place."""
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = [name for field in _keys(problem["loc"]) for name in field]
        near = get_close_matches(str(problem["loc"][-1]), known, 1)
        return f"unknown key {where}" + (f"; did you mean {near[0]}?" if near else ".")
    if problem["type"] == "missing":
        return f"{where} is missing."
    return f"{where}: {problem['msg']} (it is {str(problem['input'])[:60]!r})."


def _keys(location: Sequence[int | str]) -> list[list[str]]:
    """Return the keys that may stand where an unknown one was found."""
    models: dict[str, type[BaseModel]] = {
        "horizon": Horizon,
        "arrivals": Arrivals,
        "service": Service,
        "capacity": Capacity,
        "working_hours": Shift,
    }
    found = models.get(str(location[0])) if len(location) > 1 else Scenario
    return [[field.alias or name for name, field in found.model_fields.items()]] if found else []


def _check(scenario: Scenario) -> None:
    """Check what no single field shows."""
    for kind in ("activities", "resources"):
        names = getattr(scenario, kind)
        if len(set(names)) != len(names):
            raise UserError(f"{kind}: {next(n for n in names if names.count(n) > 1)!r} is listed twice.")
    if scenario.warmup >= scenario.horizon.value:
        raise UserError(f"warmup: {scenario.warmup:g} leaves nothing of a horizon of {scenario.horizon.value:g}.")
    _check_arrivals(scenario)
    _check_services(scenario)
    _check_hours(scenario)


def _check_arrivals(scenario: Scenario) -> None:
    arrivals = scenario.arrivals
    needed = {"poisson": "rate", "weekly": "rates", "replay": "times"}[arrivals.process]
    given = arrivals.model_dump(exclude_none=True, exclude={"process"})
    if set(given) != {needed}:
        raise UserError(f"arrivals: {arrivals.process} arrivals need {needed} and nothing else, not {sorted(given)}.")
    if arrivals.rates is not None:
        if len(arrivals.rates) != HOURS_PER_WEEK:
            raise UserError(
                f"arrivals.rates: expected 168 rates, one for each hour of the week, not {len(arrivals.rates)}."
            )
        if min(arrivals.rates) < 0 or sum(arrivals.rates) == 0:
            raise UserError("arrivals.rates: rates must not be negative, nor all zero.")
        _need_real_time(scenario, "arrivals.rates")
    if arrivals.times is not None:
        if not arrivals.times or min(arrivals.times) < 0:
            raise UserError("arrivals.times: expected at least one time, none of them negative.")
        if any(a > b for a, b in pairwise(arrivals.times)):
            raise UserError("arrivals.times: the times must not decrease.")


def _check_services(scenario: Scenario) -> None:
    seen = set()
    for i, service in enumerate(scenario.service):
        where = f"service[{i}]"
        for kind, names in (("activity", scenario.activities), ("resource", scenario.resources)):
            if getattr(service, kind) not in names:
                raise UserError(f"{where}.{kind}: {getattr(service, kind)!r} is not listed in the scenario.")
        if (service.activity, service.resource) in seen:
            raise UserError(f"{where}: {service.activity!r} by {service.resource!r} stands twice.")
        seen.add((service.activity, service.resource))
        needed = {"uniform": {"low", "high"}, "lognormal": {"mean", "cv"}, "quantiles": {"quantiles"}}
        expected = needed.get(service.distribution, {"mean"})
        given = set(service.model_dump(exclude_none=True)) - {"activity", "resource", "distribution", "observations"}
        if given != expected:
            raise UserError(f"{where}: {service.distribution} needs {sorted(expected)}, not {sorted(given)}.")
        if service.low is not None and service.high is not None and service.low > service.high:
            raise UserError(f"{where}: low {service.low:g} is above high {service.high:g}.")
        q = service.quantiles
        if q and (min(q) < 0 or max(q) == 0 or any(a > b for a, b in pairwise(q))):
            raise UserError(f"{where}.quantiles: times must not be negative, all zero, or decrease.")
    for activity in scenario.activities:
        if not any(s.activity == activity for s in scenario.service):
            raise UserError(f"service: nobody can do {activity!r}; add a service with this activity.")


def _check_hours(scenario: Scenario) -> None:
    for resource, shifts in scenario.working_hours.items():
        if resource not in scenario.resources:
            raise UserError(f"working_hours: {resource!r} is not listed in the scenario's resources.")
        _need_real_time(scenario, "working_hours")
        for i, shift in enumerate(shifts):
            start, end = hour_of(shift.from_), hour_of(shift.to)
            if not 0 <= start < end <= 24:
                raise UserError(
                    f"working_hours.{resource}[{i}]: {shift.from_} to {shift.to} is not a stretch of one day."
                )
    for activity in scenario.activities:
        able = [s.resource for s in scenario.service if s.activity == activity]
        if all(scenario.working_hours.get(r) == [] for r in able):
            raise UserError(f"working_hours: nobody who can do {activity!r} is ever on duty.")


def _need_real_time(scenario: Scenario, what: str) -> None:
    if scenario.time_unit == "abstract":
        raise UserError(f"{what}: hours of the week need a time_unit of seconds, minutes, hours or days.")


def hour_of(clock: str) -> float:
    """Return "HH:MM" in hours."""
    hours, minutes = clock.split(":")
    return int(hours) + int(minutes) / 60
