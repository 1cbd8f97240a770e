"""The iteration loop: collect a rollout, update the policy, record, save."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.errors import PolicyNotFiniteError
from longstride.learning.algorithms.entropy_target import EntropyTarget
from longstride.learning.dead_units import revive_dead_units
from longstride.learning.distributed.ranks import any_of
from longstride.learning.distributed.shares import share_of
from longstride.learning.normalization import ObservationScales
from longstride.learning.policy_health import MANY_DEAD, health_on
from longstride.learning.schedule import Coefficients
from longstride.learning.updater import Updater, UpdateReport
from longstride.policies.compiled.forward import align_params
from longstride.rollout.collector import Collector, CollectorState, InstanceTrajectory, params_to_play
from longstride.rollout.guarded_collection import collect_guarded
from longstride.rollout.hosts.collector import PLAYING
from longstride.seeding import stream
from longstride.simulators.simulator import Simulator
from longstride.training.best_tracker import BestTracker, model_of
from longstride.training.choice.candidates import Candidate
from longstride.training.display.messages import iteration_lines
from longstride.training.display.progress import Progress
from longstride.training.failures import report_update_errors, require_finite_parameters, update_failure_lines
from longstride.training.learning_advice import Advice
from longstride.training.record import Collected, Summary, iteration_record, joined, summary_of
from longstride.training.rewards import RewardPipeline, carried_of
from longstride.training.run_directory.directory import Which
from longstride.training.run_directory.metrics_log import Log
from longstride.training.run_length import run_length
from longstride.training.settings import Services, TrainingSettings
from longstride.training.shared_state import CRITIC_STATES, PartState, joined_state, own_state, require_same_parameters


class Trainer:
    """Collects, updates, records and saves until the run's iterations are done.

    The updater owns the model. Metadata of the run, JSON values, go into every checkpoint, so that it can be evaluated
    on its own. ``iteration`` is the number of finished iterations.
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
        self.checkpoints, self.budget, self.utilization = services.checkpoints, services.budget, services.utilization
        self.settings, self.metadata, self.ranks, self.observer = settings, metadata, services.ranks, services.observer
        self.share = share_of(settings.instances, settings.group_size, self.ranks.rank, self.ranks.size)
        self.model = updater.host
        self.rewards = RewardPipeline(simulator, settings, self.model, self.share, self.ranks)
        self.length = run_length(settings.iterations, settings.growth)
        self.entropy = EntropyTarget(settings.entropy_target, self.model.spec.action_space.choices)
        self.iteration, self.advice, spec = 0, Advice(), self.model.spec
        self._actor = self.model.flat[: self.model.layout.actor_size].numpy()  # the same memory
        self.best_tracker = BestTracker(simulator, spec, services, self.actor_params, self._keep, collector.exploring)
        forget = [collector.exploring.forget, updater.forget_moments, self.best_tracker.forget_mean]
        forget = forget if settings.growth is not None and updater.settings.kl_coefficient == 0.0 else []
        self.scales = ObservationScales(self.model, settings.normalise_observations, forget)

    def compile(self) -> float:
        """Compile collector and updater, or load them; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        return self.collector.compile(params_to_play(self.collector, self._actor)) + self.updater.compile()

    def run(self, log: Log, progress: Progress, should_stop: Callable[[], bool]) -> bool:
        """Train; return whether the iterations are done or the time is over (False: asked to stop, after an iteration).

        Raises:
            SimulatorError: the simulator broke its contract; finished iterations are saved.
            UserError: memory ran out or training diverged, and every recovery failed.
        """
        self.best_tracker.compare(progress, not self.unfinished)
        while self.unfinished and self.ranks.from_first(self._has_time):
            record = self.run_iteration(progress)
            record["evaluation"] = self.best_tracker.evaluate(self.iteration, not self.unfinished, progress)
            record |= self.utilization.figures(record, self.model.spec, self.updater.microbatch)
            record |= self.checkpoints.figures()
            record |= self.observer.see(record, progress.say)
            is_due = self.ranks.from_first(lambda: self.observer.failure is not None or self.checkpoints.is_due())
            log.write(record)
            if is_due:
                self.save("last")
            self._show(record, progress)
            self.best_tracker.compare(progress, not self.unfinished)
            if self.observer.failure is not None:
                raise self.observer.failure
            if any_of(should_stop() or self.observer.stops, self.ranks.sums) and self.unfinished:
                self.save("last")
                return False
        self.save("last")
        self.best_tracker.finish(self.iteration, progress)
        for line in self.advice.at_the_end():
            progress.say(line)
        return True

    def run_iteration(self, progress: Progress) -> dict[str, Any]:
        """Collect, keep the best parameters, update; return the record, which is not written yet."""
        self._begin_phase("simulating", progress)
        if self.iteration == 0 or not self.rewards.is_ready:
            self._warm_up()
        if self.iteration == 0:
            self.budget.leave_out(self.best_tracker.see_start(progress))
        collected = self._collect(self.settings.instances)
        self.best_tracker.record_iteration(collected.whole)  # before the update
        self._begin_phase("updating", progress)
        self.scales.observe(collected.trajectories)  # while the update runs
        coefficients = self._coefficients(share_done := self._share_done())
        report, begin = self._update(collected, coefficients, share_done), time.perf_counter()
        self.scales.learn(collected.trajectories, self.ranks, [each.is_natural for each in collected.instances])
        self.iteration += 1
        require_finite_parameters(self.model, self.iteration)
        require_same_parameters(self.model, self.iteration, self.ranks)
        progress.update_complete(report.update_seconds + report.transfer_seconds)
        failures, finished = update_failure_lines(self.iteration, report), collected.whole.finished
        lines = [self.rewards.take_line(), *iteration_lines(self.iteration, report, failures, finished)]
        self.entropy.learn(report.losses.get("entropy"), collected.trajectories, share_done, self.ranks)
        health = health_on(self.model, collected.trajectories, self.ranks)
        if self.length.steps is not None:  # rollouts grow; a policy that starts from a rule keeps its units
            rng = stream(self.settings.seed, "dead units", self.iteration)
            revive_dead_units(self.model, collected.trajectories, rng, self.ranks)
        self.entropy.hold_floor(self.model, collected.trajectories, self.ranks)
        can_move = self.entropy.can_move and health.dead_units < MANY_DEAD
        lines.append(self.length.finish_iteration(report, self.updater.settings, can_move, self.entropy.left))
        for line in filter(None, [*self.collector.take_lines(), *lines]):
            progress.say(line)
        record = iteration_record(self.iteration, collected, report, coefficients, self.ranks)
        record |= {"units": dict(self.simulator.metric_units)} | self.rewards.figures()
        record |= self.length.figures() | health._asdict() | self.entropy.figures()
        return record | self.collector.figures() | {"statistics_seconds": time.perf_counter() - begin}

    @property
    def unfinished(self) -> bool:
        """Whether the run has iterations to do; its time may be over before."""
        return self.length.share(self.iteration) < 1.0

    def _has_time(self) -> bool:
        """Return whether the time budget has room for another iteration, with an evaluation where one is due."""
        more = self.best_tracker.seconds_after(self.iteration + 1, self.length.iterations_left(self.iteration) == 1)
        return self.budget.another_iteration(more, self.length.ratio)

    def _warm_up(self) -> None:
        """Play one instance, or a first rollout that will grow, for the scales of the observations and the horizon."""
        self.rewards.choose_discount_by_decisions()
        if self.rewards.is_ready and not self.settings.normalise_observations:
            return
        before = self.collector.state_dict()
        collected = self._collect(self.length.warm_up(self.settings.instances))
        self.scales.learn(collected.trajectories, self.ranks)
        self.rewards.choose_discount_by_time(collected.trajectories)
        self.budget.leave_out(collected.whole.seconds)
        if self.simulator.resumable:  # an environment cannot go back: it continues
            self.collector.load_state_dict(before)

    def _collect(self, instances: int) -> Collected:
        """Collect a rollout; where the policy's outputs are not finite, go back to good parameters and repeat it."""
        fallbacks: list[dict[str, Any]] = []
        if self.length.steps is not None:
            self.collector.prepare(self.length.steps, self.rewards.outcomes_count)
        while True:
            before = self.collector.state_dict()
            trajectories, part = self._collect_part(before, self.share.of(instances))
            whole = joined(self.ranks.gather(part))
            if not whole.problem:
                if self.ranks.size > 1:
                    self.collector.restart_old_episodes(whole.terminated, self.ranks.gather(self.collector.part))
                return Collected(trajectories, whole, fallbacks)
            with report_update_errors(self.updater, self.iteration, self.checkpoints.begun, self.settings):
                fallbacks.append(self.updater.rollback(whole.problem))
            self.collector.load_state_dict(before)

    def _collect_part(self, before: CollectorState, count: int) -> tuple[Sequence[InstanceTrajectory], Summary]:
        """Collect with some of the instances of this rank; outputs that are not finite are a problem for all."""
        trajectories: Sequence[InstanceTrajectory] = []
        seconds, problem, run = 0.0, "", self.settings
        try:
            if count:
                params = params_to_play(self.collector, self._actor)
                limits = run.episode_time_limit, run.directory, self.checkpoints.begun
                trajectories, seconds = collect_guarded(self.collector, before, params, self.iteration, count, *limits)
        except PolicyNotFiniteError as error:
            problem = str(error)
        return trajectories, summary_of(trajectories, seconds, problem, self.collector.terminated)

    def _share_done(self) -> float:
        """Return the share of the run that is over: of its iterations, or of its time where that is more."""
        return max(self.length.share(self.iteration), self.ranks.from_first(lambda: self.budget.share))

    def _coefficients(self, share_done: float) -> Coefficients:
        """Return the coefficients of the next update."""
        coefficients = self.settings.schedule.at(share_done)
        factor = coefficients.learning_rate_factor * self.length.rate_factor
        return self.entropy.held(coefficients._replace(learning_rate_factor=factor), share_done)

    def _update(self, collected: Collected, coefficients: Coefficients, share_done: float) -> UpdateReport:
        """Improve the policy by a rollout."""
        with report_update_errors(self.updater, self.iteration, self.checkpoints.begun, self.settings):
            batch = self.rewards.batch(collected, self.iteration + 1, share_done, self.collector.reach)
            report = self.updater.update(batch, coefficients, stream(self.settings.seed, "update", self.iteration))
        self.rewards.see_update(report.explained_variance)
        self.utilization.sampler.phase(None)
        self.budget.leave_out(report.execution_seconds)
        return report._replace(fallbacks=collected.fallbacks + report.fallbacks)

    def _show(self, record: dict[str, Any], progress: Progress) -> None:
        for line in [*self.checkpoints.retry.lines(), *self.advice.on(record)]:
            progress.say(line)
        share = 0.0 if self.budget.is_limited else self.length.shown_share(self.iteration)
        left = min(self.length.iterations_left(self.iteration), self.budget.iterations_left())
        progress.expect(self.iteration + left, share)
        progress.iteration(record)

    def _begin_phase(self, name: str, progress: Progress) -> None:
        progress.phase(name)
        self.utilization.sampler.phase(name)

    def actor_params(self) -> np.ndarray:
        """Return float32[*], the actor's parameters, in memory that compiled code reads fastest."""
        return align_params(self._actor, self.model.spec)

    def save(self, which: Which) -> None:
        """Start writing a checkpoint of the present state, unless it is the last one; the first rank writes it."""
        if which == "last" and self.checkpoints.begun == self.iteration:
            return
        begin, state = time.perf_counter(), self.state_dict()
        self.checkpoints.seconds += time.perf_counter() - begin
        if self.ranks.rank == 0:
            self.checkpoints.save(which, *state)
        elif which == "last":
            self.checkpoints.follow(self.iteration)

    def _keep(self, candidate: Candidate | None) -> None:
        """Save the present parameters, or those of an earlier candidate with nothing to continue from, as the best."""
        if candidate is None or (candidate.iteration == self.iteration and not candidate.is_mean):
            return self.save("best")
        if self.ranks.rank == 0:
            tensors, facts = self.updater.state_dict()
            model = model_of(candidate, tensors, self.model.layout)
            self.checkpoints.save("best", model, facts | self._facts(candidate.iteration) | candidate.facts())

    def _facts(self, iteration: int) -> dict[str, Any]:
        """Return what every checkpoint says of the run, JSON values, with parameters after some iterations."""
        return {**self.metadata, "iteration": iteration, "ranks": self.ranks.size, **self.best_tracker.metadata()}

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that the rest of the run depends on: tensors by name, and JSON values."""
        tensors, metadata = self.updater.state_dict()
        part = PartState(self.collector.state_dict(), self.rewards.scale.carried, tensors.get(CRITIC_STATES))
        whole = joined_state(part, self.ranks)
        arrays, judge_state = self.best_tracker.state_dict()
        arrays |= {**self.scales.arrays(), **whole.unfinished.records, **self.rewards.arrays(whole.carried)}
        tensors |= {} if whole.critic_states is None else {CRITIC_STATES: whole.critic_states}
        metadata |= {
            **self._facts(self.iteration),
            "rollout": whole.unfinished.metadata,
            **self.rewards.metadata(),
            "growth": self.length.state_dict(),
            "entropy": self.entropy.state_dict(),
            "judge": judge_state,
            **self.budget.metadata(),
        }
        return tensors | {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata

    def load_state_dict(self, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned for the same architecture and simulator.

        Raises:
            UserError: the tensors have other names or shapes.
        """
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        records = {name: array for name, array in arrays.items() if name.startswith("rollout.")}
        unfinished = CollectorState(records, metadata.get("rollout", []))
        carried = carried_of(arrays, self.settings.instances)
        part = own_state(PartState(unfinished, carried, tensors.get(CRITIC_STATES)), self.share)
        states = {} if part.critic_states is None else {CRITIC_STATES: part.critic_states}
        self.updater.load_state_dict(tensors | states, metadata)
        self.scales.restore(arrays)
        self.collector.load_state_dict(part.unfinished)
        continues = bool(records.keys() - {PLAYING})  # environments begin new episodes
        self.rewards.restore(arrays, part.carried, metadata, episodes_continue=continues)
        self.iteration = metadata["iteration"]
        self.length.load_state_dict(metadata.get("growth", {}))
        self.entropy.load_state_dict(metadata.get("entropy", {}))
        self.best_tracker.load_state_dict(arrays, metadata)
        self.budget.load_state_dict(metadata.get("time_budget", {}))
        self.checkpoints.saved_iteration = self.checkpoints.begun = self.iteration
