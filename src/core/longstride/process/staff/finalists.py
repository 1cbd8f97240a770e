"""The teams that are compared in full: which they are, and which of them is the cheapest that keeps the promise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longstride.process.front.content import Front
from longstride.process.promise import share_within
from longstride.process.scenario.aims import Target
from longstride.process.staff.moves import Team
from longstride.process.staff.search import Played
from longstride.text import counted, format_number, in_words, scale_of


@dataclass(frozen=True)
class Finalist:
    """A team that is compared in full."""

    name: str  # such as ``team 1``
    team: Team
    words: str  # its changes in words; text of users


def choose_finalists(front: Sequence[Played], base: Team, count: int, most_beyond: float | None = None) -> list[Played]:
    """Return the teams of a front to compare in full.

    Args:
        front: teams by their first metric.
        base: the people as they are, who are compared in any case.
        count: most teams.
        most_beyond: if the second metric is the share of cases beyond a target, the promised exceptions. Then the teams
            are those with the least first metric that keep the promise in the search, or those that are nearest to it.
            Otherwise they are spread evenly over the front.
    """
    teams = [played for played in front if played.team != base]
    if len(teams) <= count:
        return teams
    if most_beyond is not None:
        kept = [played for played in teams if played.values[1] <= most_beyond]
        return kept[:count] or sorted(teams, key=lambda played: played.values[1])[:count]
    return [teams[round(i)] for i in np.linspace(0, len(teams) - 1, count)]


def promise_of_teams(front: Front, target: Target | None) -> list[str]:
    """Return a sentence about the cheapest team that keeps a promise, or why none is named."""
    if target is None or not front.judged:
        return []
    unit = front.simulator.scenario.time_unit
    scale = scale_of(unit, target.within)
    promise = f"{100.0 * target.share:g} % within {target.within * scale.factor:g}{scale.suffix}"
    shares = {point.name: share for point in front.points if (share := share_within(point.records)) is not None}
    first = front.metrics[0]
    kept = [p for p in front.points if p.name in shares and shares[p.name][1] >= target.share]
    compared = counted(len(front.points), "point")
    if not shares:
        return []
    if not kept:
        name = max(shares, key=lambda each: shares[each][0])
        return [
            f"No team is named for {promise}: none of {compared} is shown to keep it. The nearest is {name} with "
            f"{_shown(shares[name])}."
        ]
    best = min(kept, key=lambda point: point.mean(first) or 0.0)
    cost = front.scale(first).show(best.mean(first) or 0.0)
    return [
        f"Of {compared}, the one with the least {in_words(first)} that is shown to keep {promise} is {best.name}: "
        f"{cost}, with {_shown(shares[best.name])}.{f' Its changes: {best.team}.' if best.team else ''}"
    ]


def _shown(share: tuple[float, float, float]) -> str:
    mean, low, high = (format_number(100.0 * number, 3) for number in share)
    return f"{mean} % (95 % interval {low} to {high} %)"
