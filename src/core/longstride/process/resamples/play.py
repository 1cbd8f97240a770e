"""Changes of a scenario played on logs that are drawn from its log and mined again."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.resample import resample_weeks, weeks_of
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_long_record, play_logged
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.resamples.interval import Effect, LogError, effect_of, log_error
from longstride.process.scenario.routing import Routing, build_routing
from longstride.process.scenario.scenario import Scenario
from longstride.seeding import stream
from longstride.text import Say, counted, format_duration

FEWEST = 5
"""Fewest resamples that tell something about the spread between logs."""

_FEWEST_WEEKS, _WEEKS_FOR_BLOCKS = 3, 8
"""Fewest whole weeks of arrivals that are drawn from, and those from which two weeks stay together.

Where two draws meet, people have the work of both. So in blocks of two weeks half as many hours are of that kind.
"""

_PROGRESS = 15.0
"""Seconds between two lines about the progress."""

_WORTH_PROCESSES = 15.0
"""Seconds of computing from which processes of their own, which take seconds to start, are worth it."""


@dataclass(frozen=True)
class Resampling:
    """What is drawn and played."""

    log: EventLog
    arrivals: str  # ``weekly`` or ``replay``
    changes: tuple[str, ...]  # changes in words
    resamples: int
    episodes: int  # episodes of each scenario
    seed: int

    @property
    def block(self) -> int:
        """Number of weeks that stay together."""
        return 2 if weeks_of(self.log)[1] >= _WEEKS_FOR_BLOCKS else 1


@dataclass(frozen=True)
class Resampled:
    """The errors of the log, by change in words; a change that most resamples refuse has none."""

    errors: dict[str, LogError]
    seconds: float  # wall time


def why_not(log: EventLog) -> str:
    """Return why the weeks of a log cannot be drawn again; empty if they can."""
    _, weeks = weeks_of(log)
    if weeks >= _FEWEST_WEEKS:
        return ""
    return f"the log has arrivals of {counted(int(weeks), 'whole week')}, and drawing weeks again needs {_FEWEST_WEEKS}"


def play_resamples(resampling: Resampling, processes: int, say: Say) -> Resampled:
    """Return the error that the size of the log leaves in each change; the number of processes changes no result.

    The first resample tells how long the others take.
    """
    begin, count = time.perf_counter(), resampling.resamples
    play = partial(play_resample, resampling)
    effects = [play(0)]
    each = time.perf_counter() - begin
    workers = min(processes, count - 1) if each * count >= _WORTH_PROCESSES else 1
    say(
        f"Drawing the weeks of the log {counted(count, 'time')}, each mined and changed again, for intervals that hold "
        f"the size of the log: about {format_duration(max(each * (count - 1) / workers, 1.0))} (--resamples 0 leaves "
        "it out)."
    )
    said = time.monotonic()
    for effect in _results(play, range(1, count), workers):
        effects.append(effect)
        if time.monotonic() - said >= _PROGRESS and len(effects) < count:
            said = time.monotonic()
            say(f"  {len(effects)} of {count} logs")
    blocks = weeks_of(resampling.log)[1] / resampling.block
    found = {change: log_error([of[change] for of in effects if change in of], blocks) for change in resampling.changes}
    used = {change: error for change, error in found.items() if error and error.resamples >= FEWEST}
    return Resampled(used, time.perf_counter() - begin)


def play_resample(resampling: Resampling, number: int) -> dict[str, Effect]:
    """Draw a log, mine it, and return the effect of each change that it allows on the mean cycle time."""
    rng = stream(resampling.seed, "resample of weeks", number)
    log = resample_weeks(resampling.log, rng, resampling.block)
    effects = {}
    try:
        scenario = mine_scenario(log, name=f"resample {number}", arrivals=resampling.arrivals).scenario
    except UserError:  # such as a resample without work of people
        return {}
    seeds = rng.integers(2**31, size=resampling.episodes).tolist()
    # No change touches the flow, whose check and routing take most of the time.
    short = scenario.model_copy(update={"flow": {"cases": scenario.flow["cases"][:1]}})
    routing = build_routing(scenario.flow, scenario.activities)
    unchanged = mean_cycle_times(scenario, seeds, routing)
    for change in resampling.changes:
        try:
            changed = mean_cycle_times(apply_changes(short, change).scenario, seeds, routing)
        except UserError:  # a person or an activity that the resample does not have
            continue
        both = (changed > 0.0) & (unchanged > 0.0)
        if both.sum() >= 2:
            effects[change] = effect_of(changed[both], unchanged[both])
    return effects


def mean_cycle_times(scenario: Scenario, seeds: Sequence[int], routing: Routing | None = None) -> np.ndarray:
    """Return float64[seeds], mean cycle times under the logged habits; open cases count with their age, none as 0."""
    parameters, sizes = build_parameters(scenario, routing)
    record, means = as_long_record(parameters), []
    for seed in seeds:
        state = play_logged(record, parameters, sizes, seed).state
        done, began = state.completion_time[: state.arrived], state.arrival_time[: state.arrived]
        means.append(float((np.where(done >= 0.0, done, state.time) - began).mean()) if len(done) else 0.0)
    return np.array(means)


def _results(play: Callable[[int], Any], numbers: Sequence[int], workers: int) -> Iterator[Any]:
    """Yield the results of some numbers; several workers are processes, as threads would share Python's lock."""
    if workers == 1:
        yield from map(play, numbers)
        return
    context = multiprocessing.get_context("spawn")  # a forked process would hold locks of threads that it lacks
    pool = ProcessPoolExecutor(workers, context, _end_with_parent)
    try:
        yield from pool.map(play, numbers)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Leave Ctrl-C to the process that started this one, and end when that ends, in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
