"""What a compiled loop notes for exploring starts: states in cells that few steps have visited.

A cell is a hash of the scaled observation, rounded to half of a standard deviation (Tang et al., "#Exploration",
arXiv 1611.04717, count visits in this way). Every instance notes a few states of a rollout, those in the rarest cells.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached

CELLS = 65_521
"""Number of cells, a prime; two that fall together only make each other look more visited."""

PLACES = 8
"""States that an instance notes in a rollout, at most."""

NONE = -1
"""Cell of a place without a state."""

_WIDTH, _FARTHEST = np.float32(0.5), np.float32(6.0)
"""Width of a cell in standard deviations, and the number of cells from the mean on where all are one."""

_BASE = 131
"""Base of the number whose digits are the cell's places, of which the rest modulo the number of cells is the hash."""


class Finds(NamedTuple):
    """Places of S instances for K states each; without exploring starts K is 0.

    Attributes:
        visits: float32[cells], visits of each cell before the rollout, which all instances read.
        oldest: int64[1], steps after which the states of an episode are not noted.
        rarity: float32[S, K], visits of the cells of the states, infinite for a free place.
        cells: int64[S, K], those cells.
        ages: int64[S, K], steps that the episodes had made.
        states: ``state_dtype``[S, K], states of the simulator.
    """

    visits: np.ndarray
    oldest: np.ndarray
    rarity: np.ndarray
    cells: np.ndarray
    ages: np.ndarray
    states: np.ndarray


def new_finds(states: np.ndarray, visits: np.ndarray | None = None, oldest: np.ndarray | None = None) -> Finds:
    """Return free places for the instances of ``state_dtype``[S]; none without visits to compare with."""
    shape = len(states), 0 if visits is None else PLACES
    return Finds(
        visits=np.zeros(0, np.float32) if visits is None else visits,
        oldest=np.zeros(1, np.int64) if oldest is None else oldest,
        rarity=np.full(shape, np.inf, np.float32),
        cells=np.full(shape, NONE, np.int64),
        ages=np.zeros(shape, np.int64),
        states=np.zeros(shape, states.dtype),
    )


@njit(nogil=True)
def note_find(finds, i, state, observation, age, actor_params):  # type: ignore[no-untyped-def]
    """Note a state of instance ``i`` if its cell is rarer than that of another one that was noted."""
    if age > finds.oldest[0]:
        return
    cell, rarity, worst = cell_of(observation, actor_params), finds.rarity[i], 0
    for k in range(len(rarity)):
        if finds.cells[i, k] == cell:
            return
        worst = k if rarity[k] > rarity[worst] else worst
    if finds.visits[cell] < rarity[worst]:
        rarity[worst], finds.cells[i, worst], finds.ages[i, worst] = finds.visits[cell], cell, age
        finds.states[i, worst] = state


@njit(nogil=True)
def cell_of(observation, actor_params):  # type: ignore[no-untyped-def]
    """Return the cell of float32[O]; the parameters begin with mean and scale of the observations."""
    n, key = len(observation), np.int64(0)
    for i in range(n):
        place = (observation[i] - actor_params[i]) * actor_params[n + i] / _WIDTH
        place = min(max(place, -_FARTHEST), _FARTHEST) if place == place else np.float32(0.0)
        key = (key * _BASE + np.int64(np.floor(place + np.float32(6.5)))) % CELLS
    return key


@cached
@njit(nogil=True)
def count_visits(observations, actor_params, visits):  # type: ignore[no-untyped-def]
    """Add the visits of float32[T, O] observations to float32[cells]."""
    for t in range(len(observations)):
        visits[cell_of(observations[t], actor_params)] += np.float32(1.0)
