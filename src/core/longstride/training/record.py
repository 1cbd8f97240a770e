"""Result of an iteration: what was collected, its record in metrics.jsonl, and the best parameters so far."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.schedule import Coefficients
from longstride.learning.updater import UpdateReport
from longstride.rollout.collector import EpisodeOutcome, InstanceTrajectory
from longstride.rollout.trajectory import Trajectory, digest, digest_of, digested
from longstride.simulators.simulator import Simulator

JudgedBy = Literal["iterations", "evaluations"]
"""Source of the main metric: the episodes of an iteration, or an evaluation."""


_SCHEDULED = "clip_range", "entropy_coefficient"
"""Coefficients of the loss that a record names, if the algorithm has them."""


class Summary(NamedTuple):
    """What the record and the other ranks have to know of a part of a rollout."""

    steps: int = 0  # steps of all trajectories
    outcomes: int = 0  # further outcomes of them that were drawn
    rewards: Sequence[float] = ()  # sum of the rewards of each environment instance whose episodes began naturally
    natural_steps: int = 0  # steps of these instances
    finished: Sequence[EpisodeOutcome] = ()  # episodes that ended
    seconds: float = 0.0  # time of the collection
    problem: str = ""  # why the collection has to be repeated; empty if it has not
    terminated: bool = False  # whether any episode so far was terminated, and not cut


def summary_of(instances: Sequence[InstanceTrajectory], seconds: float, problem: str, terminated: bool) -> Summary:
    """Return the summary of what some instances collected."""
    natural = [instance.trajectory for instance in instances if instance.is_natural]
    return Summary(
        steps=sum(instance.trajectory.steps for instance in instances),
        outcomes=sum(instance.drawn.rewards.size for instance in instances if instance.drawn is not None),
        rewards=[float(trajectory.rewards.sum(dtype=np.float64)) for trajectory in natural],
        natural_steps=sum(trajectory.steps for trajectory in natural),
        finished=[outcome for instance in instances for outcome in instance.finished],
        seconds=seconds,
        problem=problem,
        terminated=terminated,
    )


def joined(parts: Sequence[Summary]) -> Summary:
    """Return the summary of the parts of all ranks, which were collected at the same time."""
    return Summary(
        steps=sum(part.steps for part in parts),
        outcomes=sum(part.outcomes for part in parts),
        rewards=[reward for part in parts for reward in part.rewards],
        natural_steps=sum(part.natural_steps for part in parts),
        finished=[outcome for part in parts for outcome in part.finished],
        seconds=max(part.seconds for part in parts),
        problem=next((part.problem for part in parts if part.problem), ""),
        terminated=any(part.terminated for part in parts),
    )


class Collected(NamedTuple):
    """A collected rollout: the part of this rank, and the summary of all."""

    instances: Sequence[InstanceTrajectory]  # trajectory and finished episodes of each environment instance here
    whole: Summary  # what all ranks collected
    fallbacks: list[dict[str, Any]]  # returns to good parameters before it succeeded

    @property
    def trajectories(self) -> list[Trajectory]:
        """The trajectory of each environment instance here."""
        return [instance.trajectory for instance in self.instances]


def iteration_record(
    iteration: int, collected: Collected, report: UpdateReport, coefficients: Coefficients, ranks: Ranks = ALONE
) -> dict[str, Any]:
    """Return the JSON values of an iteration, counted from 1; other ranks than the first do not know its hash."""
    whole = collected.whole
    finished, steps = whole.finished, whole.steps
    names = dict.fromkeys(name for outcome in finished for name in outcome.metrics)
    return {
        "iteration": iteration,
        "simulated_episodes": len(finished),
        "steps": steps,
        "trajectory_sha256": _digest(collected.trajectories, ranks),
        "return": mean_of([outcome.total_reward for outcome in finished]),
        "mean_reward": sum(whole.rewards) / whole.natural_steps,
        "simulation_seconds": whole.seconds,
        "steps_per_second": steps / whole.seconds,
        "ranks": ranks.size,
        **{name: number for name, number in coefficients.loss._asdict().items() if name in _SCHEDULED},
        **report.as_dict(),
        "metrics": {name: np.mean(_values(finished, name), axis=0).tolist() for name in names},
    }


def _digest(trajectories: Sequence[Trajectory], ranks: Ranks) -> str:
    """Return the SHA-256 of the trajectories of all ranks, the same for any number of them; empty but on the first."""
    if ranks.size == 1:
        return digest(trajectories)
    parts = ranks.gather_to_first(b"".join(digested(trajectories)))
    return digest_of(parts) if ranks.rank == 0 else ""


class Best(NamedTuple):
    """Main metric of the best parameters so far, and its source."""

    value: float | None = None
    judged_by: JudgedBy = "iterations"

    def beaten_by(self, value: float | None, judged_by: JudgedBy, lower_is_better: bool) -> bool:
        """Return whether others are better; an evaluation, which depends less on luck, comes before any iteration.

        Of equal evaluations the later one counts: its policy has learned longer, which shows where it tries things out.
        """
        if value is None or (self.judged_by == "evaluations" and judged_by == "iterations"):
            return False
        if self.value is None or self.judged_by != judged_by:
            return True
        if value == self.value:
            return judged_by == "evaluations"
        return value < self.value if lower_is_better else value > self.value


def main_metric_of(simulator: Simulator, finished: Sequence[EpisodeOutcome]) -> float | None:
    """Return the mean of a simulator's main metric over episodes; None where no episode has it."""
    return mean_of(main_metrics(simulator, finished))


def main_metrics(simulator: Simulator, finished: Sequence[EpisodeOutcome]) -> list[float]:
    """Return a simulator's main metric of each episode that has it."""
    name = simulator.main_metric
    return [outcome.total_reward for outcome in finished] if name == "return" else _values(finished, name)


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values, as in a rollout in which no episode ended."""
    return float(np.mean(values)) if values else None


def _values(finished: Sequence[EpisodeOutcome], name: str) -> list[Any]:
    """Return a metric of the episodes that have it."""
    return [outcome.metrics[name] for outcome in finished if name in outcome.metrics]
