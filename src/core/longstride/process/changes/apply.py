"""Kinds of changes in words, and the new scenario that each makes."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from longstride.errors import UserError
from longstride.process.changes.hours import add_holidays, days_named, make_absent, move_hours, take_off
from longstride.process.changes.names import MaskedNames
from longstride.process.changes.people import add_people, find_people, groups, remove_people
from longstride.process.changes.volume import change_arrivals, change_times, teach
from longstride.process.scenario.at_once import without_slots
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

_PERCENT = r"([+-]\s*\d{1,9}(?:\.\d{1,9})?)\s*%"
_WAYS = {
    "people": re.compile(r"people\s*([+-])\s*(\d{1,9})\s+(?:like\s+)?(.+)", re.IGNORECASE),
    "arrivals": re.compile(rf"arrivals\s*{_PERCENT}", re.IGNORECASE),
    "times": re.compile(rf"times?\s*{_PERCENT}\s+(.+)", re.IGNORECASE),
    "holiday": re.compile(r"holidays?\s+(?:on\s+)?(.+)", re.IGNORECASE),
    "learns": re.compile(r"(.+?)\s+learns?\s+(.+)", re.IGNORECASE),  # first: activities may be called "Sign off loan"
    "moved": re.compile(r"(.+?)\s+(earlier|later)\s+by\s+(\d{1,2})\s*h(?:ours?)?", re.IGNORECASE),
    "absent": re.compile(r"(.+?)\s+absent\s+(?:from\s+)?(.+)", re.IGNORECASE),
    "off": re.compile(r"(.+?)\s+off\s+(?:on\s+)?(.+)", re.IGNORECASE),
}
EXAMPLES = (
    "people +1 analyst",
    "people -1 Kim",
    "arrivals +10%",
    "times -20% Assess risk",
    "Kim off friday",
    "Kim later by 2 hours",
    "Kim absent 2026-03-02 to 2026-03-13",
    "holiday 2026-04-06",
    "Kim learns Approve loan",
)
"""A change of each kind, as users write it."""

_MOST_PEOPLE = 1_000


class Changed(NamedTuple):
    """A scenario after some changes, with a sentence about each of them, without a full stop."""

    scenario: Scenario
    sentences: list[str]


def apply_changes(scenario: Scenario, text: str) -> Changed:
    """Apply changes in words, separated by semicolons; the new scenario is named after them.

    Raises:
        UserError: the words describe no change, or the process would be impossible; the message names the change.
    """
    sentences: list[str] = []
    scenario = without_slots(scenario)
    changed, masked = (
        scenario,
        MaskedNames(text, [*scenario.activities, *groups(scenario.resources), *scenario.resources]),
    )
    for part in filter(None, (part.strip() for part in masked.text.split(";"))):
        changed, added = _apply(changed, part, masked)
        sentences += added
    if not sentences:
        raise UserError(f"The change {text!r} is empty; changes are like: {'; '.join(EXAMPLES)}.")
    # The figures of a log are those of the process as it was.
    return Changed(changed.model_copy(update={"name": f"{scenario.name}, {text.strip()}", "logged": None}), sentences)


def _apply(scenario: Scenario, part: str, masked: MaskedNames) -> Changed:
    change = masked.names_in(part)
    # A person may be called like a word of a change, so this is also read without regard to names.
    kind, words = next(
        (
            (kind, [masked.names_in(group) for group in found.groups()])
            for form in (part, change)
            for kind, way in _WAYS.items()
            if (found := way.fullmatch(form))
        ),
        ("", list[str]()),
    )
    if not kind:
        raise UserError(f"The change {change!r} is not understood; changes are like: {'; '.join(EXAMPLES)}.")
    try:
        content = scenario_content(scenario)
        sentence = _CHANGES[kind](content, scenario, *words)
        return Changed(parse_scenario(content, "the new scenario"), [sentence])
    except UserError as error:
        raise UserError(f"Change {change!r}: {error}") from None


def _count(content: dict[str, Any], scenario: Scenario, sign: str, number: str, words: str) -> str:
    """Add or remove people; return a sentence about it."""
    members, count = find_people(scenario, words), int(number)
    most = _MOST_PEOPLE if sign == "+" else len(members)
    if not 1 <= count <= most:
        raise UserError(f"{count} people is not from 1 to {most}.")
    change = add_people if sign == "+" else remove_people
    return change(content, scenario, members, count, words)


_CHANGES: dict[str, Callable[..., str]] = {
    "people": _count,
    "arrivals": lambda content, scenario, share: change_arrivals(content, scenario, _number(share)),
    "times": lambda content, scenario, share, activity: change_times(content, scenario, _number(share), activity),
    "holiday": add_holidays,
    "absent": lambda content, scenario, who, when: make_absent(content, scenario, find_people(scenario, who), when),
    "moved": lambda content, scenario, who, word, hours: move_hours(
        content, scenario, find_people(scenario, who), word.lower(), int(hours)
    ),
    "off": lambda content, scenario, who, when: take_off(
        content, scenario, find_people(scenario, who), days_named(when)
    ),
    "learns": lambda content, scenario, who, activity: teach(content, scenario, find_people(scenario, who), activity),
}


def _number(text: str) -> float:
    return float("".join(text.split()))
