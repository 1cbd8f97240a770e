"""The mean of a run's late policies, which the wandering of single ones has been averaged out of.

Where single updates are mostly noise, policies wander around the best one that the critic lets them find. The mean of
their parameters is closer to it (Polyak and Juditsky 1992). Late policies count most, by polynomial decay: that needs
no planned end (Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013).
"""

from typing import Any

import numpy as np

_DECAY = 5
"""Power of its number, counted from 1, with which a policy counts: the mean one is a seventh of the run old."""

_ARRAY, _COUNT = "candidate.mean", "policies_in_mean"


class MeanPolicy:
    """The mean of the parameters float32[*] of the policies so far, weighed by the fifth power of their number."""

    def __init__(self) -> None:
        self._mean = np.empty(0)
        self._count = 0

    def include(self, params: np.ndarray) -> None:
        """Take the next policy into the mean."""
        self._count += 1
        weight = (_DECAY + 1) / (_DECAY + self._count)
        self._mean = self._mean + weight * (params - self._mean) if self._count > 1 else params.astype(np.float64)

    @property
    def params(self) -> np.ndarray | None:
        """The mean, float32[*]; None if it is of fewer than two policies."""
        return self._mean.astype(np.float32) if self._count > 1 else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        return {_ARRAY: self._mean} if self._count else {}

    def metadata(self) -> dict[str, Any]:
        """Return the JSON values of a checkpoint."""
        return {_COUNT: self._count}

    def restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
        """Continue after :meth:`arrays` and :meth:`metadata`; begin anew where an earlier version had neither."""
        self._count = metadata.get(_COUNT, 0) if _ARRAY in arrays else 0
        self._mean = arrays[_ARRAY].copy() if self._count else np.empty(0)
