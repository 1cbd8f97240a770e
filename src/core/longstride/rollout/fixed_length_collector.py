"""Collects a fixed number of steps: episodes one after another, of which the last continues in the next rollout."""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from longstride.jit_cache.cache import cached
from longstride.jit_cache.direct_calls import DirectCalls
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.collector import (
    BuildLoop,
    Collector,
    CollectorState,
    InstanceTrajectory,
    RolloutPlan,
    compile_loop,
    in_threads,
    record_name,
)
from longstride.rollout.exploring.exploration import Part, exploring_of
from longstride.rollout.fault_locator import ReplayedInstance
from longstride.rollout.instances.fill_rollout import fill
from longstride.rollout.instances.fixed_length import FixedLengthInstance
from longstride.rollout.trajectory import Allocate, allocate_plain
from longstride.simulators.simulator import Simulator


class FixedLengthCollector(Collector):
    """Collects a number of steps from each of some instances, which play episode after episode.

    The random streams of an episode are named by its instance and its number there, the simulator's by the group of the
    instance. The members of a group begin each rollout where its first member ended the last one. The result does not
    depend on the threads.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        plan: RolloutPlan,
        new: Allocate = allocate_plain,
        build_loop: BuildLoop = build_collect_steps,
    ) -> None:
        self.simulator, self.spec, self.plan, self.steps = simulator, spec, plan, plan.steps
        self.threads = min(plan.threads, plan.instances)
        loop = build_collect_steps(simulator, spec, draws=True) if plan.draws else build_loop(simulator, spec)
        self.loop = DirectCalls(cached(loop))
        self.part: Part | None = None
        self.draws = True
        self.exploring = exploring_of(plan.seed, plan.explorers, plan.restart_after, simulator.state_dtype)
        self._instances = [FixedLengthInstance(self, self.loop, plan.first + i, new) for i in range(plan.instances)]

    def resize(self, steps: int) -> None:
        """Collect so many steps from each instance from now on, at most those of the plan."""
        self.steps = steps
        for instance in self._instances:
            instance.resize(steps)

    def prepare(self, steps: int, outcomes: bool) -> None:
        """Resize for the next rollout, and say whether further outcomes of its steps count."""
        self.resize(steps)
        self.draws = outcomes

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[list[InstanceTrajectory], float]:
        """Collect steps from some instances."""
        begin = time.perf_counter()
        collected = in_threads(self.threads, partial(self.play, actor_params, self.steps), self._instances[:count])
        self.part = self.exploring.part((each.played() for each in self._instances[:count]), actor_params)
        self.end_rollout(count)
        return collected, time.perf_counter() - begin

    def end_rollout(self, count: int) -> None:
        """Take some instances that have played to where they begin the next rollout."""
        if not self.plan.of:
            self.restart_old_episodes(self.terminated, [self.part])
        if self.plan.group_size > 1:
            self._gather(count)

    @property
    def terminated(self) -> bool:
        """Whether any episode of its instances so far was terminated, and not cut."""
        return any(instance.terminated for instance in self._instances)

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Part | None] = ()) -> None:
        """Learn what was found; let instances give up old episodes, unless ends have a meaning: one was terminated."""
        self.exploring.learn(parts, terminated)
        self.part = None
        if not terminated:
            for instance in self._instances:
                instance.restart_old_episode()

    def _gather(self, count: int) -> None:
        """Bring the members of each group to where its first one is."""
        for start in range(0, count, self.plan.group_size):
            first, *others = self._instances[start : start + self.plan.group_size]
            first.number = max(instance.number for instance in (first, *others))  # no name is used twice
            for other in others:
                other.follow(first)

    def play(self, actor_params: np.ndarray, steps: int, instance: FixedLengthInstance) -> InstanceTrajectory:
        """Collect so many steps from an instance of this collector."""
        instance.begin_rollout(steps, self.draws)
        with instance.outcomes.naming_faults():
            filled = fill(steps, actor_params, instance)
        return filled._replace(is_natural=not instance.explores, drawn=instance.outcomes.ended(instance.trajectory))

    def instance(self, place: int, index: int) -> FixedLengthInstance:
        """Return the instance in a place of this collector's memory; it plays as the one of that number from now on."""
        return self._instances[place].become(index)

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the loop without a step; return the seconds it took."""
        instance = self._instances[0]
        return compile_loop(self.simulator, self.loop.kernel, instance.arguments(actor_params))

    def state_dict(self) -> CollectorState:
        """Return the state of every instance: its record, and number, age, rewards and generators of its episode."""
        records = {record_name(instance.index): instance.record() for instance in self._instances}
        return CollectorState(records | self.exploring.arrays(), [instance.metadata() for instance in self._instances])

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue episodes; instances without a state begin with their first one."""
        self.exploring.restore(dict(state.records))
        for instance, metadata in zip(self._instances, state.metadata, strict=False):
            instance.load(state.records.get(record_name(instance.index)), metadata)

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it, but for those that made excursions."""
        return [
            instance.replayed(before.records[record_name(instance.index)], before.metadata[i])
            for i, instance in enumerate(self._instances[:count])
            if not instance.explores
        ]

    def take_lines(self) -> list[str]:
        """Return the sentences for the user since the last call."""
        return self.exploring.take_lines()
