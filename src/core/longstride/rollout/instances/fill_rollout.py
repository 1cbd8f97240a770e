"""Filling an instance's trajectory with episodes one after another, of which the last may continue in the next one."""

from typing import Any, Protocol

from longstride.rollout.collector import EpisodeOutcome, InstanceTrajectory
from longstride.rollout.trajectory import Trajectory


class Fillable(Protocol):
    """An environment instance that plays episode after episode."""

    trajectory: Trajectory  # steps of the rollout
    over: bool  # whether the episode has ended, so that another one has to begin

    def begin_episode(self) -> None:
        """Begin the next episode."""

    def collect_steps(self, policy: Any, begin: int) -> int:
        """Continue the episode from a row on, to its end or to the last row; return the row after and set ``over``."""

    def outcome(self) -> EpisodeOutcome | None:
        """Return how the episode ended; None where it had not begun naturally."""


def fill(steps: int, policy: Any, instance: Fillable) -> InstanceTrajectory:
    """Fill an instance's trajectory with episodes one after another, and keep the observations after their cuts."""
    trajectory, row, cuts = instance.trajectory, 0, 0
    finished: list[EpisodeOutcome] = []
    while row < steps:
        if instance.over:
            instance.begin_episode()
        row = instance.collect_steps(policy, row)
        trajectory = instance.trajectory
        if instance.over:
            finished += filter(None, [instance.outcome()])
        if trajectory.truncated[row - 1] and row < steps:
            trajectory.cut_observations[cuts] = trajectory.observations[row]
            cuts += 1
    return InstanceTrajectory(trajectory.first(steps), finished)
