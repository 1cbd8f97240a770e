"""Successive halving: the best of some policies, each with as many episodes as it takes to tell it from the others.

Karnin, Koren and Somekh (2013), Almost optimal exploration in multi-armed bandits. All policies play the same episodes,
so that differences are paired.
"""

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from longstride.training.choice.candidates import common_episodes, scores
from longstride.training.evaluation.statistics import mean_and_margin

FEWEST_OF_TWO, _ENOUGH, FOR_EACH_ARM = 4, 4, 8
"""Episodes of two policies at least; those of each in the first round, from which an interval rules a policy out; and
those that the budget has to have for each arm that takes part."""

_NEGLIGIBLE = 0.005
"""Gain, as a share of the metric, that decides nothing."""


class Arm(NamedTuple):
    """A candidate, by its place, that draws its actions or takes the likeliest ones."""

    candidate: int
    draws: bool


Play = Callable[[Arm, range], list[tuple[float | None, int]]]
"""Plays episodes, by number, and returns the main metric and the steps of each."""


class Halved(NamedTuple):
    """What successive halving has found."""

    best: Arm  # best arm
    values: dict[Arm, list[float | None]]  # main metric of the episodes of each arm that has played
    steps: int  # environment steps of all of them


def halve(
    arms: Sequence[Arm],
    play: Play,
    budget: float,
    episode_steps: float,
    lower_is_better: bool,
    worst: Sequence[float | None] = (),
    beside: int = 0,
) -> Halved | None:
    """Return the best of some arms; None if the budget does not even compare two.

    The first arm, which takes the likeliest actions, stays the best, unless another one is shown to be better. So does
    one that takes the likeliest actions against one that draws them.

    Args:
        arms: policies to compare; the last ones are left out if the budget is too small for all.
        play: plays episodes of an arm.
        budget: environment steps of all episodes.
        episode_steps: about how many steps an episode has.
        lower_is_better: whether the main metric is a cost.
        worst: worst main metric of an episode that trained about then, for each candidate.
        beside: number of arms that take part beside those for which the budget has enough.
    """
    affordable = budget / episode_steps
    alive = list(arms[: max(int(affordable / FOR_EACH_ARM) + beside, 2)])
    if len(alive) < 2 or affordable < FEWEST_OF_TWO:
        return None
    values, spent, sign = {arm: list[float | None]() for arm in alive}, 0, 1.0 if lower_is_better else -1.0
    while len(alive) > 1:
        before = len(values[alive[0]])
        more = int((budget - spent) / (ceil(log2(len(alive))) * len(alive) * episode_steps))
        more = more if before else max(min(_ENOUGH, int(affordable / len(alive))), more)
        if not more:
            break
        for arm in alive:
            played = play(arm, range(before, before + more))
            values[arm] += [value for value, _ in played]
            spent += sum(steps for _, steps in played)
        episode_steps = max(spent / sum(map(len, values.values())), 1.0)
        costs = sign * common_episodes([values[arm] for arm in alive])
        bad = [None if not worst or worst[a.candidate] is None else sign * worst[a.candidate] for a in alive]  # type: ignore[operator]
        alive = _survivors(alive, costs, bad, arms[0])
    return Halved(best_shown(alive[0], arms[0], values, sign), values, spent)


def _survivors(arms: list[Arm], costs: np.ndarray, worst: Sequence[float | None], first: Arm) -> list[Arm]:
    """Return the arms of the next round, the best first: the better half, those within an error of the best, the first.

    The error is the standard error of the paired difference. Arms that are shown to be worse than the best one, or act
    as a better one does, are left out.
    """
    found = scores(costs, worst)
    order = sorted(range(len(arms)), key=lambda i: (found[i], arms[i].draws))
    kept, best = list[int](), order[0]
    for place, i in enumerate(order):
        differences = costs[i] - costs[best]
        mean, margin = mean_and_margin(differences)
        error = differences.std() / np.sqrt(len(differences))
        shown_worse = len(differences) >= _ENOUGH and mean > margin
        is_like_another = any((costs[i] == costs[j]).all() for j in kept)
        is_open = place < len(arms) / 2 or mean <= error or arms[i] == first
        if i == best or (is_open and not (shown_worse or is_like_another)):
            kept.append(i)
    return [arms[i] for i in kept]


def best_shown(best: Arm, first: Arm, values: dict[Arm, list[float | None]], sign: float) -> Arm:
    """Return the best arm, unless its gain over the first one, or over the best one without draws, is not shown.

    It is shown if it exceeds its standard error, paired, and is not negligible. Another policy that takes the place
    of the best one has to be shown, too.
    """
    gains = {arm: _gains(values[best], values[arm], sign) for arm in values}
    greedy = min((arm for arm in values if not arm.draws), key=lambda arm: float(gains[arm].mean()))
    for arm in [first, *([greedy] if best.draws else [])]:
        gain, size = gains[arm], abs(float(common_episodes([values[arm]]).mean()))
        is_shown = gain.mean() > max(float(gain.std()) / np.sqrt(len(gain)), _NEGLIGIBLE * size)  # not if it is NaN
        if arm != best and not is_shown:
            return arm if arm.candidate == best.candidate else best_shown(arm, first, values, sign)
    return best


def _gains(values: Sequence[float | None], others: Sequence[float | None], sign: float) -> np.ndarray:
    """Return by how much each common episode is better than under another arm, float64[episodes]."""
    ours, theirs = sign * common_episodes([values, others])
    return np.asarray(theirs - ours)
