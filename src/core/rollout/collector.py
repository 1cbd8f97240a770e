"""What all collectors share: their plan, their results and the protocol that the trainer uses."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from core.policies.spec import PolicySpec
from core.rollout.fault_locator import ReplayedInstance
from core.rollout.trajectory import Trajectory
from core.simulators.simulator import Simulator


class RolloutPlan(NamedTuple):
    """How much an iteration collects, and on what.

    Attributes:
        seed: seed of the run's random streams.
        instances: number of environment instances.
        steps: environment steps of each instance; 0 for one whole episode each.
        threads: most threads to use.
        side_by_side: most whole episodes that a thread plays at once, which is faster than one after another.
    """

    seed: int
    instances: int
    steps: int = 0
    threads: int = 1
    side_by_side: int = 1


class EpisodeOutcome(NamedTuple):
    """How an episode ended.

    Attributes:
        total_reward: undiscounted sum of rewards.
        metrics: the simulator's metrics as JSON values.
        message: sentence about the end that a user should read, or None.
    """

    total_reward: float
    metrics: dict[str, Any]
    message: str | None


class InstanceTrajectory(NamedTuple):
    """What one environment instance collected in an iteration.

    Attributes:
        trajectory: environment steps, views that the next collection overwrites.
        finished: outcomes of the episodes that ended in it.
    """

    trajectory: Trajectory
    finished: list[EpisodeOutcome]


class CollectorState(NamedTuple):
    """Unfinished episodes of all instances, as a checkpoint keeps them.

    Attributes:
        records: name -> uint8[*], bytes of states.
        metadata: JSON values of each instance.
    """

    records: dict[str, np.ndarray]
    metadata: list[dict[str, Any]]


class Collector(Protocol):
    """Collects the trajectories of an iteration.

    Attributes:
        simulator: simulator whose episodes are collected.
        spec: architecture of the policy.
        plan: size of a rollout and its random streams.
    """

    simulator: Simulator
    spec: PolicySpec
    plan: RolloutPlan

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[Sequence[InstanceTrajectory], float]:
        """Collect with some instances.

        Args:
            actor_params: float32[*], parameters of the actor in the flat layout.
            first_episode: number of the first whole episode; names its random streams.
            count: number of instances, at most those of the plan.

        Returns:
            A trajectory of each instance, and the seconds that collection took.

        Raises:
            SimulatorError: the simulator broke its contract.
        """

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile without a step; return the seconds it took."""

    def state_dict(self) -> CollectorState:
        """Return what is needed to continue the unfinished episodes."""

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue the episodes that :meth:`state_dict` returned."""

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it; none where no step can be repeated."""
