"""How a policy does from rarely visited states: taking the likeliest actions, it may be stuck there for good.

Episodes from natural starts hardly show that. With a state that is reached once in 100,000 steps and never left, the
likeliest actions do as well as draws in nearly all episodes that a run can afford at its end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from longstride.text import with_margin
from longstride.training.evaluation.compiled import Played
from longstride.training.evaluation.statistics import mean_and_margin

MOST_STATES, _FEWEST_STATES = 64, 16
_LONGEST, _SHORTEST = 500, 50
"""Steps of an excursion."""

_NEGLIGIBLE = 0.01
"""Gain, as a share of the rewards, that decides nothing."""

PlayFrom = Callable[[str, np.ndarray, int], list[Played]]
"""Plays a policy as ``trained`` or ``trained_sampled`` from some states, ``state_dtype``[n], for so many steps."""


class Excursions(NamedTuple):
    """Both ways to play a policy from the same states, on the same random streams."""

    states: int  # states
    steps: int  # most steps from each
    likeliest: float  # mean sum of rewards of the likeliest actions
    gain: float  # by how much draws exceed it
    margin: float  # half of the 95 % interval of the gain

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
    while count > _FEWEST_STATES and budget < 2 * count * 2 * _SHORTEST:
        count //= 2
    steps = min(int(budget / (2 * count)), _LONGEST) if count >= _FEWEST_STATES else 0
    if steps < _SHORTEST:
        return None
    ways = [play(name, states[:count], steps) for name in ("trained", "trained_sampled")]
    likeliest, drawn = (np.array([each.record["return"] for each in played]) for played in ways)
    gain, margin = mean_and_margin(drawn - likeliest)
    return Excursions(count, steps, float(likeliest.mean()), float(gain), float(margin))


def excursions_sentence(found: Excursions | None) -> str:
    """Return why a policy draws its actions, if this is the reason; else nothing."""
    if found is None or not found.draws_are_better:
        return ""
    return (
        f"It draws its actions: from {found.states} rarely visited states, its likeliest ones have a return of "
        f"{with_margin(found.gain, found.margin)} less in {found.steps} steps, as if stuck."
    )
