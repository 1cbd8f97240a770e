"""Settings of the iteration loop, and the parts of a run beside learning."""

from dataclasses import dataclass, field
from pathlib import Path

from core.learning.schedule import Schedule
from core.training.display.utilization import UtilizationTracker
from core.training.evaluation.periodic import PeriodicEvaluation
from core.training.run_directory.checkpoint_writer import CheckpointWriter
from core.training.time_budget import Budget


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the iteration loop.

    Attributes:
        iterations: iterations of the whole run.
        instances: environment instances that play in an iteration, each with its own random streams.
        rollout_steps: environment steps of each instance in an iteration; 0 for a whole episode.
        seed: seed of the run's random streams.
        gamma: discount.
        value_lambda: lambda of the critic's targets.
        discount_per: ``"time"`` or ``"decision"``.
        schedule: schedule of learning rates, clip ranges and entropy coefficient.
        normalise_observations: whether running statistics of the observations are learned.
        normalise_rewards: whether rewards are divided by the spread of the discounted return.
        directory: run directory, for messages.
        episode_time_limit: most seconds that a collection may take; 0 for no limit.
        command: command that trains this run, for messages.
    """

    iterations: int
    instances: int
    rollout_steps: int
    seed: int
    gamma: float
    value_lambda: float
    discount_per: str
    schedule: Schedule
    normalise_observations: bool
    normalise_rewards: bool
    directory: Path
    episode_time_limit: float
    command: str


@dataclass(frozen=True)
class Services:
    """Parts of a run beside learning.

    Attributes:
        checkpoints: writer of the checkpoints.
        budget: time budget; None for as long as it takes.
        evaluation: evaluation at intervals; None for none.
        utilization: measurements of the machine.
    """

    checkpoints: CheckpointWriter
    budget: Budget | None = None
    evaluation: PeriodicEvaluation | None = None
    utilization: UtilizationTracker = field(default_factory=UtilizationTracker)
