"""Days off, absences and holidays as changes of a scenario's content."""

import re
from collections.abc import Sequence
from typing import Any

from core.errors import UserError, suggestion
from core.simulators.process.scenario import DAYS, Scenario

_ISO = r"\d{4}-\d\d-\d\d"


def days_named(text: str) -> list[str]:
    """Return the days of the week in a list like ``friday, monday``, also shortened or in the plural.

    Raises:
        UserError: one of them is no day.
    """
    found = []
    for word in re.findall(r"[a-z]+", text.lower()):
        if word == "and":
            continue
        stem = word.removesuffix("s") if len(word) > 3 else word
        match = [day for day in DAYS if len(stem) >= 2 and day.lower().startswith(stem)]
        if len(match) != 1:
            raise UserError(f"{word!r} is not a day of the week{suggestion(word, [day.lower() for day in DAYS])}")
        found.append(match[0])
    return found


def take_off(content: dict[str, Any], scenario: Scenario, names: Sequence[str], days: Sequence[str]) -> str:
    """Take days of the week out of the working hours of some people; return what was done."""
    for name in names:
        key = "rosters" if name in content.get("rosters", {}) else "working_hours"
        whole = [{"days": list(DAYS), "from": "00:00", "to": "24:00"}]
        plans = content.get(key, {}).get(name, whole)
        left = [{**plan, "days": [day for day in plan["days"] if day not in days]} for plan in plans]
        content.setdefault(key, {})[name] = [plan for plan in left if plan["days"]]
    who = f"{names[0]!r} is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return f"{who} off on {' and '.join(f'{day}s' for day in days)}"


def make_absent(content: dict[str, Any], scenario: Scenario, names: Sequence[str], stretch: str) -> str:
    """Add an absence of some people to a scenario's content; return what was done."""
    first, last = _stretch(scenario, stretch)
    content.setdefault("absences", [])
    content["absences"] += [{"person": name, "from": first, "to": last} for name in names]
    who = f"{names[0]!r} is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return f"{who} absent: {stretch.strip()}"


def add_holiday(content: dict[str, Any], scenario: Scenario, day: str) -> str:
    """Add a holiday to a scenario's content; return what was done."""
    content.setdefault("holidays", []).append(_stretch(scenario, day)[0])
    return f"nobody works on {day.strip()}"


def _stretch(scenario: Scenario, text: str) -> tuple[float | str, float | str]:
    """Return begin and end of ``2026-03-02 to 2026-03-06``, of ``day 8 to 12`` (from 1, a Monday) or of one of these.

    Raises:
        UserError: it is neither.
    """
    dates = re.fullmatch(rf"\s*({_ISO})(?:\s*(?:to|-)\s*({_ISO}))?\s*", text)
    if dates:
        return dates[1], dates[2] or dates[1]
    days = re.fullmatch(r"\s*days?\s+(\d+)(?:\s*(?:to|-)\s*(?:day\s+)?(\d+))?\s*", text.lower())
    if not days or int(days[1]) < 1:
        raise UserError(f"{text.strip()!r} is neither dates like 2026-03-02 to 2026-03-06 nor days like day 8 to 12.")
    day = 24.0 * scenario.hour
    return (int(days[1]) - 1) * day, int(days[2] or days[1]) * day
