"""Plays episodes on the cores and fills trajectories; no torch here."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba.core.errors import NumbaError

from core.kernels.cache import cached, compile_for
from core.policy.forward import workspace
from core.rollout.episode import build_go_on
from core.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from core.seeding import stream
from core.simulators.compile_errors import describe_compile_error
from core.simulators.simulator import (
    OK,
    Simulator,
    compile_functions,
    describe_fault,
    metrics_of,
    naming_the_episode,
    new_state,
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


class Unfinished(NamedTuple):
    """What a checkpoint keeps of the episodes that copies are in.

    Attributes:
        records: name -> uint8[*].
        facts: of each copy, JSON values.
    """

    records: dict[str, np.ndarray]
    facts: list[dict[str, Any]]


class Collects(Protocol):
    """What the trainer asks of a collector."""

    def collect(self, weights: np.ndarray, first_episode: int, count: int) -> tuple[Sequence[Played], float]:
        """Play; return what each copy left and the seconds that it took."""

    def compile(self, weights: np.ndarray) -> float:
        """Compile without playing; return the seconds it took."""

    def unfinished(self) -> Unfinished:
        """Return what is needed to go on with the episodes that are not at their end."""

    def restore(self, unfinished: Unfinished) -> None:
        """Go on with the episodes that :meth:`unfinished` returned."""


class Collector:
    """Collects episodes with the sampled policy, in parallel where there are several.

    Each episode has its own random streams, named by its number, so the result does not depend on the threads.

    Args:
        simulator: the simulator.
        sizes: layer sizes of the actor.
        activation: of the actor's hidden layers.
        seed: the run's seed.
        parallel: episodes collected at once.
        threads: most threads to use.
        new: allocator of trajectory arrays.
    """

    def __init__(
        self,
        simulator: Simulator,
        sizes: Sequence[int],
        activation: str,
        seed: int,
        parallel: int,
        threads: int,
        new: Allocate | None = None,
    ) -> None:
        self.simulator, self.seed, self.threads = simulator, seed, min(threads, parallel)
        self._reset = cached(compile_functions(simulator).reset)
        self._go_on = cached(build_go_on(simulator, sizes, activation))
        space = simulator.action_space
        self._slots = [
            (
                new_state(simulator),
                allocate(
                    simulator.max_steps,
                    simulator.observation_size,
                    space,
                    simulator.action_feature_size,
                    new or allocate_plain,
                ),
                workspace(sizes),
            )
            for _ in range(parallel)
        ]

    def collect(self, weights: np.ndarray, first_episode: int, count: int) -> tuple[list[Episode], float]:
        """Play some episodes.

        Args:
            weights: float32[*], the CPU copy of the actor.
            first_episode: number of the first episode; names its random streams.
            count: number of episodes, at most ``parallel``.

        Returns:
            The episodes and the seconds that playing them took.

        Raises:
            SimulatorError: the simulator broke its contract; episode and step are named.
        """
        begin = time.perf_counter()
        numbers, slots = range(first_episode, first_episode + count), self._slots[:count]
        if self.threads == 1:
            played = [self._play(slot, weights, number) for slot, number in zip(slots, numbers, strict=True)]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                played = list(pool.map(self._play, slots, [weights] * count, numbers))
        return played, time.perf_counter() - begin

    def compile(self, weights: np.ndarray) -> float:
        """Compile the loop without playing; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        begin = time.perf_counter()
        arguments = self._arguments(self._slots[0], weights, 0)
        try:
            compile_for(self._reset, _start_of(arguments))
            compile_for(self._go_on, arguments)
        except NumbaError as error:
            raise describe_compile_error(self.simulator, error) from error
        return time.perf_counter() - begin

    def unfinished(self) -> Unfinished:
        """Return nothing: every episode is played to its end."""
        return Unfinished({}, [])

    def restore(self, unfinished: Unfinished) -> None:
        """Do nothing."""

    def _arguments(self, slot: Any, weights: np.ndarray, number: int) -> tuple[Any, ...]:
        states, trajectory, scratch = slot
        streams = stream(self.seed, "simulator", number), stream(self.seed, "policy", number)
        return states, self.simulator.parameters, weights, *streams, trajectory, scratch, 0, self.simulator.max_steps, 0

    def _play(self, slot: Any, weights: np.ndarray, number: int) -> Episode:
        states, trajectory, _ = slot
        with naming_the_episode(self.simulator, str(number)):
            arguments = self._arguments(slot, weights, number)
            self._reset(*_start_of(arguments))
            steps, total, status = self._go_on(*arguments)
        if status != OK:
            raise describe_fault(status, self.simulator, str(number), steps)
        with naming_the_episode(self.simulator, str(number)):
            metrics, message = metrics_of(self.simulator, states), self.simulator.message(states[0])
        return Episode(trajectory.first(steps), float(total), metrics, message)


def _start_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what ``reset`` takes of the loop's arguments: state record, parameters and the simulator's generator."""
    states, parameters, _, rng, *_ = arguments
    return states[0], parameters, rng
