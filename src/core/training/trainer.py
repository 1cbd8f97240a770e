"""The episode loop, readable top to bottom."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.errors import PolicyNotFiniteError
from core.learning.advantages import step_discounts
from core.learning.reward_scale import RewardScale
from core.learning.schedule import Schedule
from core.learning.updater import Updater
from core.policies.compiled.forward import align_params
from core.policies.networks import ActorCritic
from core.policies.observation_normalizer import RunningStatistics
from core.rollout.collector import Collector, InstanceTrajectory
from core.rollout.guarded_collection import collect_guarded
from core.rollout.trajectory import Trajectory
from core.seeding import stream
from core.simulators.simulator import Simulator
from core.training.best import Best, Judged, main_metric_of
from core.training.display.messages import evaluation_line, update_line
from core.training.display.progress import Progress
from core.training.display.utilization import UtilizationTracker
from core.training.evaluation.periodic import PeriodicEvaluation
from core.training.failures import report_update_errors, require_finite, require_finite_weights, update_failure_lines
from core.training.record import iteration_record
from core.training.run_directory.checkpoint_writer import CheckpointWriter
from core.training.run_directory.metrics_log import MetricsLog
from core.training.time_budget import Budget
from core.training.trainer_state import restore_state, state_of


@dataclass(frozen=True)
class TrainingSettings:
    """What the loop itself needs to know.

    Attributes:
        episodes: of the whole run; each is one round of play and update.
        per_update: copies of the simulator that play in a round, with different random streams.
        seed: of the run.
        gamma: discount.
        discount_per: ``"time"`` or ``"decision"``.
        schedule: of learning rates, clip ranges and entropy coefficient.
        normalise_observations: whether running statistics are kept.
        normalise_rewards: whether rewards are divided by the spread of the discounted return.
        episode_time_limit: most seconds that collecting a rollout may take; 0 for no limit.
    """

    episodes: int
    per_update: int
    seed: int
    gamma: float
    discount_per: str
    schedule: Schedule
    normalise_observations: bool
    normalise_rewards: bool
    episode_time_limit: float = 0.0


class Trainer:
    """Plays, updates, records and saves until the run's episodes are done.

    Args:
        simulator: what is played.
        model: on the host; its actor is the CPU copy.
        collector: plays episodes, whole ones or rollouts of several.
        updater: improves the model.
        settings: of the loop.
        directory: of the run.
        facts: JSON values that every checkpoint carries, so that it can be evaluated on its own.
        budget: of time; None for as long as it takes.
        instruments: that watch the machine.
        evaluation: from time to time while the run goes on; None for none.
        checkpoints: writes them.
    """

    def __init__(
        self,
        simulator: Simulator,
        model: ActorCritic,
        collector: Collector,
        updater: Updater,
        settings: TrainingSettings,
        directory: Path,
        facts: dict[str, Any],
        budget: Budget | None = None,
        instruments: UtilizationTracker | None = None,
        evaluation: PeriodicEvaluation | None = None,
        checkpoints: CheckpointWriter | None = None,
    ) -> None:
        self.simulator, self.model, self.collector, self.updater = simulator, model, collector, updater
        self.settings, self.directory, self.facts, self.budget = settings, directory, facts, budget
        self.instruments = instruments or UtilizationTracker()
        self.statistics = RunningStatistics.empty(simulator.observation_size)
        self.reward_scale = RewardScale(settings.per_update)
        self.episode = 0
        self.best = Best()
        self._evaluation, self._evaluation_seconds = evaluation, 0.0
        self.checkpoints = checkpoints or CheckpointWriter(directory)

    def run(self, log: MetricsLog, progress: Progress, should_stop: Callable[[], bool]) -> bool:
        """Train until the episodes are done, the time budget is, or somebody asks to stop.

        Args:
            log: of the metrics.
            progress: display.
            should_stop: asked after each update.

        Returns:
            Whether the episodes or the time budget are done.

        Raises:
            SimulatorError: the simulator broke its contract; finished episodes are saved.
            UserError: memory ran out or numbers exploded, and nothing helped.
        """
        while self.episode < self.settings.episodes and self._another_iteration():
            record = self.run_iteration(progress)
            record["evaluation"] = self._evaluate(progress)
            record |= self.instruments.figures(record, self.model, self.updater.stepper.memory.microbatch)
            self.checkpoints.wait()  # so that the metrics are never two rounds ahead of what is saved
            log.write(record)
            self.save("last")
            for line in self.checkpoints.saving.lines():
                progress.say(line)
            if self.budget is not None:
                progress.expect(min(self.settings.episodes, self.episode + self.budget.rounds_left()))
            progress.episode(record)
            if should_stop() and self.episode < self.settings.episodes:
                return False
        return True

    def run_iteration(self, progress: Progress) -> dict[str, Any]:
        """Play, keep the best, update; return the record of it, which is written nowhere yet."""
        settings = self.settings
        self._phase(progress, "simulating")
        played, seconds, fallbacks = self._play()
        finished = [outcome for each in played for outcome in each.finished]
        self._keep_best(main_metric_of(self.simulator, finished), "rounds")  # before the update changes them
        self._phase(progress, "updating")
        now = settings.schedule.at(self._share_done())
        now = now._replace(learning_rate_factor=now.learning_rate_factor * self.updater.guard.rate_factor)
        self.updater.stepper.set_coefficients(*now[1:])
        precision = self.updater.stepper.precision
        trajectories = [each.trajectory for each in played]
        discounts, value_lambdas = (
            [step_discounts(per, t.elapsed, self.simulator.mean_interval, settings.discount_per) for t in trajectories]
            for per in (settings.gamma, self.updater.settings.value_lambda)
        )
        require_finite(self.simulator, self.episode + 1, trajectories, discounts)
        with self._explaining(self.collector.plan.steps):
            report = self.updater.update(
                self._scaled(trajectories, discounts),
                discounts,
                stream(settings.seed, "update", self.episode),
                now.learning_rate_factor,
                value_lambdas,
            )
        if self.budget is not None:
            self.budget.leave_out(report.execution_seconds)
        report = report._replace(fallbacks=fallbacks + report.fallbacks)
        if settings.normalise_observations:
            self._learn_scales([t.observations for t in trajectories])
        self.episode += 1
        require_finite_weights(self.model, self.episode)
        progress.say(update_line(report.update_seconds + report.transfer_seconds))
        for line in [*report.execution_notes, *update_failure_lines(self.episode, report)]:
            progress.say(line)
        for outcome in finished:
            if outcome.message:
                progress.say(f"Episode {self.episode}: {outcome.message}")
        rate = self.updater.settings.learning_rate_actor
        return iteration_record(self.episode, played, finished, report, seconds, now, rate, precision)

    def _another_iteration(self) -> bool:
        """Return whether the time budget has room for one more, with an evaluation where one is due."""
        due = self._evaluation is not None and self._evaluation.due(self.episode + 1)
        return self.budget is None or self.budget.another_iteration(self._evaluation_seconds if due else 0.0)

    def _evaluate(self, progress: Progress) -> dict[str, Any] | None:
        """Evaluate what was learned, where that is due; return what the record says of it."""
        if self._evaluation is None or not self._evaluation.due(self.episode):
            return None
        self._phase(progress, "evaluating")
        found = self._evaluation.run(self.actor_params())
        self._evaluation_seconds = found["seconds"]
        value = found["metrics"].get(self.simulator.main_metric, {}).get("mean")
        self._keep_best(value, "evaluations")
        progress.say(evaluation_line(self.episode, self.simulator.main_metric, found))
        return found

    def _phase(self, progress: Progress, name: str) -> None:
        progress.phase(name)
        self.instruments.phase(name)

    def _play(self) -> tuple[Sequence[InstanceTrajectory], float, list[dict[str, Any]]]:
        """Play a round; where the policy's outputs are not finite, go back to good weights and play it again.

        Returns:
            What was played, the seconds that it took, and the returns to good weights.
        """
        fallbacks: list[dict[str, Any]] = []
        count = self.settings.per_update
        while True:
            before = self.collector.state_dict()
            try:
                limits = self.settings.episode_time_limit, self.directory
                played, seconds = collect_guarded(self.collector, self.actor_params(), self.episode, count, *limits)
                return played, seconds, fallbacks
            except PolicyNotFiniteError as error:
                with self._explaining(0):
                    fallbacks.append(self.updater.rollback(str(error)))
            self.collector.load_state_dict(before)

    def _explaining(self, rollout_steps: int) -> AbstractContextManager[None]:
        return report_update_errors(self.updater, self.episode, self.directory, self.settings.per_update, rollout_steps)

    def _share_done(self) -> float:
        """Return the share of the run that is over: of its episodes, or of its time where that is more."""
        episodes = self.episode / self.settings.episodes
        return episodes if self.budget is None else max(episodes, self.budget.share)

    def actor_params(self) -> np.ndarray:
        """Return the actor's part of the flat weights, copied to where compiled code reads it fastest."""
        flat = self.model.flat[: self.model.layout.actor_size].numpy()
        return align_params(flat, self.model.spec)

    def _learn_scales(self, observations: list[np.ndarray]) -> None:
        for batch in observations:
            self.statistics.update(batch)
        shift, scale = self.statistics.shift_and_scale()
        self.model.tensors["observation_mean"].copy_(torch.from_numpy(shift))
        self.model.tensors["observation_scale"].copy_(torch.from_numpy(scale))

    def _scaled(self, trajectories: list[Trajectory], discounts: list[np.ndarray]) -> list[Trajectory]:
        """Return trajectories with the rewards that the update sees; the critic's values move with their scale."""
        scale, before = self.reward_scale, self.reward_scale.divisor.item()
        if self.settings.normalise_rewards:
            scale.learn(trajectories, discounts)
        else:
            scale.divisor[0] = 1.0
        if scale.divisor[0] != before:
            self.updater.rescale_values(before / scale.divisor.item())
        return scale.divide(trajectories) if scale.divisor[0] != 1.0 else trajectories

    def _keep_best(self, value: float | None, judged_by: Judged) -> None:
        """Save the weights that are here if they are the best so far."""
        if self.best.beaten_by(value, judged_by, self.simulator.main_metric_lower_is_better):
            self.best = Best(value, judged_by)
            self.save("best")

    def save(self, which: str) -> None:
        """Have the checkpoint ``"last"`` or ``"best"`` written, of the state as it is now."""
        self.checkpoints.save(which, *state_of(self))

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from a checkpoint of the same architecture and simulator.

        Raises:
            UserError: the checkpoint has other tensors or shapes.
        """
        restore_state(self, tensors, facts)
        self.checkpoints.saved_episode = self.episode
