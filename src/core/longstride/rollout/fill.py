"""Filling an instance's trajectory with episodes one after another, of which the last may continue in the next one."""

from dataclasses import dataclass, field
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

    def outcome(self) -> EpisodeOutcome:
        """Return how the episode ended."""


@dataclass
class Filled:
    """How far a trajectory is filled: the next row, the number of cuts before it, and the episodes that ended."""

    row: int = 0
    cuts: int = 0
    finished: list[EpisodeOutcome] = field(default_factory=list)


def fill(steps: int, policy: Any, instance: Fillable) -> InstanceTrajectory:
    """Fill an instance's trajectory with episodes one after another, and keep the observations after their cuts."""
    filled = Filled()
    fill_to(steps, steps, policy, instance, filled)
    return InstanceTrajectory(instance.trajectory.first(steps), filled.finished)


def fill_to(end: int, steps: int, policy: Any, instance: Fillable, filled: Filled) -> None:
    """Continue to fill an instance's trajectory of so many steps, up to a row."""
    trajectory = instance.trajectory
    while filled.row < end:
        if instance.over:
            instance.begin_episode()
        filled.row = instance.collect_steps(policy, filled.row)
        if instance.over:
            filled.finished.append(instance.outcome())
        if trajectory.truncated[filled.row - 1] and filled.row < steps:
            trajectory.cut_observations[filled.cuts] = trajectory.observations[filled.row]
            filled.cuts += 1
