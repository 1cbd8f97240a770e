"""Collects a fixed number of steps: episodes one after another, of which the last continues in the next rollout."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self

import numpy as np

from longstride.jit_cache.cache import cached
from longstride.jit_cache.direct_calls import DirectCalls
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.collector import (
    BuildLoop,
    Collector,
    CollectorState,
    EpisodeOutcome,
    InstanceTrajectory,
    RolloutPlan,
    compile_loop,
    in_threads,
    load_instance,
    order_of,
    record_name,
    restarts,
    snapshot_of,
)
from longstride.rollout.exploring.exploration import Part, Played, exploring_of
from longstride.rollout.fault_locator import ReplayedInstance, generator_in, record_of
from longstride.rollout.fill_rollout import fill
from longstride.rollout.loop_arrays import LoopArrays, new_loop_arrays, with_more_capacity
from longstride.rollout.outcomes.drawn import InstanceOutcomes, new_outcomes
from longstride.rollout.streams.episode_stream import EpisodeStreams
from longstride.rollout.streams.generator_addresses import rows_of
from longstride.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import LISTS_FULL, OK, Simulator, describe_fault, metrics_of, new_state

_METADATA = ("number", "age", "total", "over", "terminated")


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
        self.exploring = exploring_of(plan.seed, plan.explorers, plan.restart_after, simulator.state_dtype)
        self._instances = [Instance(self, plan.first + i, new) for i in range(plan.instances)]

    def resize(self, steps: int) -> None:
        """Collect so many steps from each instance from now on, at most those of the plan."""
        self.steps = steps
        for instance in self._instances:
            instance.resize(steps)

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

    def play(self, actor_params: np.ndarray, steps: int, instance: "Instance") -> InstanceTrajectory:
        """Collect so many steps from an instance of this collector."""
        instance.resize(steps)
        instance.begin_rollout()
        filled = fill(steps, actor_params, instance)
        return filled._replace(is_natural=not instance.explores, drawn=instance.outcomes.ended(instance.trajectory))

    def instance(self, place: int, index: int) -> "Instance":
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


class Instance:
    """An environment instance of a collector, and the episode that it is in: a ``Fillable``.

    Attributes:
        index: number of the instance among those of all processes, which names its random streams.
        states: ``state_dtype``[1], the simulator's state.
        number: number of the episode in this instance; -1 before the first.
        age: steps that the episode has made.
        total: sum of its rewards.
        terminated: whether any of its episodes so far was terminated, and not cut.
        explores: whether it makes excursions from archived states in this rollout.
        outcomes: further outcomes of its steps.
    """

    def __init__(self, collector: FixedLengthCollector, index: int, new: Allocate) -> None:
        self._collector, self._allocate = collector, new
        self.become(index)
        self._simulator, steps, spec = collector.simulator, collector.plan.steps, collector.spec
        self.trajectory = self._capacity = allocate(spec, steps, new, steps, allocate_plain)
        self.states, rows = new_state(self._simulator), self.trajectory.select(None)
        self._arrays = new_loop_arrays(rows, spec, self.states, collector.exploring.finds(self.states))
        room = new_outcomes(self.states, steps, collector.plan.draws, spec.observation_size)
        self.outcomes = InstanceOutcomes(collector.plan.seed, index, room)
        self._generators = self._streams.at(0)
        self.number, self.age, self.total, self.over, self.terminated = -1, 0, 0.0, True, False
        self.explores, self._starts = False, collector.exploring.starts(index)

    def become(self, index: int) -> Self:
        """Be the instance of this number, with its random streams, and return it."""
        self.index, plan = index, self._collector.plan
        self._streams = EpisodeStreams(plan.seed, index // plan.group_size, index)
        return self

    def begin_rollout(self) -> None:
        """Choose the states of this rollout's excursions, if this instance makes any."""
        exploring = self._collector.exploring
        self._arrays = self._arrays._replace(outcomes=self.outcomes.begun())
        self.explores = exploring.explores(self.index)
        if self.explores:
            self._starts, self.over = exploring.starts(self.index), True

    def resize(self, steps: int) -> None:
        """Fill the first rows of the memory from now on."""
        self.trajectory = self._capacity.shortened(steps)
        self._arrays = self._with_rows(self.trajectory)

    def _with_rows(self, trajectory: Trajectory) -> LoopArrays:
        """Return the arrays with the rows of a part of the memory."""
        rows = trajectory.select(None)
        return self._arrays._replace(rows=rows._replace(actions=rows.actions.reshape(1, trajectory.steps, -1)))

    def set_capacity(self, features: np.ndarray) -> None:
        """Use other memory for the lists of feasible actions, which needed more."""
        self._capacity = self._capacity._replace(features=features)
        self.resize(self.trajectory.steps)

    def begin_episode(self) -> None:
        """Begin the next episode; the loop resets the simulator, unless it begins from an archived state."""
        self.number, self.age, self.total, self.over = self.number + 1, -1, 0.0, False
        if not self.explores or self.number == 0:
            self._generators = self._streams.at(self.number)
        if self.explores:
            archived = next(self._starts)
            self.states[0], self.age = archived.state, archived.age

    def restart_old_episode(self) -> None:
        """Let the next rollout begin another episode where this one is too old."""
        plan, of = self._collector.plan, self._collector.exploring
        self.over = self.over or restarts(plan, self.index, self.number, self.age, of.oldest, of.runs_away)

    def collect_steps(self, actor_params: np.ndarray, begin: int) -> int:
        """Continue the episode to its end or to the last row, an excursion to its last step; return the row after."""
        if not self.explores:
            return self._collect(actor_params, begin)
        most = self._collector.exploring.steps(self.index)
        whole = self._arrays
        self._arrays = self._with_rows(self.trajectory.shortened(min(begin + most, self.trajectory.steps)))
        row, self._arrays = self._collect(actor_params, begin), whole
        if not self.over:
            self.over = self.trajectory.truncated[row - 1] = True
        return row

    def _collect(self, actor_params: np.ndarray, begin: int) -> int:
        """Continue the episode to its end or to the last row of the arrays; return the row after."""
        arrays = self._arrays
        arrays.next_rows[0], arrays.ages[0], arrays.rewards[0] = begin, self.age, 0.0
        with self._named():
            self._collector.loop(*self.arguments(actor_params))
            while arrays.statuses[0] == LISTS_FULL:
                self._arrays = arrays = with_more_capacity(arrays, self._allocate)
                self._capacity = self._capacity._replace(features=arrays.rows.features[0])
                self.trajectory = self.trajectory._replace(features=arrays.rows.features[0])
                self._collector.loop(*self.arguments(actor_params))
        row, self.age, self.total = int(arrays.next_rows[0]), int(arrays.ages[0]), self.total + float(arrays.rewards[0])
        if arrays.statuses[0] != OK:
            raise describe_fault(int(arrays.statuses[0]), self._simulator, f"{self.number}{self._suffix}", self.age)
        flags = self.trajectory.terminated, self.trajectory.truncated
        terminated, truncated = (bool(flag[row - 1]) for flag in flags)
        self.over, self.terminated = terminated or truncated, self.terminated or terminated
        return row

    def follow(self, first: "Instance") -> None:
        """Go where the first member of the group is, with its random stream of the simulator."""
        self.load(first.record(), first.metadata() | {"policy_rng": self._generators[1].bit_generator.state})

    def played(self) -> Played:
        """Return what the instance played in this rollout."""
        return Played(self.index, self.trajectory, self.age, self._arrays.finds)

    def outcome(self) -> EpisodeOutcome | None:
        """Return how the episode ended; None after an excursion."""
        if self.explores:
            return None
        with self._named():
            metrics, message = metrics_of(self._simulator, self.states), self._simulator.message(self.states[0])
            return EpisodeOutcome(self.total, metrics, message)

    def arguments(self, actor_params: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of the compiled loop."""
        return self.states, rows_of([self._generators]), self._simulator.parameters, actor_params, self._arrays

    def record(self) -> np.ndarray:
        """Return uint8[*], the bytes of the simulator's state and then of the policy's."""
        return np.frombuffer(record_of(self.states, self._arrays.policy_states), np.uint8).copy()

    def metadata(self) -> dict[str, Any]:
        """Return number, age, rewards and generators of the episode as JSON values."""
        rng, policy_rng = (generator.bit_generator.state for generator in self._generators)
        own = {name: getattr(self, name) for name in _METADATA} | order_of(self.states.dtype) | self.outcomes.metadata()
        return {**own, "rng": rng, "policy_rng": policy_rng}

    def load(self, record: np.ndarray | None, metadata: dict[str, Any]) -> None:
        """Continue the episode of a record and its metadata, or raise if the record does not fit the simulator."""
        load_instance(record, metadata, self.states, self._arrays.policy_states)
        for name in _METADATA:
            setattr(self, name, metadata.get(name, False))
        self.outcomes.load(metadata)
        self._generators = generator_in(metadata["rng"]), generator_in(metadata["policy_rng"])

    def replayed(self, record: np.ndarray, metadata: dict[str, Any]) -> ReplayedInstance:
        """Return this instance as it was when it had a record and its metadata."""
        return ReplayedInstance(self._suffix, self._streams.new, snapshot_of(record, metadata), self._collector.steps)

    @property
    def _suffix(self) -> str:
        return f" of instance {self.index}"

    def _named(self) -> AbstractContextManager[None]:
        return naming_the_episode(self._simulator, f"{self.number}{self._suffix}")
