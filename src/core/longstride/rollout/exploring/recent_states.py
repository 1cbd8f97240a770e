"""States in which a run has been of late: a sample of what its policies meet, once queues have filled."""

from collections.abc import Iterable

import numpy as np

_MOST_STATES, _MOST_BYTES, _FEWEST_STATES = 512, 4 << 20, 16

_NAME = "recent"


class RecentStates:
    """The states of natural episodes at the ends of the last rollouts, ``state_dtype``[n], the newest ones last."""

    def __init__(self, state_dtype: np.dtype) -> None:
        self._dtype = state_dtype
        self._most = min(max(_MOST_BYTES // max(state_dtype.itemsize, 1), _FEWEST_STATES), _MOST_STATES)
        self.states = np.empty(0, state_dtype)

    def learn(self, rollout: Iterable[np.ndarray]) -> None:
        """Include the states of the parts of a rollout, ``state_dtype``[n] each."""
        together = np.concatenate([self.states, *rollout])[-self._most :]
        self.states = together.astype(self._dtype)  # fields with offsets of their own are packed until here

    def clear(self) -> None:
        """Forget all states."""
        self.states = np.empty(0, self._dtype)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        return {_NAME: self.states.copy().view(np.uint8).reshape(-1)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned; nothing of a checkpoint that has none."""
        self.states = arrays.get(_NAME, np.empty(0, np.uint8)).copy().view(self._dtype)
