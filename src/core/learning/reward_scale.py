"""Reward normalisation: rewards divided by the running standard deviation of the discounted return."""

from collections.abc import Sequence

import numpy as np

from core.learning.advantages import discounted_sums
from core.policies.observation_normalizer import RunningStatistics
from core.rollout.trajectory import Trajectory

_ROUNDING = 1e-9
"""A standard deviation below this share of the mean is rounding: such rewards are left as they are."""


class RewardScale:
    """What rewards are divided by, and the statistics that it comes from.

    The statistics are those of Stable-Baselines3's ``VecNormalize``, and of Gymnasium's ``NormalizeReward`` within an
    episode: over all decisions so far, of the sum of the episode's rewards up to the decision, in which earlier rewards
    are discounted. They take in a whole rollout before its rewards are divided.

    Attributes:
        statistics: of the discounted sums, one column.
        carried: float64[copies], the sums of episodes that go on in the next rollout, 0 where none does.
        divisor: float64[1], what the last rollout was divided by; 1 before the first.
    """

    def __init__(self, copies: int) -> None:
        self.statistics, self.carried, self.divisor = RunningStatistics.empty(1), np.zeros(copies), np.ones(1)

    def learn(self, trajectories: Sequence[Trajectory], discounts: Sequence[np.ndarray]) -> None:
        """Take in the rewards of a rollout and set the divisor.

        Args:
            trajectories: one of each copy.
            discounts: float64[T] of each, from each decision to the next.
        """
        for i, (t, discount) in enumerate(zip(trajectories, discounts, strict=True)):
            ended = t.terminated | t.truncated
            sums, self.carried[i] = discounted_sums(t.rewards, discount, ended, self.carried[i])
            self.statistics.merge(sums[:, None])
        std = float(np.sqrt(self.statistics.squares[0] / self.statistics.count[0]))
        self.divisor[0] = std if std > _ROUNDING * abs(self.statistics.mean[0]) else 1.0

    def divide(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Return trajectories with their rewards divided; the others stay as they are."""
        return [t._replace(rewards=(t.rewards / self.divisor[0]).astype(np.float32)) for t in trajectories]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        return {**vars(self.statistics), "carried": self.carried, "divisor": self.divisor}

    def restore(self, arrays: dict[str, np.ndarray], goes_on: bool) -> None:
        """Take over what :meth:`arrays` returned, unless a checkpoint without it left nothing.

        Args:
            arrays: by name, or empty.
            goes_on: whether unfinished episodes go on.
        """
        if arrays:
            self.statistics = RunningStatistics(**{name: arrays[name] for name in vars(self.statistics)})
            self.divisor = arrays["divisor"]
            self.carried = arrays["carried"] if goes_on else np.zeros_like(self.carried)
