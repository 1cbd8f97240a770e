"""Whether natural episodes vary far less now than they did before, as after a start in which a stream ran away."""

from collections.abc import Iterable

import numpy as np

from longstride.policies.observation_normalizer import LEAST_STD, BatchStatistics, RunningStatistics

_RECENT = 0.8
"""Share of the recent observations that each rollout leaves: they are those of about five rollouts."""

_FAR_LESS = 4.0
"""By how much less a number varies where all that vary less begin anew."""

_ALL, _OF_RECENT, _NUMBERS = "natural.", "recent.", "natural_rollouts"
"""Names of the arrays of a checkpoint: begins of those of the statistics, and that of the numbers of rollouts."""


class NaturalObservations:
    """Statistics of the observations of natural episodes, of all since the last new beginning and of recent ones.

    Excursions count in neither: they bring back the beginning of a run, from which they start. After a new beginning,
    the next one waits until twice as many rollouts have been played, so that rare events cannot cause many.
    """

    def __init__(self, size: int) -> None:
        self._all, self.recent = RunningStatistics.empty(size), RunningStatistics.empty(size)
        self._rollouts = np.zeros(2, np.int64)  # so many, and the first one in which there may be a new beginning

    def learn(self, rollout: Iterable[BatchStatistics]) -> np.ndarray:
        """Include a rollout; return bool[O], where ``recent`` is to count alone from now on, if anywhere."""
        self.recent.fade(_RECENT)
        for batch in rollout:
            self._all.include(batch)
            self.recent.include(batch)
        self._rollouts[0] += 1
        before, now = self._all.deviation(), self.recent.deviation()
        narrower: np.ndarray = (now < before) & (now > LEAST_STD) & ~self._all.indicator
        count, due = self._rollouts.tolist()
        if count < due or not (before[narrower] > _FAR_LESS * now[narrower]).any():
            return np.zeros_like(narrower)
        self._rollouts[1] = 2 * count
        self._all.begin_anew(self.recent, narrower)
        return narrower

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint by name."""
        both = {_ALL: self._all, _OF_RECENT: self.recent}
        arrays = {f"{begin}{name}": array for begin, each in both.items() for name, array in vars(each).items()}
        return {_NUMBERS: self._rollouts, **arrays}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned, among others; nothing of an earlier version, which had none."""
        if _NUMBERS in arrays:
            self._rollouts = arrays[_NUMBERS].copy()
            names = vars(self._all)
            self._all = RunningStatistics(**{name: arrays[f"{_ALL}{name}"].copy() for name in names})
            self.recent = RunningStatistics(**{name: arrays[f"{_OF_RECENT}{name}"].copy() for name in names})
