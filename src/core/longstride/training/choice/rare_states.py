"""How a policy does from rarely visited states: taking the likeliest actions, it may be stuck there for good.

Episodes from natural starts hardly show that. With a state that is reached once in 100,000 steps and never left, the
likeliest actions do as well as draws in nearly all episodes that a run can afford at its end.

A policy is stuck in few of its rare states, if in any. So both ways play from many states first, then again, on other
random streams, from the few in which draws were most better. The second part alone decides: chance does not repeat.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from longstride.text import with_margin
from longstride.training.evaluation.compiled import Played
from longstride.training.evaluation.statistics import mean_and_margin

MOST_STATES, _FEWEST_STATES = 64, 16
_AGAIN = (8, 4), (8, 2), (4, 2)
"""Suspects, and how often each is played again: the first of these for which there are enough steps, else the last."""

_LONGEST, _ENOUGH, _LONG, _SHORTEST = 500, 150, 80, 50
"""Steps from a state on: most, those for which fewer excursions are played again and fewer states are tried, and
fewest. What a policy leaves undone may show only after a hundred steps."""

_NEGLIGIBLE = 0.1
"""Gain, as a share of the return, for which a policy does not draw: such states are rare."""

PlayFrom = Callable[[str, np.ndarray, int, int], list[Played]]
"""Plays a policy as ``trained`` or ``trained_sampled`` from some states, ``state_dtype``[n], for so many steps, with
random streams that are numbered from the last argument on."""


class Excursions(NamedTuple):
    """Both ways to play a policy from the states in which draws seemed most better, on the same random streams."""

    states: int  # states that were tried
    suspects: int  # those that were played again
    steps: int  # most steps from each
    likeliest: float  # mean sum of rewards of the likeliest actions from the suspects
    gain: float  # by how much draws exceed it
    margin: float  # half of the 95 % interval of the gain, from these states

    @property
    def draws_are_better(self) -> bool:
        """Whether draws are shown to be better, by more than is negligible."""
        return self.gain > max(self.margin, _NEGLIGIBLE * abs(self.likeliest))

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return self._asdict()


def compare_from(states: np.ndarray, play: PlayFrom, budget: float) -> Excursions | None:
    """Play from ``state_dtype``[n] states both ways within a budget of steps; None if it is too small, or n is."""
    count = min(len(states), MOST_STATES)
    while count > _FEWEST_STATES and _steps(budget / 2, count) < _LONG:
        count //= 2
    chosen, repeats = next((each for each in _AGAIN if _steps(budget / 2, prod(each)) >= _ENOUGH), _AGAIN[-1])
    first, again = _steps(budget / 2, max(count, 1)), _steps(budget / 2, chosen * repeats)
    if count < _FEWEST_STATES or min(first, again) < _SHORTEST:
        return None
    ways, tried = ("trained", "trained_sampled"), states[:count]
    likeliest, drawn = (_returns(play(way, tried, first, 0)) for way in ways)
    suspects = np.argsort(likeliest - drawn, kind="stable")[:chosen]
    repeated = np.repeat(tried[suspects], repeats)
    likeliest, drawn = (_returns(play(way, repeated, again, count)) for way in ways)
    gain, margin = _mean_over_states((drawn - likeliest).reshape(chosen, repeats))
    return Excursions(count, chosen, again, float(likeliest.mean()), gain, margin)


def excursions_sentence(found: Excursions | None) -> str:
    """Return why a policy draws its actions, if this is the reason; else nothing."""
    if found is None or not found.draws_are_better:
        return ""
    return (
        f"It draws its actions: from {found.suspects} of {found.states} rarely visited states, its most likely ones "
        f"have a return of {with_margin(found.gain, found.margin)} less in {found.steps} steps, as if stuck."
    )


def _steps(budget: float, excursions: int) -> int:
    """Return the steps of each of some excursions, which are played both ways."""
    return min(int(budget / (2 * excursions)), _LONGEST)


def _returns(played: list[Played]) -> np.ndarray:
    """Return float64[n]."""
    return np.array([each.record["return"] for each in played])


def _mean_over_states(gains: np.ndarray) -> tuple[float, float]:
    """Return the mean of float64[states, repeats], and half of its 95 % interval for these states.

    They are given, so only what differs between the repeats of a state is chance.
    """
    states, repeats = gains.shape
    mean, chance = gains.mean(), gains - gains.mean(axis=1, keepdims=True)
    degrees = np.sqrt((gains.size - 1) / (states * (repeats - 1)))
    _, margin = mean_and_margin(mean + degrees * chance.ravel())
    return float(mean), float(margin)
