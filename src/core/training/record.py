"""Result of an iteration: what was collected, its record in metrics.jsonl, and the best parameters so far."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from core.learning.schedule import Coefficients
from core.learning.updater import UpdateReport
from core.rollout.collector import EpisodeOutcome, InstanceTrajectory
from core.rollout.trajectory import Trajectory, digest
from core.simulators.simulator import Simulator

JudgedBy = Literal["iterations", "evaluations"]
"""Source of the main metric: the episodes of an iteration, or an evaluation."""


class Collected(NamedTuple):
    """A collected rollout."""

    instances: Sequence[InstanceTrajectory]  # trajectory and finished episodes of each environment instance
    seconds: float  # time of the collection
    fallbacks: list[dict[str, Any]]  # returns to good parameters before it succeeded

    @property
    def trajectories(self) -> list[Trajectory]:
        """The trajectory of each environment instance."""
        return [instance.trajectory for instance in self.instances]

    @property
    def steps(self) -> int:
        """Number of decisions, those of branches included."""
        branches = [instance.branches for instance in self.instances if instance.branches is not None]
        return sum(t.steps for t in self.trajectories) + sum(int(each.lengths.sum()) for each in branches)

    @property
    def finished(self) -> list[EpisodeOutcome]:
        """The episodes that ended in the rollout."""
        return [outcome for instance in self.instances for outcome in instance.finished]


def iteration_record(
    iteration: int, collected: Collected, report: UpdateReport, coefficients: Coefficients
) -> dict[str, Any]:
    """Return the JSON values of an iteration, counted from 1."""
    finished, steps = collected.finished, collected.steps
    rewards = sum(float(t.rewards.sum(dtype=np.float64)) for t in collected.trajectories)
    names = dict.fromkeys(name for outcome in finished for name in outcome.metrics)
    return {
        "iteration": iteration,
        "episode": iteration,  # the name in earlier versions, to be dropped in the next one
        "simulated_episodes": len(finished),
        "steps": steps,
        "trajectory_sha256": digest(collected.trajectories),
        "return": mean_of([outcome.total_reward for outcome in finished]),
        "mean_reward": rewards / sum(t.steps for t in collected.trajectories),
        "simulation_seconds": collected.seconds,
        "steps_per_second": steps / collected.seconds,
        "clip_range": coefficients.loss.clip_range,
        "entropy_coefficient": coefficients.loss.entropy_coefficient,
        **report.as_dict(),
        "metrics": {name: np.mean(_values(finished, name), axis=0).tolist() for name in names},
    }


class Best(NamedTuple):
    """Main metric of the best parameters so far, and its source."""

    value: float | None = None
    judged_by: JudgedBy = "iterations"

    def beaten_by(self, value: float | None, judged_by: JudgedBy, lower_is_better: bool) -> bool:
        """Return whether others are better; an evaluation, which depends less on luck, comes before any iteration."""
        if value is None or (self.judged_by == "evaluations" and judged_by == "iterations"):
            return False
        if self.value is None or self.judged_by != judged_by:
            return True
        return value < self.value if lower_is_better else value > self.value


def main_metric_of(simulator: Simulator, finished: Sequence[EpisodeOutcome]) -> float | None:
    """Return the mean of a simulator's main metric over episodes; None where no episode has it."""
    name = simulator.main_metric
    return mean_of([outcome.total_reward for outcome in finished] if name == "return" else _values(finished, name))


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values, as in a rollout in which no episode ended."""
    return float(np.mean(values)) if values else None


def _values(finished: Sequence[EpisodeOutcome], name: str) -> list[Any]:
    """Return a metric of the episodes that have it."""
    return [outcome.metrics[name] for outcome in finished if name in outcome.metrics]
