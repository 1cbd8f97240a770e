"""Plays episodes on the cores and fills trajectories; no torch here."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba.core.errors import NumbaError

from core.jit_cache.cache import cached, compile_for
from core.policies.compiled.forward import workspace
from core.policies.spec import PolicySpec
from core.rollout.batched_episode_loop import LoopResult, apart, build_batched_loop, new_loop_result
from core.rollout.episode_loop import build_collect_steps
from core.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from core.seeding import stream
from core.simulators.compile_errors import describe_compile_error
from core.simulators.observe import compile_observe_state
from core.simulators.simulator import (
    OK,
    Simulator,
    compile_functions,
    describe_fault,
    metrics_of,
    naming_the_episode,
)


class Outcome(NamedTuple):
    """How an episode ended.

    Attributes:
        total_reward: undiscounted sum of rewards.
        metrics: the simulator's figures.
        message: what a user should read about how it ended, or None.
    """

    total_reward: float
    metrics: dict[str, Any]
    message: str | None


@dataclass(frozen=True)
class Episode:
    """What one episode left behind.

    Attributes:
        trajectory: its decisions, views that the next collection overwrites.
        total_reward: undiscounted sum of rewards.
        metrics: the simulator's figures.
        message: what a user should read about how it ended, or None.
    """

    trajectory: Trajectory
    total_reward: float
    metrics: dict[str, Any]
    message: str | None

    @property
    def finished(self) -> list[Outcome]:
        """The episode itself."""
        return [Outcome(self.total_reward, self.metrics, self.message)]


class Rollout(NamedTuple):
    """What a copy left behind that plays episode after episode.

    Attributes:
        trajectory: its decisions, views that the next collection overwrites.
        finished: the episodes that ended in it.
    """

    trajectory: Trajectory
    finished: list[Outcome]


Played = Episode | Rollout


class CollectorState(NamedTuple):
    """What a checkpoint keeps of the episodes that copies are in.

    Attributes:
        records: name -> uint8[*].
        facts: of each copy, JSON values.
    """

    records: dict[str, np.ndarray]
    facts: list[dict[str, Any]]


class Collector(Protocol):
    """What the trainer asks of a collector."""

    def collect(self, actor_params: np.ndarray, first_episode: int, count: int) -> tuple[Sequence[Played], float]:
        """Play; return what each copy left and the seconds that it took."""

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile without playing; return the seconds it took."""

    def compile_ahead(self) -> None:
        """Compile into the folder of kernels a part of what :meth:`compile` will need, in another process."""

    def unfinished(self) -> CollectorState:
        """Return what is needed to go on with the episodes that are not at their end."""

    def restore(self, unfinished: CollectorState) -> None:
        """Go on with the episodes that :meth:`unfinished` returned."""


class EpisodeCollector:
    """Collects episodes with the sampled policy, in parallel where there are several.

    Each episode has its own random streams, named by its number, so the result depends neither on the
    threads nor on what is played side by side.

    Args:
        simulator: the simulator.
        spec: architecture of the policy.
        seed: the run's seed.
        parallel: episodes collected at once.
        threads: most threads to use.
        together: most episodes that a thread plays side by side, which is faster than one after another.
        new: allocator of trajectory arrays.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        seed: int,
        parallel: int,
        threads: int,
        together: int = 1,
        new: Allocate | None = None,
    ) -> None:
        self.simulator, self.seed, self.threads = simulator, seed, min(threads, parallel)
        self.together, self._spec = together, spec
        self._reset = cached(compile_functions(simulator).reset)
        build = build_collect_steps if together == 1 else build_batched_loop
        self._loop = cached(build(simulator, spec))
        self.parallel = parallel
        self._rows = allocate(
            simulator.max_steps,
            simulator.observation_size,
            simulator.action_space,
            simulator.action_feature_size,
            lambda shape, dtype: (new or allocate_plain)((parallel, *shape), dtype),
        )

    def collect(self, actor_params: np.ndarray, first_episode: int, count: int) -> tuple[list[Episode], float]:
        """Play some episodes.

        Args:
            actor_params: float32[*], parameters of the actor.
            first_episode: number of the first episode; names its random streams.
            count: number of episodes, at most ``parallel``.

        Returns:
            The episodes and the seconds that playing them took.

        Raises:
            SimulatorError: the simulator broke its contract; episode and step are named.
        """
        begin = time.perf_counter()
        groups = in_groups(count, self.threads, self.together)
        if self.threads == 1:
            played = [self._play(actor_params, first_episode, group) for group in groups]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                played = list(pool.map(partial(self._play, actor_params, first_episode), groups))
        return [episode for group in played for episode in group], time.perf_counter() - begin

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the loop without playing; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        begin = time.perf_counter()
        parts = self._parts(0, range(1))
        try:
            compile_for(self._reset, (parts.states[0], self.simulator.parameters, parts.rngs[0]))
            compile_for(self._loop, self._arguments(actor_params, parts))
        except NumbaError as error:
            raise describe_compile_error(self.simulator, error) from error
        return time.perf_counter() - begin

    def compile_ahead(self) -> None:
        """Compile the reading of the state, into the folder of kernels."""
        parts = self._parts(0, range(1))
        rows = parts.rows.observations, parts.rows.masks, parts.rows.features
        compile_observe_state(self.simulator, parts.states[0], *(column[0, 0] for column in rows))

    def unfinished(self) -> CollectorState:
        """Return nothing: every episode is played to its end."""
        return CollectorState({}, [])

    def restore(self, unfinished: CollectorState) -> None:
        """Do nothing."""

    def _parts(self, first_episode: int, group: range) -> "_Parts":
        """Return what some episodes are played with."""
        members = slice(group.start, group.stop)
        numbers = [first_episode + min(group.start + k, group[-1]) for k in range(self.together)]  # as compiled for
        rngs, policy_rngs = (
            tuple(stream(self.seed, name, number) for number in numbers) for name in ("simulator", "policy")
        )
        rows, scratch = Trajectory(*(column[members] for column in self._rows)), workspace(self._spec, len(group))
        states = apart(len(group), self.simulator.state_dtype).view(np.recarray)
        return _Parts(states, rngs, policy_rngs, rows, scratch, new_loop_result(len(group)))

    def _arguments(self, actor_params: np.ndarray, parts: "_Parts") -> tuple[Any, ...]:
        """Return the loop's arguments."""
        states, rngs, policy_rngs, rows, scratch, ends = parts
        if self.together > 1:
            return states, self.simulator.parameters, actor_params, rngs, policy_rngs, rows, scratch, ends
        one, where = (rngs[0], policy_rngs[0], _member(rows, 0), scratch), (0, self.simulator.max_steps, 0)
        return states, self.simulator.parameters, actor_params, *one, *where

    def _play(self, actor_params: np.ndarray, first_episode: int, group: range) -> list[Episode]:
        """Play some episodes side by side."""
        parts, names = self._parts(first_episode, group), [str(first_episode + k) for k in group]
        ends = parts.ends
        with naming_the_episode(self.simulator, lambda: names[ends.playing[0]]):
            for k in range(len(group)):
                ends.playing[0] = k
                self._reset(parts.states[k], self.simulator.parameters, parts.rngs[k])
            found = self._loop(*self._arguments(actor_params, parts))
        if self.together == 1:
            ends.rows[0], ends.rewards[0], ends.statuses[0] = found
        for name, row, status in zip(names, ends.rows, ends.statuses, strict=True):
            if status != OK:
                raise describe_fault(int(status), self.simulator, name, int(row))
        return [self._episode(name, k, parts) for k, name in enumerate(names)]

    def _episode(self, name: str, k: int, parts: "_Parts") -> Episode:
        """Return what one of the episodes left behind."""
        states, ends = parts.states[k : k + 1], parts.ends
        with naming_the_episode(self.simulator, name):
            metrics, message = metrics_of(self.simulator, states), self.simulator.message(states[0])
        return Episode(_member(parts.rows, k).first(int(ends.rows[k])), float(ends.rewards[k]), metrics, message)


class _Parts(NamedTuple):
    """What a group of episodes is played with.

    Attributes:
        states: a record for each.
        rngs: of their simulators, as many as the loop is compiled for.
        policy_rngs: of the policy in them.
        rows: their trajectories, along the first axis of every array.
        scratch: workspace of the actor.
        ends: what becomes of them.
    """

    states: np.ndarray
    rngs: tuple[np.random.Generator, ...]
    policy_rngs: tuple[np.random.Generator, ...]
    rows: Trajectory
    scratch: np.ndarray
    ends: LoopResult


def _member(rows: Trajectory, k: int) -> Trajectory:
    return Trajectory(*(column[k] for column in rows))


def in_groups(count: int, threads: int, together: int) -> list[range]:
    """Return which of so many episodes are played side by side: groups of nearly the same size, a multiple of threads.

    Args:
        count: of the episodes.
        threads: that take the groups.
        together: most episodes of a group.
    """
    groups = threads * -(-count // (threads * together))
    edges = [count * k // groups for k in range(groups + 1)]
    return [range(begin, end) for begin, end in pairwise(edges) if begin < end]
