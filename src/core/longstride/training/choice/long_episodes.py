"""A last look at the policies of a run in long episodes, where others are cut.

The beginning of an episode says little of what grows slowly. In loaded queues errors in long queues cost nothing there;
and in a hospital with 400 servers some policies cost a seventh more than others after 50,000 steps, and the same after
3,125.
"""

from collections.abc import Callable, Sequence

from longstride.training.choice.halving import FOR_EACH_ARM, Arm, Halved, halve

_ARMS = 5
"""Arms for which the budget has to have enough episodes; there are more where whole episodes are short."""

_LONGER = 2
"""How many times as long as before episodes have to be at least."""

PlayLong = Callable[[Arm, range, int], list[tuple[float | None, int]]]
"""Plays episodes of an arm, by number, of at most so many steps; returns the main metric and the steps of each."""


def steps_of_long(budget: float, most: int, cut: int) -> int:
    """Return the most steps of a long episode, 0 if the budget is too small.

    Args:
        budget: steps of all of them.
        most: steps after which the simulator ends an episode.
        cut: steps after which an episode was cut before.
    """
    steps = min(most, int(budget / (FOR_EACH_ARM * _ARMS)))
    return steps if steps >= _LONGER * cut else 0


def look_again(
    first: Arm,
    before: Arm,
    arms: Sequence[Arm],
    play: PlayLong,
    budget: float,
    steps: int,
    lower_is_better: bool,
    worst: Sequence[float | None],
) -> Halved:
    """Return the best arm in long episodes of :func:`steps_of_long` steps, which the budget allows.

    It is the first one, unless another one is shown to be better. The one that was the best before takes part, then the
    likeliest actions of all policies, then draws. See :func:`longstride.training.choice.halving.halve` for the other
    arguments.
    """
    others = sorted((arm for arm in arms if arm not in (first, before)), key=lambda arm: arm.draws)
    order = [first, *([before] if before != first else []), *others]
    found = halve(order, lambda arm, episodes: play(arm, episodes, steps), budget, steps, lower_is_better, worst)
    assert found is not None  # there are steps for eight episodes of each of five arms
    return found
