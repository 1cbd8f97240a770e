"""Differential rewards, for processes that never end: what a step brings beyond the mean.

With them the sum of all later rewards needs no discount (Sutton and Barto, "Reinforcement learning: an introduction",
2018, section 10.3; Zhang and Ross, "On-policy deep reinforcement learning for the average-reward criterion", 2021).
"""

from collections.abc import Sequence

import numpy as np

from core.errors import UserError
from core.rollout.trajectory import Trajectory

_MEMORY = 0.9
"""Share of the old rate that a rollout leaves."""


class AverageReward:
    """The mean reward of a step, or of an interval of simulated time, as a moving average over rollouts.

    ``rate`` is None before the first rollout.
    """

    def __init__(self) -> None:
        self.rate: float | None = None

    def subtract(self, trajectories: Sequence[Trajectory], durations: Sequence[np.ndarray]) -> list[Trajectory]:
        """Take note of a rollout; return it with differential rewards.

        Durations are float64[T] of each trajectory, from each step to the next: 1, or intervals of simulated time.

        Raises:
            UserError: an episode was terminated: the mean over infinite time says nothing about it.
        """
        if any(t.terminated.any() for t in trajectories):
            raise UserError(
                "AVERAGE_REWARD is on, but the simulator terminated an episode; the mean reward is for processes that "
                "never end. Leave it off, or let the simulator go on, or end episodes by max_steps or truncated()."
            )
        total, time = sum(float(t.rewards.sum()) for t in trajectories), sum(float(d.sum()) for d in durations)
        if time > 0.0:
            rate = total / time
            self.rate = rate if self.rate is None else _MEMORY * self.rate + (1 - _MEMORY) * rate
        rate = self.rate or 0.0
        return [
            t._replace(rewards=(t.rewards - rate * duration).astype(np.float32))
            for t, duration in zip(trajectories, durations, strict=True)
        ]
