"""The moves of a team, in the words of a change: more and fewer people of a kind, other hours, new skills."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.changes.people import groups, is_at_work, typical
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator

KINDS = "people", "skills", "hours"
"""Kinds of moves, in the order in which they are applied; people go last."""

HOURS = 2
"""Hours by which a group comes and goes earlier or later."""

_MOST_GROUPS, _MOST_SKILLS = 24, 12
"""Most groups of people, the largest first, and most new skills, those of the busiest activities first."""

Team = tuple[int, ...]
"""The option of each choice."""


@dataclass(frozen=True)
class Choice:
    """Options of which a team has one each."""

    name: str  # what is chosen, such as ``people analyst``; text of users
    kind: str  # one of KINDS
    options: tuple[str, ...]  # changes in words; "" for none

    @property
    def none(self) -> int:
        """The option that changes nothing."""
        return self.options.index("")


@dataclass(frozen=True)
class Space:
    """The teams of a search."""

    scenario: Scenario = field(repr=False)  # the people as they are
    choices: tuple[Choice, ...]

    @property
    def base(self) -> Team:
        """The people as they are."""
        return tuple(choice.none for choice in self.choices)

    @property
    def size(self) -> int:
        """Number of teams."""
        return math.prod(len(choice.options) for choice in self.choices)

    def all(self) -> list[Team]:
        """Return all teams, the people as they are first."""
        return [self.base, *(t for t in product(*(range(len(c.options)) for c in self.choices)) if t != self.base)]

    def neighbours(self) -> list[Team]:
        """Return the teams that differ by one step of one choice."""
        found = []
        for i, choice in enumerate(self.choices):
            near = (choice.none - 1, choice.none + 1) if choice.kind == "people" else range(len(choice.options))
            options = (option for option in near if 0 <= option < len(choice.options) and option != choice.none)
            found += [(*self.base[:i], option, *self.base[i + 1 :]) for option in options]
        return found

    def words(self, team: Team) -> str:
        """Return the changes of a team in words; empty for the people as they are."""
        chosen = [(choice, choice.options[option]) for choice, option in zip(self.choices, team, strict=True)]
        more = [words for choice, words in chosen if choice.kind == "people" and "people +" in words]
        fewer = [words for choice, words in chosen if choice.kind == "people" and "people -" in words]
        gone = {word for words in fewer for word in words.split("; ")}
        skills = [w for choice, w in chosen if choice.kind == "skills" and w and not _is_gone(w, gone)]
        hours = [words for choice, words in chosen if choice.kind == "hours" and words]
        return "; ".join([*more, *skills, *hours, *fewer])


def make_space(scenario: Scenario, kinds: Sequence[str], more: int, fewer: int) -> Space:
    """Return the moves of a scenario's people that are possible one by one.

    Args:
        scenario: the process with the people as they are.
        kinds: which of ``KINDS``.
        more: most people of a kind to add.
        fewer: most people of a kind to remove.

    Raises:
        UserError: there is no move.
    """
    known = groups([name for name in scenario.resources if is_at_work(scenario, name)])
    largest = sorted(known.items(), key=lambda item: len(item[1]), reverse=True)[:_MOST_GROUPS]
    choices = []
    for group, members in largest:
        name = quoted(group if len(members) > 1 else members[0])
        if "people" in kinds:
            leave = [f"people -1 {quoted(gone)}" for gone in _in_order(scenario, members)[:fewer]]
            less = ["; ".join(leave[:count]) for count in range(len(leave), 0, -1)]
            choices.append(Choice(f"people {group}", "people", (*less, "", *_more(name, more))))
        if "hours" in kinds:
            options = "", *(f"{name} {word} by {HOURS} hours" for word in ("earlier", "later"))
            choices.append(Choice(f"hours {group}", "hours", options))
    if "skills" in kinds:
        choices += _skills(scenario, [_in_order(scenario, members)[-1] for _, members in largest])
    possible = [Choice(c.name, c.kind, tuple(w for w in c.options if _is_possible(scenario, w))) for c in choices]
    found = tuple(choice for choice in possible if len(choice.options) > 1)
    if not found:
        raise UserError("There is no other team: no one can be added, removed, taught or come at other hours.")
    return Space(scenario, found)


def quoted(name: str) -> str:
    """Return a name in quotes, as changes in words have it."""
    return f'"{name}"' if "'" in name else f"'{name}'"


def _more(name: str, most: int) -> list[str]:
    return [f"people +{count} {name}" for count in range(1, most + 1)]


def _in_order(scenario: Scenario, members: Sequence[str]) -> list[str]:
    """Return people in the order in which they leave: always the one of middle speed of those who are left."""
    order: list[str] = []
    while len(order) < len(members):
        order.append(typical(scenario, [name for name in members if name not in order]))
    return order


def _skills(scenario: Scenario, people: Sequence[str]) -> list[Choice]:
    """Return for each of some people the new skills that may help, those of the busiest activities."""
    able: dict[str, set[str]] = {}
    for entry in scenario.service:
        able.setdefault(entry.activity, set()).add(entry.resource)
    simulator = ProcessSimulator(scenario)
    visits = simulator.routing.visits_by_activity(len(scenario.activities))
    load = dict(zip(scenario.activities, (visits * simulator.parameters["activity_share"]).tolist(), strict=True))
    pairs = [(name, a) for a, who in able.items() for name in people if name not in who]
    kept = sorted(pairs, key=lambda pair: -load[pair[1]])[:_MOST_SKILLS]
    options = {name: [f"{quoted(name)} learns {quoted(a)}" for who, a in kept if who == name] for name in people}
    return [Choice(f"skills {name}", "skills", ("", *words)) for name, words in options.items() if words]


def _is_gone(learns: str, gone: set[str]) -> bool:
    """Return whether the person who learns is one of those that leave."""
    return any(learns.startswith(f"{words.removeprefix('people -1 ')} learns ") for words in gone)


def _is_possible(scenario: Scenario, words: str) -> bool:
    try:
        return not words or bool(apply_changes(scenario, words).sentences)
    except UserError:
        return False
