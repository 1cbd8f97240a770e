"""The iteration loop: collect a rollout, update the policy, record, save."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.errors import PolicyNotFiniteError
from core.learning.advantages import discount_of, step_discounts
from core.learning.algorithms.interface import RolloutBatch, with_branches
from core.learning.distributed.ranks import any_of, flattened
from core.learning.distributed.shares import share_of
from core.learning.listed.scales import PREFIX, DescriptionScales
from core.learning.normalization import AverageReward, RewardScale, rescale_values
from core.learning.policy_health import policy_health, some_rows
from core.learning.schedule import Coefficients
from core.learning.updater import Updater, UpdateReport
from core.policies.compiled.forward import align_params
from core.policies.observation_normalizer import RunningStatistics, statistics_of, thinned
from core.rollout.collector import Collector, CollectorState, InstanceTrajectory
from core.rollout.guarded_collection import collect_guarded
from core.rollout.hosts.collector import PLAYING
from core.rollout.trajectory import Trajectory
from core.seeding import stream
from core.simulators.simulator import Simulator
from core.training.display.messages import evaluation_line, iteration_lines, start_line
from core.training.display.progress import Progress
from core.training.evaluation.best_heuristic import BestHeuristic
from core.training.evaluation.evaluate import PeriodicEvaluation
from core.training.failures import report_update_errors, require_finite, require_finite_parameters, update_failure_lines
from core.training.learning_advice import signs
from core.training.record import (
    Best,
    Collected,
    JudgedBy,
    Summary,
    hosts_of,
    iteration_record,
    joined,
    main_metric_of,
    summary_of,
)
from core.training.rollout_growth import RolloutGrowth
from core.training.run_directory.directory import Which
from core.training.run_directory.metrics_log import Log
from core.training.settings import Services, TrainingSettings
from core.training.shared_state import CRITIC_STATES, PartState, joined_state, own_state, require_same_parameters
from core.training.time_budget import NO_LIMIT


class Trainer:
    """Collects, updates, records and saves until the run's iterations are done.

    The updater owns the model. The metadata, JSON values, go into every checkpoint, so that it can be evaluated on its
    own. ``iteration`` is the number of finished iterations, ``best`` the main metric of the best parameters so far,
    ``gamma`` the discount, 0 until the warm-up chooses it.
    """

    def __init__(
        self,
        simulator: Simulator,
        collector: Collector,
        updater: Updater,
        settings: TrainingSettings,
        metadata: dict[str, Any],
        services: Services,
    ) -> None:
        self.simulator, self.collector, self.updater = simulator, collector, updater
        self.settings, self.metadata = settings, metadata
        self.checkpoints, self.budget, self.utilization = services.checkpoints, services.budget, services.utilization
        self.ranks = services.ranks
        self.share = share_of(settings.instances, settings.shared_start, self.ranks.rank, self.ranks.size)
        self.model = updater.host
        self.statistics = RunningStatistics.empty(self.model.spec.observation_size)
        self.description_scales = DescriptionScales(self.model)
        self.reward_scale = RewardScale(self.share.count)
        self.growth = RolloutGrowth(settings.growth) if settings.growth else None
        self.average_reward = AverageReward() if settings.average_reward else None
        self.gamma = 1.0 if settings.average_reward else settings.gamma
        self.iteration, self.best = 0, Best()
        self._evaluation, self._evaluation_seconds = services.evaluation, 0.0
        self._heuristics = services.heuristics
        self._records, self._named = list[dict[str, Any]](), set[str]()

    def compile(self) -> float:
        """Compile collector and updater, or load them; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        return self.collector.compile(self.actor_params()) + self.updater.compile()

    def run(self, log: Log, progress: Progress, should_stop: Callable[[], bool]) -> bool:
        """Train; return whether the iterations are done or the time is over (False: asked to stop, after an iteration).

        Raises:
            SimulatorError: the simulator broke its contract; finished iterations are saved.
            UserError: memory ran out or training diverged, and every recovery failed.
        """
        self._compare(progress)
        while self.unfinished and self.ranks.from_first(self._has_time):
            record = self.run_iteration(progress)
            record["evaluation"] = self._evaluate(progress)
            record |= self.utilization.figures(record, self.model.spec, self.updater.microbatch)
            self.checkpoints.wait()  # so that the metrics are never two iterations ahead of the checkpoint
            log.write(record)
            self.save("last")
            self._show(record, progress)
            self._compare(progress)
            if any_of(should_stop(), self.ranks.sums) and self.unfinished:
                return False
        return True

    def run_iteration(self, progress: Progress) -> dict[str, Any]:
        """Collect, keep the best parameters, update; return the record, which is not written yet."""
        self._begin_phase("simulating", progress)
        if self.iteration == 0 or self.gamma == 0.0:
            self._warm_up()
        if self.iteration == 0:
            self._evaluate_start(progress)
        collected = self._collect(self.settings.instances)
        self._keep_best(main_metric_of(self.simulator, collected.whole.finished), "iterations")  # before the update
        self._begin_phase("updating", progress)
        coefficients = self._coefficients()
        report = self._update(collected, coefficients)
        if self.settings.normalise_observations:
            self._learn_observation_scales(collected)
        self.iteration += 1
        require_finite_parameters(self.model, self.iteration)
        require_same_parameters(self.model, self.iteration, self.ranks)
        progress.update_complete(report.update_seconds + report.transfer_seconds)
        failures = update_failure_lines(self.iteration, report)
        hosts, lines = hosts_of(self.collector)
        lines += iteration_lines(self.iteration, report, failures, collected.whole.finished)
        for line in [*lines, *self._grow(report)]:
            progress.say(line)
        growth = {} if self.growth is None else self.growth.figures()
        health = policy_health(self.model, some_rows([t.observations for t in collected.trajectories], self.ranks))
        record = iteration_record(self.iteration, collected, report, coefficients, self.ranks)
        units = {name: unit for name in record["metrics"] if (unit := self.simulator.unit_of(name))}
        return record | {"units": units, "gamma": self.gamma, **growth, **health._asdict(), **hosts}

    @property
    def unfinished(self) -> bool:
        """Whether the run has iterations to do; its time may be over before."""
        return self.iteration < self.settings.iterations if self.growth is None else self.growth.share < 1.0

    def _has_time(self) -> bool:
        """Return whether the time budget has room for another iteration, with an evaluation where one is due."""
        due = self._evaluation is not None and self._evaluation.due(self.iteration + 1, self.iterations_left == 1)
        more, ratio = self._evaluation_seconds if due else 0.0, self.growth.ratio if self.growth else 1.0
        return self.budget is None or self.budget.another_iteration(more, ratio)

    def _warm_up(self) -> None:
        """Play one instance, or a first rollout that will grow, for the scales of the observations and the horizon."""
        settings, by_time = self.settings, self.settings.discount_per == "time"
        if self.gamma == 0.0 and not by_time:
            self.gamma = discount_of(settings.horizon)
        if self.gamma > 0.0 and not settings.normalise_observations:
            return
        before = self.collector.state_dict()
        collected = self._collect(1 if self.growth is None else settings.instances)
        if settings.normalise_observations:
            self._learn_observation_scales(collected)
        if self.gamma == 0.0:
            elapsed = np.concatenate(flattened(self.ranks.gather([t.elapsed for t in collected.trajectories]))).mean()
            self.gamma = discount_of(settings.horizon * elapsed / self.simulator.mean_interval)
        if self.budget is not None:
            self.budget.leave_out(collected.whole.seconds)
        if self.simulator.resumable:  # an environment cannot go back: it continues
            self.collector.load_state_dict(before)

    def _collect(self, instances: int) -> Collected:
        """Collect a rollout; where the policy's outputs are not finite, go back to good parameters and repeat it."""
        fallbacks: list[dict[str, Any]] = []
        if self.growth is not None:
            self.collector.resize(self.growth.steps)
        while True:
            before = self.collector.state_dict()
            trajectories, part = self._collect_part(self.share.of(instances))
            whole = joined(self.ranks.gather(part))
            if not whole.problem:
                if self.ranks.size > 1:
                    self.collector.settle(whole.terminated)
                return Collected(trajectories, whole, fallbacks)
            with report_update_errors(self.updater, self.iteration, self.settings):
                fallbacks.append(self.updater.rollback(whole.problem))
            self.collector.load_state_dict(before)

    def _collect_part(self, count: int) -> tuple[Sequence[InstanceTrajectory], Summary]:
        """Collect with some of the instances of this rank; outputs that are not finite are a problem for all."""
        trajectories: Sequence[InstanceTrajectory] = []
        seconds, problem = 0.0, ""
        limits = self.settings.episode_time_limit, self.settings.directory
        try:
            if count:
                arguments = self.collector, self.actor_params(), self.iteration, count
                trajectories, seconds = collect_guarded(*arguments, *limits)
        except PolicyNotFiniteError as error:
            problem = str(error)
        return trajectories, summary_of(trajectories, seconds, problem, self.collector.terminated)

    def _share_done(self) -> float:
        """Return the share of the run that is over: of its iterations, or of its time where that is more."""
        iterations = self.iteration / self.settings.iterations if self.growth is None else self.growth.share
        budget = self.budget
        return iterations if budget is None else max(iterations, self.ranks.from_first(lambda: budget.share))

    def _coefficients(self) -> Coefficients:
        """Return the coefficients of the next update."""
        coefficients = self.settings.schedule.at(self._share_done())
        if self.growth is None:
            return coefficients
        factor = coefficients.learning_rate_factor * self.growth.rate_factor
        return coefficients._replace(learning_rate_factor=factor)

    def _grow(self, report: UpdateReport) -> list[str]:
        """Choose the size of the next rollout and its learning rates; return a line where the size changes."""
        if self.growth is None:
            return []
        settings = self.updater.settings
        self.growth.judge(report.losses["approx_kl"], settings.target_kl, report.epochs, settings.epochs)
        line = self.growth.learn(report.gradient_noise)
        return [line] if line else []

    def _update(self, collected: Collected, coefficients: Coefficients) -> UpdateReport:
        """Improve the policy by a rollout."""
        settings, trajectories = self.settings, collected.trajectories
        discounts, value_lambdas = (
            [step_discounts(per, t.elapsed, self.simulator.mean_interval, settings.discount_per) for t in trajectories]
            for per in (self.gamma, settings.value_lambda)
        )
        require_finite(self.simulator, self.iteration + 1, trajectories, discounts, self.share.first)
        rng = stream(settings.seed, "update", self.iteration)
        with report_update_errors(self.updater, self.iteration, settings):
            scaled = self._differential(self._scale_rewards(trajectories, discounts))
            rollout = with_branches(RolloutBatch(scaled, discounts, value_lambdas), self._branches(collected))
            report = self.updater.update(rollout, coefficients, rng)
        if self.budget is not None:
            self.budget.leave_out(report.execution_seconds)
        return report._replace(fallbacks=collected.fallbacks + report.fallbacks)

    def _differential(self, trajectories: list[Trajectory]) -> list[Trajectory]:
        """Return trajectories with differential rewards, where the mean reward counts."""
        if self.average_reward is None:
            return trajectories
        interval, per = self.simulator.mean_interval, self.settings.discount_per
        durations = [t.elapsed / interval if per == "time" else np.ones(t.steps) for t in trajectories]
        return self.average_reward.subtract(trajectories, durations, self.ranks)

    def _branches(self, collected: Collected) -> list[tuple[Trajectory, np.ndarray]]:
        """Return the branches of each instance as steps with their discounts; none where none are played."""
        settings, interval, steps = self.settings, self.simulator.mean_interval, []
        for branches in (instance.branches for instance in collected.instances):
            if branches is not None:
                elapsed = branches.elapsed.ravel()
                discounts = step_discounts(self.gamma, elapsed, interval, settings.discount_per)
                trajectory, products = branches.as_steps(discounts.reshape(branches.elapsed.shape))
                scaled = trajectory._replace(rewards=trajectory.rewards / np.float32(self.reward_scale.divisor[0]))
                steps.append((scaled, products))
        return steps

    def _scale_rewards(self, trajectories: list[Trajectory], discounts: list[np.ndarray]) -> list[Trajectory]:
        """Return trajectories with the rewards of the update; the critic's values are rescaled with them."""
        scale, before = self.reward_scale, self.reward_scale.divisor.item()
        if self.settings.normalise_rewards:
            scale.learn(trajectories, discounts, self.settings.shared_start, self.ranks)
        else:
            scale.divisor[0] = 1.0
        if scale.divisor[0] != before:
            rescale_values(self.model, before / scale.divisor.item())
        return scale.divide(trajectories) if scale.divisor[0] != 1.0 else trajectories

    def _learn_observation_scales(self, collected: Collected) -> None:
        batches = [statistics_of(thinned(t.observations)) for t in collected.trajectories]
        for batch in flattened(self.ranks.gather(batches)):
            self.statistics.include(batch)
        shift, scale = self.statistics.shift_and_scale()
        self.model.tensors["observation_mean"].copy_(torch.from_numpy(shift))
        self.model.tensors["observation_scale"].copy_(torch.from_numpy(scale))
        self.description_scales.learn(collected.trajectories, self.ranks)

    def _evaluate(self, progress: Progress) -> dict[str, Any] | None:
        """Evaluate the policy where that is due; return what the record says of it."""
        if self._evaluation is None or not self._evaluation.due(self.iteration, not self.unfinished):
            return None
        self._begin_phase("evaluating", progress)
        result = self._played_greedily(self._evaluation)
        self._evaluation_seconds = result["seconds"]
        metric = self.simulator.main_metric
        self._keep_best(result["metrics"].get(metric, {}).get("mean"), "evaluations")
        best = self._compare(progress, evaluated=True)
        progress.say(evaluation_line(self.iteration, metric, self.simulator.unit_of(metric), result, best))
        return result

    def _compare(self, progress: Progress, evaluated: bool = False) -> BestHeuristic | None:
        """Play the heuristics where that is due; show the best one, if it is known, and return it."""
        heuristics = self._heuristics
        if heuristics is None:
            return None
        if self.unfinished and heuristics.due(progress.watched_seconds, evaluated):
            self._begin_phase("evaluating", progress)
            if line := heuristics.play():
                progress.say(line)
        if heuristics.best is not None:
            progress.compare_with(*heuristics.best)
        return heuristics.best

    def _evaluate_start(self, progress: Progress) -> None:
        """Evaluate the policy that training begins with, where evaluations choose: it may stay the best."""
        if self._evaluation is None:
            return
        result, metric = self._played_greedily(self._evaluation), self.simulator.main_metric
        if self.budget is not None:
            self.budget.leave_out(result["seconds"])
        self._keep_best(result["metrics"].get(metric, {}).get("mean"), "evaluations")
        progress.say(start_line(metric, self.simulator.unit_of(metric), result))

    def _played_greedily(self, evaluation: PeriodicEvaluation) -> dict[str, Any]:
        """Return the figures of an evaluation, which the first rank plays for all."""
        return self.ranks.from_first(lambda: evaluation.run(self.actor_params()))

    def _keep_best(self, value: float | None, judged_by: JudgedBy) -> None:
        """Save the present parameters if they are the best so far."""
        if self.best.beaten_by(value, judged_by, self.simulator.main_metric_lower_is_better):
            self.best = Best(value, judged_by)
            self.save("best")

    def _show(self, record: dict[str, Any], progress: Progress) -> None:
        for line in [*self.checkpoints.retry.lines(), *self._advice(record)]:
            progress.say(line)
        if self.budget is not None:
            progress.expect(self.iteration + min(self.iterations_left, self.budget.iterations_left()))
        elif self.growth is not None:
            progress.expect(self.iteration + self.iterations_left, self.growth.share)
        progress.iteration(record)

    def _advice(self, record: dict[str, Any]) -> list[str]:
        """Return a sentence for each sign of trouble that was not named yet."""
        self._records.append(record)
        new = [sign for sign in signs(self._records) if sign.name not in self._named]
        self._named |= {sign.name for sign in new}
        return [sign.sentence for sign in new]

    def _begin_phase(self, name: str, progress: Progress) -> None:
        progress.phase(name)
        self.utilization.sampler.phase(name)

    def actor_params(self) -> np.ndarray:
        """Return float32[*], the actor's parameters, in memory that compiled code reads fastest."""
        return align_params(self.model.flat[: self.model.layout.actor_size].numpy(), self.model.spec)

    @property
    def iterations_left(self) -> int:
        """Number of iterations to do, as far as it is known."""
        return self.settings.iterations - self.iteration if self.growth is None else self.growth.iterations_left

    @property
    def iterations_done(self) -> str:
        """Number of finished iterations for people: ``7 of 30``, or ``7`` where only time ends the run."""
        total = self.settings.iterations
        return str(self.iteration) if total == NO_LIMIT else f"{self.iteration} of {total}"

    def save(self, which: Which) -> None:
        """Start writing a checkpoint of the present state; the first rank writes it."""
        state = self.state_dict()
        if self.ranks.rank == 0:
            self.checkpoints.save(which, *state)
        elif which == "last":  # the one before is on the disk: the first rank has waited for it
            self.checkpoints.saved_iteration = self.iteration - 1

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that the rest of the run depends on: tensors by name, and JSON values."""
        tensors, metadata = self.updater.state_dict()
        part = PartState(self.collector.state_dict(), self.reward_scale.carried, tensors.get(CRITIC_STATES))
        whole = joined_state(part, self.ranks)
        unfinished, rewards = whole.unfinished, self.reward_scale.arrays() | {"carried": whole.carried}
        arrays = {f"statistics.{name}": array for name, array in vars(self.statistics).items()} | unfinished.records
        arrays |= {f"rewards.{name}": array for name, array in rewards.items()}
        tensors |= {} if whole.critic_states is None else {CRITIC_STATES: whole.critic_states}
        arrays |= self.description_scales.arrays()
        metadata |= {
            **self.metadata,
            "rollout": unfinished.metadata,
            "iteration": self.iteration,
            "ranks": self.ranks.size,
            "gamma": self.gamma,
            "growth": {} if self.growth is None else self.growth.state_dict(),
            "best": self.best.value,
            "best_judged_by": self.best.judged_by,
            "main_metric": self.simulator.main_metric,
            **({} if self.budget is None else {"time_budget": self.budget.state_dict()}),
            **({} if self.average_reward is None else {"average_reward": self.average_reward.rate}),
        }
        return tensors | {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata

    def load_state_dict(self, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned for the same architecture and simulator.

        Raises:
            UserError: the tensors have other names or shapes.
        """
        records = {name: tensor.numpy() for name, tensor in tensors.items() if name.startswith("rollout.")}
        rewards = {n.removeprefix("rewards."): t.numpy() for n, t in tensors.items() if n.startswith("rewards.")}
        carried = rewards.get("carried", np.zeros(self.settings.instances))
        unfinished = CollectorState(records, metadata.get("rollout", []))
        part = own_state(PartState(unfinished, carried, tensors.get(CRITIC_STATES)), self.share)
        states = {} if part.critic_states is None else {CRITIC_STATES: part.critic_states}
        self.updater.load_state_dict(tensors | states, metadata)
        for name in vars(self.statistics):
            setattr(self.statistics, name, tensors[f"statistics.{name}"].numpy())
        self.description_scales.restore({n: t.numpy() for n, t in tensors.items() if n.startswith(PREFIX)})
        self.collector.load_state_dict(part.unfinished)
        rewards |= {"carried": part.carried} if rewards else {}
        continues = bool(records.keys() - {PLAYING})  # environments begin new episodes
        self.reward_scale.restore(rewards, episodes_continue=continues)
        self.iteration = metadata["iteration"]
        if self.average_reward is None:
            self.gamma = self.settings.gamma or metadata.get("gamma", 0.0)
        else:
            self.average_reward.rate = metadata.get("average_reward")
        if self.growth is not None:
            self.growth.load_state_dict(metadata.get("growth", {}))
        self.best = Best(metadata["best"], metadata.get("best_judged_by", "iterations"))
        if self.budget is not None:
            self.budget.load_state_dict(metadata.get("time_budget", {}))
        self.checkpoints.saved_iteration = self.iteration
