"""States of a run in many different cells, of which rarely visited ones are drawn most often.

The idea is that of Go-Explore (Ecoffet et al., "First return, then explore", Nature 2021): return to a state that is
known, and explore from there. A simulator whose state is a record makes the return free.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from longstride.rollout.exploring.finds import CELLS

_MOST_STATES, _MOST_BYTES, _FEWEST_STATES = 1_024, 16 << 20, 32

_FORGETTING = np.float32(0.9)
"""Share of the visits that a rollout leaves: a place that the policy has left becomes rare again."""

_AT_ONCE = 64

_NAMES = "visits", "cells", "ages", "states"


class Findings(NamedTuple):
    """What the rollout of some instances adds: visits float32[cells], and n states with cells and ages."""

    visits: np.ndarray
    cells: np.ndarray
    ages: np.ndarray
    states: np.ndarray


class ArchivedState(NamedTuple):
    """A state of the simulator, ``state_dtype``[], and the steps that its episode had made."""

    state: np.ndarray
    age: int


class Archive:
    """States by their cells, one for each, and the visits of all cells, float32[cells]."""

    def __init__(self, state_dtype: np.dtype) -> None:
        self._dtype = state_dtype
        self._most = min(max(_MOST_BYTES // max(state_dtype.itemsize, 1), _FEWEST_STATES), _MOST_STATES)
        self.visits = np.zeros(CELLS, np.float32)
        self._states: dict[int, ArchivedState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def learn(self, rollout: Iterable[Findings]) -> None:
        """Include what the parts of a rollout found; of a cell the newest state stays, and too visited ones go."""
        self.visits *= _FORGETTING
        for part in rollout:
            self.visits += part.visits
            for cell, age, state in zip(part.cells.tolist(), part.ages.tolist(), part.states, strict=True):
                self._states.pop(cell, None)
                self._states[cell] = ArchivedState(state.copy(), age)  # or all states of its rollout would stay
        most_visited = sorted(self._states, key=lambda cell: -self.visits[cell])
        for cell in most_visited[: max(len(self._states) - self._most, 0)]:
            del self._states[cell]

    def clear(self) -> None:
        """Forget all states and visits."""
        self.visits[:], self._states = 0.0, {}

    def drop_older(self, age: int) -> None:
        """Drop the states whose episodes had made more steps."""
        self._states = {cell: each for cell, each in self._states.items() if each.age <= age}

    def draws(self, rng: np.random.Generator) -> Iterator[ArchivedState]:
        """Yield states without end, each drawn with a probability that falls as the visits of its cell rise."""
        cells = list(self._states)
        weights = 1.0 / (self.visits[cells].astype(np.float64) + 1.0)
        while True:
            for k in rng.choice(len(cells), _AT_ONCE, p=weights / weights.sum()):
                yield self._states[cells[k]]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        cells, ages = np.array(list(self._states), np.int64), [each.age for each in self._states.values()]
        states = np.array([each.state for each in self._states.values()], self._dtype)
        columns = self.visits.copy(), cells, np.array(ages, np.int64), states.view(np.uint8).reshape(-1)
        return dict(zip(_NAMES, columns, strict=True))

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned; nothing of a checkpoint that has none."""
        self.visits[:], self._states = arrays.get("visits", 0.0), {}
        if "cells" in arrays:
            states = arrays["states"].copy().view(self._dtype)
            columns = arrays["cells"].tolist(), arrays["ages"].tolist(), states
            self._states = {cell: ArchivedState(s, age) for cell, age, s in zip(*columns, strict=True)}
