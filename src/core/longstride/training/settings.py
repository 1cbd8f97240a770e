"""Settings of the iteration loop, and the parts of a run beside learning."""

from dataclasses import dataclass, field
from pathlib import Path

from longstride.errors import this_command
from longstride.escaping import shell_word
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.schedule import Schedule
from longstride.training.callbacks import Callbacks
from longstride.training.display.utilization import UtilizationTracker
from longstride.training.evaluation.best_heuristic import Heuristics
from longstride.training.evaluation.periodic import PeriodicEvaluation
from longstride.training.rollout_growth import GrowthLimits
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter
from longstride.training.time_budget import Budget, NoBudget


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the iteration loop."""

    iterations: int  # iterations of the whole run
    instances: int  # environment instances that play in an iteration, each with its own random streams
    rollout_steps: int  # environment steps of each instance in an iteration; 0 for a whole episode
    seed: int  # seed of the run's random streams
    gamma: float  # discount; 0 where the horizon decides
    horizon: float  # decisions that the discount looks ahead
    grow_horizon: bool  # whether a run whose rollouts grow and whose episodes are long begins with a shorter horizon
    value_lambda: float  # lambda of the critic's targets
    discount_per: str  # "time" or "decision"
    schedule: Schedule  # schedule of learning rates, clip ranges and entropy coefficient
    entropy_target: float  # share of the most possible entropy of two values that is held at the start; 0 for none
    normalise_observations: bool  # whether running statistics of the observations are learned
    normalise_rewards: bool  # whether rewards are divided by the spread of the discounted return
    directory: Path  # run directory, for messages
    episode_time_limit: float  # most seconds that a collection may take; 0 for no limit
    command: str  # command that trains this run, for messages
    growth: GrowthLimits | None = None  # None for rollouts of one size
    group_size: int = 1  # instances, one after the other, that begin each rollout in the same state
    processes: int = 1  # processes of each host that train together, for messages

    @property
    def resume_command(self) -> str:
        """Command that continues this run, for messages; further flags may follow."""
        return f"{this_command(self.processes)} --mode train --resume --run-directory {shell_word(str(self.directory))}"

    def command_after(self, iteration: int) -> str:
        """Return the command that continues this run after some finished iterations, or begins it after none."""
        return self.resume_command if iteration else self.command


@dataclass(frozen=True)
class Services:
    """Parts of a run beside learning."""

    checkpoints: CheckpointWriter
    budget: Budget | NoBudget = field(default_factory=NoBudget)  # time that the run may take
    evaluation: PeriodicEvaluation | None = None  # evaluation at intervals; None for none
    heuristics: Heuristics | None = None  # heuristics to compare with while the run trains; None for none
    utilization: UtilizationTracker = field(default_factory=UtilizationTracker)  # measurements of the machine
    ranks: Ranks = ALONE  # processes that train together
    observer: Callbacks = field(default_factory=Callbacks)  # sees the records
