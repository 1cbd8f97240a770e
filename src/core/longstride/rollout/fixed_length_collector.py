"""Collects a fixed number of steps: episodes one after another, of which the last continues in the next rollout."""

import time
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from longstride.jit_cache.cache import cached
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.collector import (
    BuildLoop,
    Collector,
    CollectorState,
    EpisodeOutcome,
    InstanceTrajectory,
    RolloutPlan,
    bytes_of_size,
    compile_loop,
    gives_up,
    in_threads,
    record_name,
    snapshot_of,
)
from longstride.rollout.fault_locator import ReplayedInstance, generator_in, load_record, record_of
from longstride.rollout.fill import fill
from longstride.rollout.loop_arrays import generator_places, new_loop_arrays, with_more_room
from longstride.rollout.trajectory import Allocate, allocate, allocate_plain
from longstride.seeding import stream
from longstride.simulators.simulator import (
    LISTS_FULL,
    OK,
    Simulator,
    describe_fault,
    metrics_of,
    naming_the_episode,
    new_state,
)

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
        self.loop = cached(build_loop(simulator, spec))
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
        self.end_rollout(count)
        return collected, time.perf_counter() - begin

    def end_rollout(self, count: int) -> None:
        """Take some instances that have played to where they begin the next rollout."""
        if not self.plan.of:
            self.settle(self.terminated)
        if self.plan.group_size > 1:
            self._gather(count)

    @property
    def terminated(self) -> bool:
        """Whether any episode of its instances so far was terminated, and not cut."""
        return any(instance.terminated for instance in self._instances)

    def settle(self, terminated: bool) -> None:
        """Let instances give up old episodes; where one was terminated, the ends of episodes have a meaning."""
        if not terminated:
            for instance in self._instances:
                instance.give_up_old_episode()

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
        return fill(steps, actor_params, instance)

    def instance(self, place: int, index: int) -> "Instance":
        """Return the instance in a place of this collector's memory; it plays as the one of that number from now on."""
        instance = self._instances[place]
        instance.index = index
        return instance

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the loop without a step; return the seconds it took."""
        instance = self._instances[0]
        return compile_loop(self.simulator, self.loop, instance.arguments(actor_params))

    def state_dict(self) -> CollectorState:
        """Return the state of every instance: its record, and number, age, rewards and generators of its episode."""
        records = {record_name(instance.index): instance.record() for instance in self._instances}
        return CollectorState(records, [instance.metadata() for instance in self._instances])

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue episodes; instances without a state begin with their first one."""
        for instance, metadata in zip(self._instances, state.metadata, strict=False):
            instance.load(state.records.get(record_name(instance.index)), metadata)

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it."""
        return [
            instance.replayed(before.records[record_name(instance.index)], before.metadata[i])
            for i, instance in enumerate(self._instances[:count])
        ]


class Instance:
    """An environment instance of a collector, and the episode that it is in: a ``Fillable``.

    Attributes:
        index: number of the instance among those of all processes, which names its random streams.
        states: ``state_dtype``[1], the simulator's state.
        number: number of the episode in this instance; -1 before the first.
        age: steps that the episode has made.
        total: sum of its rewards.
        terminated: whether any of its episodes so far was terminated, and not cut.
    """

    def __init__(self, collector: FixedLengthCollector, index: int, new: Allocate) -> None:
        self._collector, self.index, self._allocate = collector, index, new
        self._simulator, steps, spec = collector.simulator, collector.plan.steps, collector.spec
        self.trajectory = self._room = allocate(spec, steps, new, steps, allocate_plain)
        self.states, self._arrays = new_state(self._simulator), new_loop_arrays(self.trajectory.select(None), spec)
        self._generators = generator_in({}), generator_in({})
        self.number, self.age, self.total, self.over, self.terminated = -1, 0, 0.0, True, False

    def resize(self, steps: int) -> None:
        """Fill the first rows of the memory from now on."""
        self.trajectory = self._room.shortened(steps)
        rows = self.trajectory.select(None)
        self._arrays = self._arrays._replace(rows=rows._replace(actions=rows.actions.reshape(1, steps, -1)))

    def give_room(self, features: np.ndarray) -> None:
        """Use other memory for the lists of feasible actions, which needed more."""
        self._room = self._room._replace(features=features)
        self.resize(self.trajectory.steps)

    def begin_episode(self) -> None:
        """Begin the next episode; the loop resets the simulator."""
        self.number, self.age, self.total, self.over = self.number + 1, -1, 0.0, False
        self._generators = self._streams(self.number)

    def give_up_old_episode(self) -> None:
        """Let the next rollout begin another episode where this one is too old."""
        self.over = self.over or gives_up(self._collector.plan, self.index, self.number, self.age)

    def collect_steps(self, actor_params: np.ndarray, begin: int) -> int:
        """Continue the episode to its end or to the last row; return the row after."""
        arrays = self._arrays
        arrays.next_rows[0], arrays.ages[0], arrays.rewards[0] = begin, self.age, 0.0
        with self._named():
            self._collector.loop(*self.arguments(actor_params))
            while arrays.statuses[0] == LISTS_FULL:
                self._arrays = arrays = with_more_room(arrays, self._allocate)
                self._room = self._room._replace(features=arrays.rows.features[0])
                self.trajectory = self.trajectory._replace(features=arrays.rows.features[0])
                self._collector.loop(*self.arguments(actor_params))
        row, self.age, self.total = int(arrays.next_rows[0]), int(arrays.ages[0]), self.total + float(arrays.rewards[0])
        if arrays.statuses[0] != OK:
            raise describe_fault(int(arrays.statuses[0]), self._simulator, f"{self.number}{self._suffix}", self.age)
        terminated, truncated = (
            bool(flags[row - 1]) for flags in (self.trajectory.terminated, self.trajectory.truncated)
        )
        self.over, self.terminated = terminated or truncated, self.terminated or terminated
        return row

    def follow(self, first: "Instance") -> None:
        """Go where the first member of the group is, with its random stream of the simulator."""
        self.load(first.record(), first.metadata() | {"policy_rng": self._generators[1].bit_generator.state})

    def outcome(self) -> EpisodeOutcome:
        """Return how the episode ended."""
        with self._named():
            metrics = metrics_of(self._simulator, self.states)
            return EpisodeOutcome(self.total, metrics, self._simulator.message(self.states[0]))

    def arguments(self, actor_params: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of the compiled loop."""
        return self.states, generator_places([self._generators]), self._simulator.parameters, actor_params, self._arrays

    def record(self) -> np.ndarray:
        """Return uint8[*], the bytes of the simulator's state and then of the policy's."""
        return np.frombuffer(record_of(self.states, self._arrays.policy_states), np.uint8).copy()

    def metadata(self) -> dict[str, Any]:
        """Return number, age, rewards and generators of the episode as JSON values."""
        rng, policy_rng = (generator.bit_generator.state for generator in self._generators)
        return {**{name: getattr(self, name) for name in _METADATA}, "rng": rng, "policy_rng": policy_rng}

    def load(self, record: np.ndarray | None, metadata: dict[str, Any]) -> None:
        """Continue the episode of a record and its metadata, or raise if the record does not fit the simulator."""
        size = self.states.nbytes + self._arrays.policy_states.nbytes
        load_record(bytes_of_size(record, size), self.states, self._arrays.policy_states)
        for name in _METADATA:
            setattr(self, name, metadata.get(name, False))
        self._generators = generator_in(metadata["rng"]), generator_in(metadata["policy_rng"])

    def replayed(self, record: np.ndarray, metadata: dict[str, Any]) -> ReplayedInstance:
        """Return this instance as it was when it had a record and its metadata."""
        return ReplayedInstance(self._suffix, self._streams, snapshot_of(record, metadata), self._collector.steps)

    @property
    def _suffix(self) -> str:
        return f" of instance {self.index}"

    def _streams(self, number: int) -> tuple[np.random.Generator, np.random.Generator]:
        """Return the random streams of simulator and policy in an episode of this instance."""
        seed, group = self._collector.plan.seed, self.index // self._collector.plan.group_size
        return stream(seed, "simulator", group, number), stream(seed, "policy", self.index, number)

    def _named(self) -> AbstractContextManager[None]:
        return naming_the_episode(self._simulator, f"{self.number}{self._suffix}")
