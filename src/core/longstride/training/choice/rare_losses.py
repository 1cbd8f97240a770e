"""Rare losses of a run, which the few episodes of an evaluation may all have missed."""

from collections.abc import Sequence

import numpy as np

_FEWEST = 4
"""Instances whose rewards are compared."""

_FAR = 30.0
"""Usual differences by which a loss exceeds others where it is rare. Of some thousand sums, normally distributed ones
stay within seven, exponentially distributed ones within 25."""

_NO_SPREAD, _UNSEEN = 0.05, 0.5
"""Range of returns, as a share of the loss, of episodes in which it has not happened; and the number of such losses
that they count as having had."""


class RareLosses:
    """The largest loss that training met in a part of an episode, if others of the same rollout have nothing like it.

    All instances of a rollout play the same policy for about as many steps. So their sums of rewards are compared with
    the median of the rollout. A usual difference is the one from the median to the lower quartile, of this rollout or
    in the mean of all so far, whichever is larger: a quartile of a few instances is uncertain.

    Attributes:
        largest: the largest rare loss below the median of its rollout; 0 if there was none.
    """

    def __init__(self) -> None:
        self.largest, self._usual, self._rollouts = 0.0, 0.0, 0

    def include(self, rewards: Sequence[float]) -> None:
        """Take note of the sum of rewards of each instance in a rollout, if they are enough and finite."""
        if len(rewards) < _FEWEST or not np.isfinite(rewards).all():
            return
        least, low, middle = map(float, np.quantile(rewards, (0.0, 0.25, 0.5)))
        self._rollouts += 1
        self._usual += (middle - low - self._usual) / self._rollouts
        if middle - least > _FAR * max(middle - low, self._usual):
            self.largest = max(self.largest, middle - least)

    def state(self) -> list[float]:
        """Return JSON values."""
        return [self.largest, self._usual, self._rollouts]

    def restore(self, state: Sequence[float]) -> None:
        """Continue after :meth:`state`; begin anew where an earlier version had none."""
        self.largest, self._usual, rollouts = state or (0.0, 0.0, 0)
        self._rollouts = int(rollouts)


def vanishes_with_a_loss(returns: Sequence[float], others: Sequence[float], loss: float) -> bool:
    """Return whether a gain in the returns of some episodes over others is there only because none had a rare loss.

    It is if nothing of it is left with half such a loss among the episodes.
    """
    count = min(len(returns), len(others))
    gain = float(np.mean(returns[:count]) - np.mean(others[:count]))
    return bool(np.ptp(returns) < _NO_SPREAD * loss) and 0.0 < gain <= loss * _UNSEEN / (len(returns) + _UNSEEN)
