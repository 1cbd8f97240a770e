"""Rare losses of a run, which the few episodes of an evaluation may all have missed."""

from collections.abc import Sequence

import numpy as np

_FEWEST = 4
"""Instances whose rewards are compared."""

_FAR = 20.0
"""Usual differences by which a loss exceeds others where it is rare: normally distributed sums stay within seven."""

_NO_SPREAD, _UNSEEN = 0.05, 0.5
"""Range of returns, as a share of the loss, of episodes in which it has not happened; and the number of such losses
that they count as having had."""


class RareLosses:
    """The largest loss that training met in parts of episodes, if most of these parts do not have the like.

    All instances of a rollout play the same policy for about as many steps, so their sums of rewards are compared with
    the median of the rollout.
    """

    def __init__(self) -> None:
        self._largest, self._usual, self._rollouts = 0.0, 0.0, 0

    def include(self, rewards: Sequence[float]) -> None:
        """Take note of the sum of rewards of each instance in a rollout, if they are enough to compare."""
        if len(rewards) >= _FEWEST:
            least, low, middle = np.quantile(rewards, (0.0, 0.25, 0.5))
            self._largest = max(self._largest, float(middle - least))
            self._usual += float(middle - low)
            self._rollouts += 1

    @property
    def largest(self) -> float:
        """The largest loss below the median of its rollout; 0 if it is not far beyond the usual ones."""
        return self._largest if self._largest * self._rollouts > _FAR * self._usual else 0.0

    def state(self) -> list[float]:
        """Return JSON values."""
        return [self._largest, self._usual, self._rollouts]

    def restore(self, state: Sequence[float]) -> None:
        """Continue after :meth:`state`; begin anew where an earlier version had none."""
        self._largest, self._usual, rollouts = state or (0.0, 0.0, 0)
        self._rollouts = int(rollouts)


def is_luck(returns: Sequence[float], others: Sequence[float], loss: float) -> bool:
    """Return whether the gain in the returns of some episodes over others may be luck.

    It may be if none of them had the rare loss, and if nothing of the gain is left with half such a loss among them.
    """
    if np.ptp(returns) >= _NO_SPREAD * loss:
        return False
    expected = np.mean(returns) - loss * _UNSEEN / (len(returns) + _UNSEEN)
    return bool(expected <= np.mean(others))
