"""One environment instance of a fixed-length collector, and the episode that it is in."""

from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from longstride.jit_cache.direct_calls import DirectCalls
from longstride.rollout.collector import (
    Collector,
    EpisodeOutcome,
    load_instance,
    order_of,
    restarts,
    snapshot_of,
)
from longstride.rollout.exploring.exploration import Played
from longstride.rollout.fault_locator import ReplayedInstance, generator_in, record_of
from longstride.rollout.loop_arrays import LoopArrays, new_loop_arrays, with_more_capacity
from longstride.rollout.outcomes.drawn import InstanceOutcomes
from longstride.rollout.streams.episode_stream import EpisodeStreams
from longstride.rollout.streams.generator_addresses import rows_of
from longstride.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import LISTS_FULL, OK, describe_fault, metrics_of, new_state

_METADATA = ("number", "age", "total", "over", "terminated")


class FixedLengthInstance:
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

    def __init__(self, collector: Collector, loop: DirectCalls, index: int, new: Allocate) -> None:
        self._collector, self._loop, self._allocate = collector, loop, new
        self.become(index)
        self._simulator, steps, spec = collector.simulator, collector.plan.steps, collector.spec
        self.trajectory = self._capacity = allocate(spec, steps, new, steps, allocate_plain)
        self.states, rows = new_state(self._simulator), self.trajectory.select(None)
        self._arrays = new_loop_arrays(rows, spec, self.states, collector.exploring.finds(self.states))
        sizes = collector.plan.draws, self.states, spec.observation_size, steps, collector.plan.instances
        self.outcomes = InstanceOutcomes(collector.plan.seed, index, *sizes)
        self._generators = self._streams.at(0)
        self.number, self.age, self.total, self.over, self.terminated = -1, 0, 0.0, True, False
        self.explores, self._starts = False, collector.exploring.starts(index)

    def become(self, index: int) -> Self:
        """Be the instance of this number, with its random streams, and return it."""
        self.index, plan = index, self._collector.plan
        self._streams = EpisodeStreams(plan.seed, index // plan.group_size, index)
        return self

    def begin_rollout(self, steps: int, draws: bool) -> None:
        """Prepare for so many steps, and for outcomes of them; choose the states of excursions."""
        exploring = self._collector.exploring
        self.resize(steps)
        self._arrays = self._arrays._replace(outcomes=self.outcomes.begun(steps, draws))
        self.explores = exploring.explores(self.index)
        if self.explores:
            self._starts, self.over = exploring.starts(self.index), True

    def resize(self, steps: int) -> None:
        """Fill the first rows of the memory from now on."""
        self.trajectory = self._capacity.shortened(steps)
        self._arrays = self._with_rows(self.trajectory)

    def _with_rows(self, trajectory: Trajectory) -> LoopArrays:
        """Return the arrays with the rows of a part of the memory."""
        actions = trajectory.actions.reshape(1, trajectory.steps, -1)
        return self._arrays._replace(rows=trajectory.select(None)._replace(actions=actions))

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
        of, episode = self._collector.exploring, (self.index, self.number, self.age)
        self.over |= restarts(self._collector.plan, *episode, of.oldest, of.runs_away)

    def collect_steps(self, actor_params: np.ndarray, begin: int) -> int:
        """Continue the episode to its end or to the last row, an excursion to its last step; return the row after."""
        if not self.explores:
            return self._collect(actor_params, begin)
        most = self._collector.exploring.steps(self.index)
        whole, shortened = self._arrays, self.trajectory.shortened(min(begin + most, self.trajectory.steps))
        self._arrays = self._with_rows(shortened)
        row, self._arrays = self._collect(actor_params, begin), whole
        if not self.over:
            self.over = self.trajectory.truncated[row - 1] = True
        return row

    def _collect(self, actor_params: np.ndarray, begin: int) -> int:
        """Continue the episode to its end or to the last row of the arrays; return the row after."""
        arrays = self._arrays
        arrays.next_rows[0], arrays.ages[0], arrays.rewards[0] = begin, self.age, 0.0
        with self._named():
            self._loop(*self.arguments(actor_params))
            while arrays.statuses[0] == LISTS_FULL:
                self._arrays = arrays = with_more_capacity(arrays, self._allocate)
                self._capacity = self._capacity._replace(features=arrays.rows.features[0])
                self.trajectory = self.trajectory._replace(features=arrays.rows.features[0])
                self._loop(*self.arguments(actor_params))
        row, self.age, self.total = int(arrays.next_rows[0]), int(arrays.ages[0]), self.total + float(arrays.rewards[0])
        if arrays.statuses[0] != OK:
            raise describe_fault(int(arrays.statuses[0]), self._simulator, f"{self.number}{self._suffix}", self.age)
        terminated = bool(self.trajectory.terminated[row - 1])
        self.over = terminated or bool(self.trajectory.truncated[row - 1])
        self.terminated = self.terminated or terminated
        return row

    def follow(self, first: "FixedLengthInstance") -> None:
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
        return ReplayedInstance(self._suffix, self._streams.new, snapshot_of(record, metadata), self.trajectory.steps)

    @property
    def _suffix(self) -> str:
        return f" of instance {self.index}"

    def _named(self) -> AbstractContextManager[None]:
        return naming_the_episode(self._simulator, f"{self.number}{self._suffix}")
