"""A comparison from the states that training visits, where episodes are cut.

An episode that is cut has its beginning only. Queues begin empty there and would take much longer to fill, so errors in
long queues cost nothing. From states of training they do. What is compared is the sum of rewards: the metrics of a
simulator are those of whole episodes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longstride.training.choice.halving import FOR_EACH_ARM, Arm, Halved, halve

MOST_STATES = 512
"""States from which policies play; if there are more pieces, they are played again, on other random streams."""

PlayArmFrom = Callable[[Arm, np.ndarray, int], list[tuple[float | None, int]]]
"""Plays an arm from some states, ``state_dtype``[n], with random streams that are numbered from the last argument on,
and returns the sum of rewards and the steps of each."""


class UsualStates(NamedTuple):
    """States of training, and what they may be used for."""

    states: np.ndarray  # ``state_dtype``[n], each as often as training visited it
    budget: float  # steps of all pieces that are played from them


NO_STATES = UsualStates(np.empty(0), 0.0)


def halve_from(
    usual: UsualStates, arms: Sequence[Arm], play_from: PlayArmFrom, steps: int, beside: int
) -> Halved | None:
    """Return the best of some arms by their sums of rewards; None without states, or if they buy too little.

    Args:
        usual: states from which all arms play.
        arms: policies to compare; for ``beside`` of them see :func:`halve`.
        play_from: plays an arm from some states.
        steps: most steps of a piece.
        beside: number of arms that take part beside those for which the budget has enough.
    """
    if not len(usual.states) or usual.budget <= FOR_EACH_ARM * len(arms) * steps:
        return None

    def play(arm: Arm, pieces: range) -> list[tuple[float | None, int]]:
        return play_from(arm, usual.states[np.array(pieces) % len(usual.states)], pieces.start)

    return halve(arms, play, usual.budget, steps, lower_is_better=False, beside=beside)
