"""Play that is watched: a round that fails or never ends is explained, with the command that plays it again."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from core.errors import EndlessEpisodeError, PolicyNotFiniteError, SimulatorError, this_command
from core.policies.spec import PolicySpec
from core.rollout.episode_collector import Collector, CollectorState, Played
from core.rollout.fault_locator import FaultLocator, ReplayedInstance, StepSnapshot, find_fault
from core.seeding import stream
from core.simulators.check.time_limit import TooLong, time_limit
from core.simulators.simulator import Simulator, new_state

T = TypeVar("T")

_PATIENCE = 5.0
"""Most seconds for one decision, when a round that failed is played again."""


@dataclass
class GuardedCollector:
    """A collector whose failures name step, seed and the user's own line (a ``Collector``).

    Attributes:
        collector: what plays.
        simulator: that is played.
        spec: architecture of the policy.
        seed: the run's.
        steps: decisions of each copy, 0 for whole episodes.
        seconds: that a round may take; 0 for as long as it takes.
        directory: of the run.
    """

    collector: Collector
    simulator: Simulator
    spec: PolicySpec
    seed: int
    steps: int
    seconds: float
    directory: Path

    def collect(self, actor_params: np.ndarray, first_episode: int, count: int) -> tuple[Sequence[Played], float]:
        """Play.

        Raises:
            SimulatorError: the simulator broke its contract, or (EndlessEpisodeError) did not come back in time.
        """
        before, play = self.collector.unfinished(), partial(self.collector.collect, actor_params, first_episode, count)
        try:
            return self._in_time(play)
        except PolicyNotFiniteError:
            raise
        except (SimulatorError, TooLong) as error:
            kind = EndlessEpisodeError if isinstance(error, TooLong) else SimulatorError
            what = self._found(error, actor_params, before, first_episode, count)
            raise kind(f"{what} {self._replay(first_episode // count + 1)}") from error

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile without playing; return the seconds it took."""
        return self.collector.compile(actor_params)

    def compile_ahead(self) -> None:
        """Compile into the folder of kernels a part of what :meth:`compile` will need, in another process."""
        self.collector.compile_ahead()

    def unfinished(self) -> CollectorState:
        """Return what is needed to go on with the episodes that are not at their end."""
        return self.collector.unfinished()

    def restore(self, unfinished: CollectorState) -> None:
        """Go on with the episodes that :meth:`unfinished` returned."""
        self.collector.restore(unfinished)

    def _in_time(self, play: Callable[[], T]) -> T:
        """Play; raise TooLong where it takes too long."""
        if not self.simulator.compiled:  # ordinary Python, some of which wants the main thread
            if not self.seconds:
                return play()
            with time_limit(self.seconds):
                return play()
        return run_with_timeout(self.seconds, play)

    def _found(
        self, error: BaseException, actor_params: np.ndarray, before: CollectorState, first_episode: int, count: int
    ) -> str:
        """Return the sentence about what failed, as exact as can be found out."""
        said = (
            f"{type(self.simulator).__name__}: a round of play took longer than EPISODE_TIME_LIMIT = "
            f"{self.seconds:g} s; raise it if nothing is wrong."
            if isinstance(error, TooLong)
            else str(error)
        )
        if not self.simulator.resumable:
            return said
        retrace = FaultLocator(self.simulator, self.spec, actor_params)
        exact = find_fault(
            retrace, self._copies(before, first_episode, count), min(self.seconds or _PATIENCE, _PATIENCE)
        )
        again = "every decision came back." if isinstance(error, TooLong) else "it does not fail: is it deterministic?"
        return str(exact) if exact else f"{said.rstrip('.')}; played again, {again}"

    def _copies(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the copies of a round as they stood before it."""
        if not self.steps:
            record = new_state(self.simulator).tobytes()
            numbers = range(first_episode, first_episode + count)
            return [ReplayedInstance("", self._streams, StepSnapshot(n, -1, record, {}, {}), None) for n in numbers]
        copies = []
        for i, facts in enumerate(before.facts[:count]):
            record = before.records[f"rollout.{i}.state"].tobytes()
            number, age = (facts["number"] + 1, -1) if facts["over"] else (facts["number"], facts["age"])
            standing = StepSnapshot(number, age, record, facts["rng"], facts["policy_rng"])
            copies.append(ReplayedInstance(f" of copy {i}", partial(self._streams, copy=(i,)), standing, self.steps))
        return copies

    def _streams(self, number: int, copy: tuple[int, ...] = ()) -> tuple[np.random.Generator, np.random.Generator]:
        """Return the streams of an episode, named as the collectors name them."""
        return stream(self.seed, "simulator", *copy, number), stream(self.seed, "policy", *copy, number)

    def _replay(self, episode: int) -> str:
        """Return what was kept and how to look at the failure again."""
        kept = f"Training episodes up to {episode - 1} are saved. " if episode > 1 else ""
        command = f"{this_command()} --mode replay --run-directory {self.directory} --episode {episode}"
        return f"{kept}Seed {self.seed}; play it again: {command}"


def run_with_timeout(seconds: float, function: Callable[[], T]) -> T:
    """Return what a function returns.

    Args:
        seconds: that it may take; 0 for as long as it takes.
        function: runs in a thread of its own, which goes on where it takes too long.

    Raises:
        TooLong: it did.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    if not seconds:
        return function()
    thread = threading.Thread(target=call, name="play", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TooLong
    return results[0]
