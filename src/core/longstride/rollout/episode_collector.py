"""Collects whole episodes on the cores; no torch here."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

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
)
from longstride.rollout.fault_locator import ReplayedInstance, StepSnapshot
from longstride.rollout.loop_arrays import new_loop_arrays, with_more_capacity, zeros_apart
from longstride.rollout.streams.generator_addresses import Generators, rows_of
from longstride.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from longstride.seeding import stream
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import LISTS_FULL, OK, Simulator, describe_fault, metrics_of


class EpisodeCollector(Collector):
    """Collects whole episodes with the sampled policy, in parallel where there are several.

    The random streams of an episode are named by its number, the simulator's by that of its group. The result depends
    neither on the threads nor on what is played side by side.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        plan: RolloutPlan,
        new: Allocate = allocate_plain,
        build_loop: BuildLoop = build_collect_steps,
    ) -> None:
        self.simulator, self.spec = simulator, spec
        self.threads = min(plan.threads, plan.instances)
        self.plan = plan._replace(side_by_side=1) if spec.scores_actions else plan
        self._loop = DirectCalls(cached(build_loop(simulator, spec)))
        self._longer: dict[int, np.ndarray] = {}  # features of instances whose lists needed more room
        self._allocate = new
        self._rows = allocate(
            spec,
            simulator.max_steps,
            new=lambda shape, dtype: new((plan.instances, *shape), dtype),
            host_only=lambda shape, dtype: np.empty((plan.instances, *shape), dtype),
        )

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[list[InstanceTrajectory], float]:
        """Collect some episodes, each on an instance of its own."""
        begin = time.perf_counter()
        groups = in_groups(count, self.threads, self.plan.side_by_side)
        collected = in_threads(self.threads, partial(self.play, actor_params, first_episode), groups)
        return [episode for group in collected for episode in group], time.perf_counter() - begin

    @property
    def terminated(self) -> bool:
        """False: nothing depends on it."""
        return False

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Any] = ()) -> None:
        """Do nothing: episodes are played whole."""

    def resize(self, steps: int) -> None:
        """Do nothing: episodes are played whole."""

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the loop without a step; return the seconds it took."""
        return compile_loop(
            self.simulator, self._loop.kernel, self._arguments(actor_params, [self._streams(0)], range(1))
        )

    def state_dict(self) -> CollectorState:
        """Return nothing: every episode is played to its end."""
        return CollectorState({}, [])

    def load_state_dict(self, state: CollectorState) -> None:
        """Do nothing."""

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it."""
        record = bytes(self.simulator.state_dtype.itemsize + 4 * self.spec.state_size)
        snapshots = [StepSnapshot(first_episode + i, -1, record, {}, {}) for i in range(count)]
        return [ReplayedInstance("", self._streams, snapshot, None) for snapshot in snapshots]

    def rows_of(self, index: int) -> Trajectory:
        """Return the memory for the trajectory of an instance."""
        return self._select(index)

    def set_capacity(self, index: int, features: np.ndarray) -> None:
        """Let an instance use other memory for its lists of feasible actions, which needed more."""
        self._longer[index] = features

    def _select(self, which: int | slice) -> Trajectory:
        """Return the trajectory of an instance, or those of a group of instances."""
        rows, number = self._rows.select(which), which if isinstance(which, int) else which.start
        longer = self._longer.get(number)
        return rows if longer is None else rows._replace(features=longer if isinstance(which, int) else longer[None])

    def _streams(self, number: int) -> tuple[np.random.Generator, np.random.Generator]:
        """Return the random streams of simulator and policy in an episode."""
        seed, group = self.plan.seed, number // self.plan.group_size
        return stream(seed, "simulator", group), stream(seed, "policy", number)

    def _arguments(self, actor_params: np.ndarray, generators: Sequence[Generators], group: range) -> tuple[Any, ...]:
        """Return the loop's arguments for some episodes, with their generators."""
        states = zeros_apart(len(group), self.simulator.state_dtype).view(np.recarray)
        arrays = new_loop_arrays(self._select(slice(group.start, group.stop)), self.spec, states)
        return states, rows_of(generators), self.simulator.parameters, actor_params, arrays

    def play(self, actor_params: np.ndarray, first_episode: int, group: range) -> list[InstanceTrajectory]:
        """Collect the episodes of some instances side by side, at most those of the plan."""
        generators = [self._streams(first_episode + k) for k in group]  # which stay while the loop plays with them
        arguments = self._arguments(actor_params, generators, group)
        states, *_, arrays = arguments
        names = [str(first_episode + k) for k in group]
        with naming_the_episode(self.simulator, lambda: names[arrays.playing[0]]):
            self._loop(*arguments)
            while arrays.statuses[0] == LISTS_FULL:  # an episode with lists is alone in its group
                arrays = with_more_capacity(arrays, self._allocate)
                self._longer[group[0]] = arrays.rows.features[0]
                self._loop(*arguments[:-1], arrays)
        for name, row, status in zip(names, arrays.next_rows, arrays.statuses, strict=True):
            if status != OK:
                raise describe_fault(int(status), self.simulator, name, int(row))
        collected = []
        for k, (name, number) in enumerate(zip(names, group, strict=True)):
            with naming_the_episode(self.simulator, name):
                metrics, message = metrics_of(self.simulator, states[k : k + 1]), self.simulator.message(states[k])
            outcome = EpisodeOutcome(float(arrays.rewards[k]), metrics, message)
            trajectory = self._select(number).first(int(arrays.next_rows[k]))
            collected.append(InstanceTrajectory(trajectory, [outcome]))
        return collected


def in_groups(count: int, threads: int, side_by_side: int) -> list[range]:
    """Return which of ``count`` episodes are played side by side: groups of nearly the same size.

    Their number is a multiple of the threads, and each has at most ``side_by_side`` episodes.
    """
    groups = threads * -(-count // (threads * side_by_side))
    edges = [count * k // groups for k in range(groups + 1)]
    return [range(begin, end) for begin, end in pairwise(edges) if begin < end]
