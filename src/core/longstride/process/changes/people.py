"""The people of a scenario by name or group, and more or fewer of them."""

import itertools
import math
import re
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from longstride.errors import UserError, suggestion
from longstride.process.kernel.service_times import service_mean
from longstride.process.scenario.at_once import without_slots
from longstride.process.scenario.scenario import Scenario

_ALIKE = 0.05
"""Difference of the hours on duty, as a share, up to which people work alike."""

_IN_BRACKETS = re.compile(r".*\((.+)\)(?: \d+)?")
_NUMBERED = re.compile(r"(.+?)[ _-]+\d+")


def group_of(name: str) -> str:
    """Return the group of a person: ``analyst`` for ``Kim (analyst)`` and for ``analyst 2``, else the name itself."""
    found = _IN_BRACKETS.fullmatch(name) or _NUMBERED.fullmatch(name)
    return found[1] if found else name


def groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the names in each group, in the given order."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(group_of(name), []).append(name)
    return found


def find_people(scenario: Scenario, words: str) -> list[str]:
    """Return the people that a name, a group (also in the plural) or one word of a name refers to.

    Raises:
        UserError: no person matches.
    """
    names, wanted = scenario.resources, words.strip().lower()
    found = [name for name in names if name.strip().lower() == wanted]
    wanted = wanted.strip("'\"")
    singular = wanted.removesuffix("s")
    found = found or [name for name in names if name.strip().lower() == wanted]
    found = found or [name for name in names if group_of(name).lower() in (wanted, singular)]
    found = found or [name for name in names if wanted in re.findall(r"\w+", name.lower())]
    if found:
        return found
    known = sorted({*names, *groups(names)})
    ending = suggestion(wanted, known, f"there are {', '.join(known[:12])}{' and more' if len(known) > 12 else ''}")
    raise UserError(f"No person in scenario {scenario.name} is called {words!r}{ending}")


def typical(scenario: Scenario, names: Sequence[str]) -> str:
    """Return the person of median speed: the mean logarithm of service times over those of the fastest person.

    Only people with about the median hours on duty count, so that a group is not judged by a part-timer. A person who
    is never on duty is chosen only if all are.
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

    there = [name for name in names if is_at_work(scenario, name)] or names
    hours = [_weekly_hours(scenario, name) for name in there]
    usual = median_low(hours)
    order = sorted((n for n, h in zip(there, hours, strict=True) if abs(h - usual) <= _ALIKE * usual), key=slowness)
    return order[(len(order) - 1) // 2]


def _weekly_hours(scenario: Scenario, name: str) -> float:
    """Return the expected hours on duty in a week."""
    plans = scenario.rosters.get(name)
    if plans is None:
        return sum(end - start for start, end in scenario.weekly_hours({name}))
    return sum(plan.p / plan.of * len(plan.days) * plan.mask().bit_count() for plan in plans)


def people_like(word: str, is_group: bool, one: bool) -> str:
    """Return the words for people of a kind: ``analyst`` or ``analysts``, but ``person like Ann`` for a name."""
    if is_group and word.isalpha():
        return word if one else f"{word}s"
    return f"{'person' if one else 'people'} like {word}"


def add_people(content: dict[str, Any], scenario: Scenario, names: Sequence[str], count: int, words: str = "") -> str:
    """Add people like the typical one of some people to a scenario's content; return a sentence about it.

    The new people come last, so that the others keep their random draws.

    Raises:
        UserError: none of the people, whom ``words`` name, is ever on duty.
    """
    like = typical(scenario, _at_work(scenario, names, words))
    word = group_of(like) if len(names) > 1 or group_of(like).lower() == words.lower().strip() else like
    taken = set(content["resources"])
    free = (name for name in (f"{word} {number}" for number in itertools.count(len(names) + 1)) if name not in taken)
    new = list(itertools.islice(free, count))
    own = [entry for entry in content["service"] if entry["resource"] == like]
    content["resources"] += new
    content["service"] += [{**entry, "resource": name} for name in new for entry in own]
    there = "skills and times"
    for key, what in (("working_hours", "working hours"), ("rosters", "roster")):
        if like in content.get(key, {}):
            content[key] |= dict.fromkeys(new, content[key][like])
            there = f"skills, times and {what}"
    if like in scenario.at_once:
        content["at_once"] |= dict.fromkeys(new, scenario.at_once[like])
    rates = content.get("aims", {}).get("costs", {}).get("per_hour", {})
    rates |= {name: rates[like] for name in new if like in rates}
    kind = people_like(word, word != like, count == 1)
    return f"{_number(count)} more {kind}: {_listed(new)}, with the {there} of {like!r}"


def remove_people(content: dict[str, Any], scenario: Scenario, names: Sequence[str], count: int, words: str) -> str:
    """Remove typical people, of those named by ``words``, from a scenario's content; return a sentence about it.

    If time is real, they stay in the file without working hours. So others keep their numbers, and a policy with an
    output for each pair can still play.

    Raises:
        UserError: fewer than ``count`` of them are ever on duty.
    """
    there, gone = _at_work(scenario, names, words), list[str]()
    if count > len(there):
        raise UserError(f"{count} people is not from 1 to {len(there)}.")
    while len(gone) < count:
        gone.append(typical(scenario, [name for name in there if name not in gone]))
    for name in gone:
        content.get("rosters", {}).pop(name, None)
        content.get("at_once", {}).pop(name, None)
    content["absences"] = [entry for entry in content.get("absences", []) if entry["person"] not in gone]
    real = scenario.time_unit != "abstract"
    if real:
        content.setdefault("working_hours", {}).update((name, []) for name in gone)
    else:
        content["resources"] = [name for name in content["resources"] if name not in gone]
        for name in gone:
            content.get("aims", {}).get("costs", {}).get("per_hour", {}).pop(name, None)
        content["service"] = [entry for entry in content["service"] if entry["resource"] not in gone]
    kind, what = people_like(group_of(gone[0]), True, count == 1), "never on duty" if real else "gone"
    return f"{_number(count)} fewer {kind}: {_listed(gone)} {'is' if count == 1 else 'are'} {what}"


def _at_work(scenario: Scenario, names: Sequence[str], words: str) -> list[str]:
    there = [name for name in names if is_at_work(scenario, name)]
    if not there:
        raise UserError(f"{words or ', '.join(names)}: no person of this name is ever on duty.")
    return there


def _number(count: int) -> str:
    return "one" if count == 1 else str(count)


def _listed(names: Sequence[str]) -> str:
    """Return names as text, at most three of them."""
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def people_at_work(scenario: Scenario) -> int:
    """Return the number of people who are ever on duty."""
    return sum(is_at_work(scenario, name) for name in without_slots(scenario).resources)


def is_at_work(scenario: Scenario, name: str) -> bool:
    """Return whether a person is ever on duty."""
    return scenario.working_hours.get(name, scenario.rosters.get(name, True)) != []
