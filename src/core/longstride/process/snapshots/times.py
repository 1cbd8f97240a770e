"""Converts the times of a state, ISO 8601 or in the scenario's unit, to times of the simulator."""

import math
from collections.abc import Callable
from datetime import datetime, timedelta

from longstride.errors import UserError
from longstride.process.scenario.scenario import Scenario

Where = tuple[str, int, str]
"""A place in a state: list, number and key; it becomes text only for error messages."""

ToTime = Callable[[float | str, Where], float]
"""Converts the time at a place of a state to a time of the simulator."""


_NOW = "time", -1, ""


def at(where: Where) -> str:
    """Return a place as text for messages, such as ``waiting[2].since``, without empty parts."""
    part, number, key = where
    return part + f"[{number}]" * (number >= 0) + f".{key}" * bool(key)


def reader_of(now: float | str, scenario: Scenario) -> tuple[float, ToTime]:
    """Return the present as a time of the simulator, and a function that converts other times of the same state.

    Time 0 of the simulator is the Monday 00:00 before an ISO time. With UTC offsets, ages are real time, and the hour
    of the week follows the present's wall clock.

    Raises:
        UserError: the present is not a time, or it is an ISO time for a scenario without a unit of time.
    """
    if not isinstance(now, str):
        if now < 0:
            raise UserError(f"time: {now:g} is before 0, the Monday 00:00 from which times count.")
        return float(now), _number
    present = _moment(now, _NOW)
    if math.isnan(scenario.hour):
        raise UserError(
            "time: the scenario has no unit of time, so its times are numbers since its beginning, not dates."
        )
    midnight = present.replace(hour=0, minute=0, second=0, microsecond=0)
    passed = timedelta(days=present.weekday()) + (present - midnight)
    unit = timedelta(hours=1) / scenario.hour
    return passed / unit, lambda value, where: (passed - _age(value, present, where)) / unit


def _number(value: float | str, where: Where) -> float:
    if isinstance(value, str):
        raise UserError(f"{at(where)}: {value[:60]!r} is a text, but time is a number; give both in one form.")
    return float(value)


def _age(value: float | str, present: datetime, where: Where) -> timedelta:
    if not isinstance(value, str):
        raise UserError(f"{at(where)}: {value:g} is a number, but time is a date; give both in one form.")
    moment = _moment(value, where)
    if (moment.tzinfo is None) != (present.tzinfo is None):
        raise UserError(f"{at(where)}: either all times have a UTC offset or none; {value[:40]!r} differs from time.")
    return present - moment


def _moment(text: str, where: Where) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{at(where)}: {text[:60]!r} is not an ISO 8601 date and time like 2026-11-23T10:15:00."
        ) from None
