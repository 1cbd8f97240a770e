"""The people of a scenario by name or group, and more or fewer of them."""

import math
import re
from collections.abc import Sequence
from typing import Any

from core.errors import UserError, suggestion
from core.simulators.process.scenario import Scenario
from core.simulators.process.service_times import service_mean

_IN_BRACKETS = re.compile(r".*\((.+)\)(?: \d+)?")
_NUMBERED = re.compile(r"(.+?)[ _-]+\d+")


def group_of(name: str) -> str:
    """Return the group in a person's name: ``analyst`` of ``Kim (analyst)`` and of ``analyst 2``, else the name."""
    found = _IN_BRACKETS.fullmatch(name) or _NUMBERED.fullmatch(name)
    return found[1] if found else name


def groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of each group, in their order."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(group_of(name), []).append(name)
    return found


def find_people(scenario: Scenario, words: str) -> list[str]:
    """Return who is meant by a name, a group (also in the plural) or one word of a name.

    Raises:
        UserError: nobody is.
    """
    wanted, names = words.strip().strip("'\"").lower(), scenario.resources
    singular = wanted.removesuffix("s")
    found = [name for name in names if name.lower() == wanted]
    found = found or [name for name in names if group_of(name).lower() in (wanted, singular)]
    found = found or [name for name in names if wanted in re.findall(r"\w+", name.lower())]
    if found:
        return found
    known = sorted({*names, *groups(names)})
    lower = {name.lower(): name for name in known}
    ending = suggestion(wanted, lower, f"there are {', '.join(known[:12])}{' and more' if len(known) > 12 else ''}")
    raise UserError(f"Nobody in scenario {scenario.name} is called {words!r}{ending}")


def typical(scenario: Scenario, names: Sequence[str]) -> str:
    """Return the one of some people whose speed is in the middle: mean service times over the fastest, as logarithms.

    A person who is never on duty is not chosen while there are others.
    """
    fastest: dict[str, float] = {}
    for entry in scenario.service:
        fastest[entry.activity] = min(fastest.get(entry.activity, math.inf), service_mean(entry))

    def slowness(name: str) -> float:
        logs = [
            math.log(service_mean(e) / fastest[e.activity]) if fastest[e.activity] > 0 else 0.0
            for e in scenario.service
            if e.resource == name
        ]
        return sum(logs) / len(logs) if logs else 0.0

    there = [name for name in names if scenario.working_hours.get(name, scenario.rosters.get(name, True)) != []]
    order = sorted(there or names, key=slowness)
    return order[(len(order) - 1) // 2]


def add_person(content: dict[str, Any], scenario: Scenario, names: Sequence[str], words: str) -> str:
    """Add somebody like the typical one of some people to a scenario's content; return what was done.

    The new person stands last, so that the others keep their random draws.
    """
    like = typical(scenario, names)
    word = group_of(like) if len(names) > 1 or group_of(like).lower() == words.lower().strip() else like
    number = len(names) + 1
    while f"{word} {number}" in content["resources"]:
        number += 1
    name = f"{word} {number}"
    content["resources"].append(name)
    content["service"] += [{**entry, "resource": name} for entry in content["service"] if entry["resource"] == like]
    there = "skills and times"
    for key, what in (("working_hours", "working hours"), ("rosters", "roster")):
        if like in content.get(key, {}):
            content[key][name] = content[key][like]
            there = f"skills, times and {what}"
    return f"one more {word}: {name!r}, with the {there} of {like!r}"


def remove_person(content: dict[str, Any], scenario: Scenario, names: Sequence[str]) -> str:
    """Take the typical one of some people out of a scenario's content; return what was done.

    Where time is real, the person stays in the file without working hours, so that others keep their numbers and a
    policy with an output for each pair can still play.
    """
    gone = typical(scenario, names)
    content.get("rosters", {}).pop(gone, None)
    content["absences"] = [entry for entry in content.get("absences", []) if entry["person"] != gone]
    if scenario.time_unit != "abstract":
        content.setdefault("working_hours", {})[gone] = []
        return f"one {group_of(gone)} less: {gone!r} is never on duty"
    content["resources"].remove(gone)
    content["service"] = [entry for entry in content["service"] if entry["resource"] != gone]
    return f"one {group_of(gone)} less: {gone!r} is gone"


def people_at_work(scenario: Scenario) -> int:
    """Return how many people are ever on duty."""
    hours = {**scenario.rosters, **scenario.working_hours}
    return sum(hours.get(name, True) != [] for name in scenario.resources)
