"""What Python knows of the instances of a batched collector: their episodes, random streams, ends and checkpoints."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.rollout.batched.arrays import BEGINS, IDLE, BatchArrays
from longstride.rollout.batched.records import Records
from longstride.rollout.collector import (
    CollectorState,
    EpisodeOutcome,
    InstanceTrajectory,
    RolloutPlan,
    load_instance,
    order_of,
    record_name,
    restarts,
    snapshot_of,
)
from longstride.rollout.fault_locator import ReplayedInstance, StepSnapshot, generator_in
from longstride.rollout.streams.episode_stream import EpisodeSeeds
from longstride.rollout.streams.generator_addresses import Generators
from longstride.rollout.streams.swapped_generator import state_of, words_of
from longstride.rollout.trajectory import Trajectory
from longstride.seeding import stream
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import OK, Simulator, describe_fault, metrics_of


class Instances:
    """The instances of a collector, numbered from 0, each with the episode that it is in.

    Attributes:
        states: ``state_dtype``[S], the simulator's states.
        numbers: int64[S], numbers of the episodes; -1 before the first.
        over: bool[S], whether the episode has ended, so that another one has to begin.
        terminated: bool[S], whether any of its episodes so far was terminated, and not cut.
    """

    def __init__(
        self, simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, rows: Trajectory, arrays: BatchArrays
    ) -> None:
        self._simulator, self._spec, self._plan, self._rows, self._arrays = simulator, spec, plan, rows, arrays
        count = plan.instances
        self.states = np.zeros(count, simulator.state_dtype).view(np.recarray)
        self.numbers, self.over, self.terminated = (
            np.full(count, -1),
            np.ones(count, np.bool_),
            np.zeros(count, np.bool_),
        )
        self._totals, self._cuts = np.zeros(count), np.zeros(count, np.int64)
        self._finished: list[list[EpisodeOutcome]] = [[] for _ in range(count)]
        indices = [(plan.first + i,) for i in range(count)] if plan.steps else [()]
        self._seeds = [[EpisodeSeeds(plan.seed, name, *index) for name in ("simulator", "policy")] for index in indices]
        arrays.simulator_words[:] = arrays.policy_words[:] = words_of(generator_in({}))

    def begin_rollout(self, first_episode: int, count: int) -> None:
        """Let some instances begin a rollout, in whole episodes those of these numbers."""
        arrays = self._arrays
        arrays.phases[:], arrays.next_rows[:], arrays.rewards[:], arrays.statuses[:] = IDLE, 0, 0.0, OK
        self._cuts[:] = 0
        self._finished = [[] for _ in range(count)]
        for i in range(count):
            if not self._plan.steps:
                self._begin_episode(i, first_episode + i)
            elif self.over[i]:
                self._begin_episode(i, int(self.numbers[i]) + 1)
        arrays.phases[:count] = BEGINS

    def _begin_episode(self, i: int, number: int) -> None:
        """Let an instance begin an episode; the turns reset the simulator."""
        arrays = self._arrays
        self.numbers[i], self.over[i], self._totals[i] = number, False, 0.0
        arrays.ages[i], arrays.rewards[i], arrays.phases[i] = -1, 0.0, BEGINS
        seeds = self._seeds[i if self._plan.steps else 0]
        for of_a_name, words in zip(seeds, (arrays.simulator_words, arrays.policy_words), strict=True):
            of_a_name.write(number, words[i])

    def end_episode(self, i: int) -> None:
        """Keep how an instance's episode ended; where it has rows left in the rollout, the next one begins."""
        arrays, rows, row = self._arrays, self._rows, int(self._arrays.next_rows[i])
        total = float(self._totals[i] + arrays.rewards[i])
        with naming_the_episode(self._simulator, self.name(i)):
            metrics = metrics_of(self._simulator, self.states[i : i + 1])
            self._finished[i].append(EpisodeOutcome(total, metrics, self._simulator.message(self.states[i])))
        self.over[i], arrays.phases[i] = True, IDLE
        self.terminated[i] |= rows.terminated[i, row - 1]
        if self._plan.steps and row < arrays.steps[0]:
            if rows.truncated[i, row - 1]:
                rows.cut_observations[i, self._cuts[i]] = rows.observations[i, row]
                self._cuts[i] += 1
            self._begin_episode(i, int(self.numbers[i]) + 1)

    def end_rollout(self, count: int) -> list[InstanceTrajectory]:
        """Return what some instances collected.

        Raises:
            SimulatorError: one of them broke the contract.
        """
        arrays, plan = self._arrays, self._plan
        for faulty in map(int, np.flatnonzero(arrays.statuses[:count] != OK)):
            status, age = int(arrays.statuses[faulty]), int(arrays.ages[faulty])
            raise describe_fault(status, self._simulator, self.name(faulty), age)
        going_on = ~self.over[:count]
        self._totals[:count][going_on] += arrays.rewards[:count][going_on]
        collected = [
            InstanceTrajectory(self._rows.select(i).first(int(arrays.next_rows[i])), self._finished[i])
            for i in range(count)
        ]
        if not plan.of and not self.terminated.any():  # else the ends of episodes have a meaning
            self.restart_old_episodes()
        return collected

    def restart_old_episodes(self) -> None:
        """Let the next rollout begin another episode in each instance whose episode is too old."""
        plan = self._plan
        for i in range(plan.instances if plan.steps else 0):
            age = int(self._arrays.ages[i])
            self.over[i] |= restarts(plan, plan.first + i, int(self.numbers[i]), age, plan.restart_after)

    def name(self, i: int) -> str:
        """Return the name of an instance's episode, for messages."""
        return f"{self.numbers[i]}{self._suffix(i)}"

    def _suffix(self, i: int) -> str:
        return f" of instance {self._plan.first + i}" if self._plan.steps else ""

    def _streams(self, i: int, number: int) -> Generators:
        """Return the random streams of simulator and policy in an episode of an instance."""
        seed = self._plan.seed
        names = (self._plan.first + i, number) if self._plan.steps else (number,)
        return stream(seed, "simulator", *names), stream(seed, "policy", *names)

    def state_dict(self, policy_states: Callable[[], np.ndarray]) -> CollectorState:
        """Return what is needed to continue unfinished episodes, with float32[S, state_size] the policy's states."""
        names = [record_name(self._plan.first + i) for i in range(self._plan.instances)]
        return CollectorState(
            Records(names, self.states.copy(), policy_states), list(map(self._metadata, range(len(names))))
        )

    @property
    def _record_size(self) -> int:
        """Bytes of the simulator's state and of the policy's."""
        return self.states.itemsize + np.dtype(np.float32).itemsize * self._spec.state_size

    def _metadata(self, i: int) -> dict[str, Any]:
        """Return number, age, rewards and generators of an episode as JSON values."""
        return {
            "number": int(self.numbers[i]),
            "age": int(self._arrays.ages[i]),
            "total": float(self._totals[i]),
            "over": bool(self.over[i]),
            "terminated": bool(self.terminated[i]),
            **order_of(self.states.dtype),
            "rng": state_of(self._arrays.simulator_words[i]),
            "policy_rng": state_of(self._arrays.policy_words[i]),
        }

    def load_state_dict(self, state: CollectorState, policy_states: np.ndarray) -> None:
        """Continue episodes, or raise if a record does not fit the simulator; the policy's states are written."""
        if not self._plan.steps:
            return
        for i, metadata in zip(range(self._plan.instances), state.metadata, strict=False):
            record = state.records.get(record_name(self._plan.first + i))
            load_instance(record, metadata, self.states[i : i + 1], policy_states[i : i + 1])
            self.numbers[i], self._arrays.ages[i], self._totals[i] = (metadata[n] for n in ("number", "age", "total"))
            self.over[i], self.terminated[i] = metadata["over"], metadata.get("terminated", False)
            self._arrays.simulator_words[i] = words_of(generator_in(metadata["rng"]))
            self._arrays.policy_words[i] = words_of(generator_in(metadata["policy_rng"]))

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances as they were before a collection."""
        if not self._plan.steps:
            record = bytes(self._record_size)
            snapshots = [StepSnapshot(first_episode + i, -1, record, {}, {}) for i in range(count)]
        else:
            names = [record_name(self._plan.first + i) for i in range(count)]
            snapshots = [snapshot_of(before.records[name], before.metadata[i]) for i, name in enumerate(names)]
        steps = int(self._arrays.steps[0]) if self._plan.steps else None
        return [
            ReplayedInstance(self._suffix(i), partial(self._streams, i), snapshot, steps)
            for i, snapshot in enumerate(snapshots)
        ]
