"""Collection with a time limit; a failure names the step, the line and the command that plays it again."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from longstride.errors import EndlessEpisodeError, OutcomeError, PolicyNotFiniteError, SimulatorError, this_command
from longstride.escaping import shell_word
from longstride.rollout.collector import Collector, CollectorState, InstanceTrajectory
from longstride.rollout.fault_locator import FaultLocator, find_fault
from longstride.simulators.check.time_limit import TooLong, time_limit
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import PROGRAM, is_of_a_program

T = TypeVar("T")

_PATIENCE = 5.0
"""Most seconds for one step, when a collection that failed is repeated."""


def collect_guarded(
    collector: Collector,
    before: CollectorState,
    actor_params: np.ndarray,
    iteration: int,
    count: int,
    seconds: float,
    directory: Path,
    saved: int = 0,
) -> tuple[Sequence[InstanceTrajectory], float]:
    """Return what :meth:`Collector.collect` returns for an iteration, counted from 0.

    ``before`` is the collector's present state, from which a failure is played again. ``seconds`` is the time limit, 0
    for none. An error names the run's ``directory`` and the iteration of its last checkpoint, ``saved``.

    Raises:
        SimulatorError: the simulator broke its contract, or (EndlessEpisodeError) did not return in time.
    """
    simulator, plan = collector.simulator, collector.plan
    first_episode = iteration * (plan.of or count) + plan.first
    collect = partial(collector.collect, actor_params, first_episode, count)
    try:
        if simulator.compiled:
            return run_with_timeout(seconds, collect)
        if not seconds:
            return collect()
        with time_limit(seconds):  # ordinary Python, some of which needs the main thread
            return collect()
    except (PolicyNotFiniteError, OutcomeError):
        raise
    except (SimulatorError, TooLong) as error:
        late, fault = isinstance(error, TooLong), str(error)
        if late:
            fault = (
                f"{type(simulator).__name__}: collecting a rollout took longer than EPISODE_TIME_LIMIT = "
                f"{seconds:g} s; raise it if nothing is wrong."
            )
        if instances := collector.replayed(before, first_episode, count):
            locator = FaultLocator(simulator, collector.spec, actor_params)
            exact = find_fault(locator, instances, min(seconds or _PATIENCE, _PATIENCE))
            again = "every step returned." if late else "it does not fail: is it deterministic?"
            fault = str(exact) if exact else f"{fault.rstrip('.')}; played again, {again}"
        kind = EndlessEpisodeError if late else SimulatorError
        raise kind(f"{fault} {_what_is_left(simulator, collector.plan.seed, iteration, saved, directory)}") from error


def _what_is_left(simulator: Simulator, seed: int, iteration: int, saved: int, directory: Path) -> str:
    """Return what was saved and, if a command can make the simulator, how to repeat the failure."""
    left = f"Iterations up to {saved} are saved. " if saved else ""
    if type(simulator).__module__ == PROGRAM or is_of_a_program(str(getattr(simulator, "name", ""))):
        return f"{left}Seed {seed}."
    run = shell_word(str(directory))
    command = f"{this_command()} --mode replay --run-directory {run} --iteration {iteration + 1}"
    return f"{left}Seed {seed}; play it again: {command}"


def run_with_timeout(seconds: float, function: Callable[[], T]) -> T:
    """Return what a function returns; with a limit it runs in a thread of its own, which continues after that.

    Raises:
        TooLong: the function did not return in time.
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
    thread = threading.Thread(target=call, name="collect", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TooLong
    return results[0]
