"""A comparison by partial episodes from states of training, where the episodes of evaluations are cut.

An episode that is cut has its beginning only. Queues begin empty there and would take much longer to fill, so errors in
long queues cost nothing. From states in which training has been they do. What is compared is the sum of rewards: the
metrics of a simulator are those of whole episodes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longstride.training.choice.halving import FOR_EACH_ARM, Arm, Halved, halve
from longstride.training.evaluation.periodic import SHORTEST

PlayArmFrom = Callable[[Arm, np.ndarray, int, int], list[tuple[float | None, int]]]
"""Plays an arm from some states, ``state_dtype``[n], for at most so many steps, with random streams that are numbered
from the last argument on, and returns the sum of rewards and the steps of each."""


class FromTraining(NamedTuple):
    """States that training visited, and what they may be used for."""

    states: np.ndarray  # ``state_dtype``[n]
    budget: float  # steps of all partial episodes from them, and as many of long ones


NO_STATES = FromTraining(np.empty(0), 0.0)


def halve_from(
    given: FromTraining, arms: Sequence[Arm], play_from: PlayArmFrom, most: int, negligible: float
) -> Halved | None:
    """Return the best of some arms by their sums of rewards; None without states, or if the budget is too small.

    Each arm plays at least eight partial episodes, which are shorter where the budget has too few steps.

    Args:
        given: states from which all arms play, again and again on other random streams.
        arms: policies to compare.
        play_from: plays an arm from some states.
        most: most steps of a partial episode.
        negligible: difference of their means that decides nothing.
    """
    steps = min(most, int(given.budget / (FOR_EACH_ARM * len(arms))))
    if not len(given.states) or steps < SHORTEST:
        return None

    def play(arm: Arm, episodes: range) -> list[tuple[float | None, int]]:
        return play_from(arm, given.states[np.array(episodes) % len(given.states)], steps, episodes.start)

    return halve(arms, play, given.budget, steps, lower_is_better=False, negligible=negligible)
