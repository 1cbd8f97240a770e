"""When a training run has learned enough: one rule for both sides."""

from collections import deque

WINDOW = 100
"""Finished training episodes whose mean return is compared with the threshold."""


class Reached(Exception):  # noqa: N818 - not an error: it ends a training run that has learned enough
    """The threshold has been reached."""


class Threshold:
    """Follows the returns of finished training episodes in the order in which they end.

    Args:
        threshold: mean return to reach.
        window: episodes of the mean; before so many have ended nothing is reached.

    Attributes:
        steps: environment steps of all copies together when it was reached; None before.
        episodes: that have ended.
    """

    def __init__(self, threshold: float, window: int = WINDOW) -> None:
        self._threshold, self._last = threshold, deque[float](maxlen=window)
        self.steps: int | None = None
        self.episodes = 0

    def add(self, total: float, steps: int) -> bool:
        """Count an episode; return whether the threshold is reached.

        Args:
            total: undiscounted return of the episode.
            steps: environment steps of all copies together when it ended.
        """
        if self.steps is None:
            self._last.append(total)
            self.episodes += 1
            if len(self._last) == self._last.maxlen and self.mean >= self._threshold:
                self.steps = steps
        return self.steps is not None

    @property
    def mean(self) -> float:
        """Mean return of the last episodes; NaN of none."""
        return sum(self._last) / len(self._last) if self._last else float("nan")
