"""A last look at the policies of a run in long episodes: what grows slowly shows only there.

In a hospital with 400 servers queues grow for 50,000 steps. Some policies there cost a seventh more than others in
the end, and the same in partial episodes of 3,125 steps.
"""

from collections.abc import Sequence

from longstride.training.choice.halving import FOR_EACH_ARM, Arm, Halved, Play, halve

_ARMS = 5
"""Arms for which the budget has to have enough episodes; there are more if whole episodes are short."""

_LONGER = 2.0
"""How many times as long as before episodes have to be."""


def steps_of_long(budget: float, most: int, cut: int) -> int:
    """Return the steps of a long episode, 0 if there is none.

    Args:
        budget: steps of all of them.
        most: steps after which the simulator ends an episode.
        cut: steps after which an episode was cut before.
    """
    steps = min(most, int(budget / (FOR_EACH_ARM * _ARMS)))
    return steps if steps >= _LONGER * cut else 0


def look_again(
    best: Arm,
    arms: Sequence[Arm],
    play: Play,
    budget: float,
    steps: int,
    lower_is_better: bool,
    worst: Sequence[float | None],
) -> Halved | None:
    """Return the best arm in long episodes of so many steps; None if the budget is too small.

    It is ``best``, the one that was the best before, unless another one is shown to be better. Likeliest actions of all
    policies take part before draws. See :func:`longstride.training.choice.halving.halve` for the other arguments.
    """
    others = sorted((arm for arm in arms if arm != best), key=lambda arm: arm.draws)
    return halve([best, *others], play, budget, steps, lower_is_better, worst)
