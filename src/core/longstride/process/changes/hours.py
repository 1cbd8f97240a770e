"""Days off, absences and holidays as changes of a scenario's content."""

import math
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from longstride.errors import UserError, reason, suggestion
from longstride.process.scenario.calendar import day_of
from longstride.process.scenario.scenario import DAYS, Scenario
from longstride.text import counted

_ISO = r"\d{4}-\d\d-\d\d"


def days_named(text: str) -> list[str]:
    """Return the days of the week in a list like ``friday, monday``, also shortened or in the plural.

    Raises:
        UserError: a word is not a day of the week.
    """
    found = list[str]()
    for word in re.split(r"[\s,]+(?:and\s+)?", text.lower().strip(" ,")):
        stem = word.removesuffix("s") if len(word) > 3 else word
        match = [day for day in DAYS if len(stem) >= 2 and day.lower().startswith(stem)]
        if len(match) != 1:
            raise UserError(f"{word!r} is not a day of the week{suggestion(word, [day.lower() for day in DAYS])}")
        found += [day for day in match if day not in found]
    return found


def take_off(content: dict[str, Any], scenario: Scenario, names: Sequence[str], days: Sequence[str]) -> str:
    """Remove days of the week from the working hours of some people; return a sentence about it."""
    for name in names:
        key = "rosters" if name in content.get("rosters", {}) else "working_hours"
        whole = [{"days": list(DAYS), "from": "00:00", "to": "24:00"}]
        plans = content.get(key, {}).get(name, whole)
        left = [{**plan, "days": [day for day in plan["days"] if day not in days]} for plan in plans]
        content.setdefault(key, {})[name] = [plan for plan in left if plan["days"]]
    who = f"{names[0]!r} is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return f"{who} off on {' and '.join(f'{day}s' for day in days)}"


def move_hours(content: dict[str, Any], scenario: Scenario, names: Sequence[str], word: str, hours: int) -> str:
    """Let some people begin and end their working hours ``earlier`` or ``later``; return a sentence about it.

    Raises:
        UserError: none of them has working hours, or those would pass midnight.
    """
    shift, moved = hours if word == "later" else -hours, list[str]()
    for name in names:
        for plan in content.get("working_hours", {}).get(name, []):
            plan |= {end: _moved(name, plan[end], shift) for end in ("from", "to")}
            moved += [name] if name not in moved else []
        for plan in content.get("rosters", {}).get(name, []):
            ends = [stretch.split("-") for stretch in plan["hours"]]
            plan["hours"] = ["-".join(_moved(name, end, shift) for end in both) for both in ends]
            moved += [name] if name not in moved else []
    if not moved or not hours:
        raise UserError(f"{', '.join(map(repr, names))}: there are no working hours to move.")
    who = f"{moved[0]!r} comes and goes" if len(moved) == 1 else f"{', '.join(map(repr, moved))} come and go"
    return f"{who} {counted(hours, 'hour')} {word}"


def _moved(name: str, clock: str, shift: int) -> str:
    """Return a time of the day some hours later."""
    hour = int(clock[:2]) + shift
    if not 0 <= hour + int(clock[3:]) / 60 <= 24:
        raise UserError(f"{name!r} would work past midnight, which working hours of a day cannot say.")
    return f"{hour:02d}{clock[2:]}"


def make_absent(content: dict[str, Any], scenario: Scenario, names: Sequence[str], stretch: str) -> str:
    """Add an absence of some people to a scenario's content; return a sentence about it.

    Raises:
        UserError: ``stretch`` names no days of the episode.
    """
    days = _days(scenario, stretch)
    first, last = _moment(scenario, days[0]), _moment(scenario, days[-1] + (scenario.begins is None))
    content.setdefault("absences", [])
    content["absences"] += [{"person": name, "from": first, "to": last} for name in names]
    who = f"{names[0]!r} is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return f"{who} absent: {stretch.strip()}"


def add_holidays(content: dict[str, Any], scenario: Scenario, stretch: str) -> str:
    """Add one or several holidays to a scenario's content; return a sentence about it.

    Raises:
        UserError: ``stretch`` names no days of the episode.
    """
    content.setdefault("holidays", [])
    content["holidays"] += [_moment(scenario, day) for day in _days(scenario, stretch)]
    return f"no person works on {stretch.strip()}"


def _moment(scenario: Scenario, day: int) -> float | str:
    """Return a day, counted from 0, as scenarios name it: by its date if time 0 has one."""
    if scenario.begins is None:
        return day * 24.0 * scenario.hour
    return (date.fromisoformat(scenario.begins) + timedelta(days=day)).isoformat()


def _days(scenario: Scenario, text: str) -> range:
    """Return the days, counted from 0, of ``2026-03-02 to 2026-03-06``, ``day 8 to 12`` (from 1), or of a single day.

    Raises:
        UserError: the text has neither form, or none of the days is in the episode.
    """
    if math.isnan(scenario.hour):
        raise UserError("days need a time_unit of seconds, minutes, hours or days.")
    dates = re.fullmatch(rf"\s*({_ISO})(?:\s*(?:to|-)\s*({_ISO}))?\s*", text)
    days = re.fullmatch(r"\s*days?\s+(\d{1,9})(?:\s*(?:to|-)\s*(?:day\s+)?(\d{1,9}))?\s*", text.lower())
    if dates:
        if scenario.begins is None:
            raise UserError(
                "the scenario does not give the date of time 0; name days like day 8 to 12, where day 1 is the first "
                'Monday, or add begins to the scenario, a Monday like "2026-01-05".'
            )
        first, last = (_day_of(named, scenario.begins) for named in (dates[1], dates[2] or dates[1]))
    elif days and int(days[1]) >= 1:
        first, last = int(days[1]) - 1, int(days[2] or days[1]) - 1
    else:
        raise UserError(f"{text.strip()!r} is neither dates like 2026-03-02 to 2026-03-06 nor days like day 8 to 12.")
    if last < first:
        raise UserError(f"{text.strip()!r} ends before it begins.")
    count = math.ceil(scenario.horizon.value / (24.0 * scenario.hour))
    if last < 0 or first >= count:
        since = f", from {scenario.begins} on" if scenario.begins else ""
        raise UserError(f"{text.strip()!r} is outside of an episode, which has {counted(count, 'day')}{since}.")
    return range(max(0, first), min(last, count - 1) + 1)


def _day_of(named: str, begins: str) -> int:
    try:
        return day_of(named, begins)
    except ValueError as error:
        raise UserError(f"{reason(error)}.") from None
