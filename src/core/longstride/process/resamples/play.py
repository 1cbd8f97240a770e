"""Changes of a scenario played on logs that are drawn from its log and mined again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.resample import resample_weeks, weeks_of
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.resamples.interval import Effect, LogError, bias_of_mining, effect_of, log_error
from longstride.process.resamples.processes import results
from longstride.process.resamples.simulated_log import simulated_log
from longstride.process.scenario.classes import with_flows
from longstride.process.scenario.routing import Routing, build_routing
from longstride.process.scenario.scenario import Scenario
from longstride.seeding import stream
from longstride.text import Say, counted, format_duration

T = TypeVar("T")

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
    scenario: Scenario  # mined from it
    arrivals: str  # ``weekly`` or ``replay``
    changes: tuple[str, ...]  # changes in words
    resamples: int
    episodes: int  # episodes of each scenario
    seed: int


def why_not(log: EventLog) -> str:
    """Return why the weeks of a log cannot be drawn again; empty if they can."""
    _, weeks = weeks_of(log)
    if weeks >= _FEWEST_WEEKS:
        return ""
    return f"the log has arrivals of {counted(int(weeks), 'whole week')}, and drawing weeks again needs {_FEWEST_WEEKS}"


def play_resamples(resampling: Resampling, processes: int, say: Say) -> dict[str, LogError]:
    """Return the error that the size of the log leaves in each change in words; a change that few allow has none.

    Besides, half as many logs are simulated and mined, for the bias of mining and the least variance between logs.
    """
    count = resampling.resamples
    effects = run_resamples(partial(play_resample, resampling), count + count // 2, processes, say)
    true, blocks, found = _effects(resampling, resampling.scenario, 2 * count), blocks_of(resampling.log), {}
    for change in resampling.changes:
        resampled, mined_back = (
            [of[change] for of in part if change in of] for part in (effects[:count], effects[count:])
        )
        error = log_error(resampled, blocks, mined_back)
        if error is not None and error.resamples >= FEWEST and change in true:
            mining = bias_of_mining(true[change], mined_back)
            found[change] = replace(error, mining=mining, mined_back=max(len(mined_back), 2))
    return found


def run_resamples(play: Callable[[int], T], count: int, processes: int, say: Say) -> list[T]:
    """Return the results of a function for the numbers of resamples; the number of processes changes no result.

    The first resample tells how long the others take, which a line says.
    """
    begin = time.perf_counter()
    found = [play(0)]
    each = time.perf_counter() - begin
    workers = min(processes, count - 1) if each * count >= _WORTH_PROCESSES else 1
    say(
        f"Resampling {counted(count, 'log')} from this one and mining each, for intervals that cover the size of the "
        f"log: about {format_duration(max(each * (count - 1) / workers, 1.0))} (--resamples 0 leaves it out)."
    )
    said = time.monotonic()
    for result in results(play, range(1, count), workers):
        found.append(result)
        if time.monotonic() - said >= _PROGRESS and len(found) < count:
            said = time.monotonic()
            say(f"  {len(found)} of {count} logs")
    return found


def drawn(log: EventLog, scenario: Scenario, seed: int, number: int) -> EventLog:
    """Return a resample of a log by its number.

    Its people do as many tasks at once as in the ``scenario`` of the log. Where two draws meet, people have open tasks
    of both, which would look like several at once.
    """
    resampled = resample_weeks(log, stream(seed, "resample of weeks", number), _block(log))
    return replace(resampled, at_once=scenario.at_once)


def blocks_of(log: EventLog) -> float:
    """Return the number of blocks of weeks that are drawn independently."""
    return weeks_of(log)[1] / _block(log)


def _block(log: EventLog) -> int:
    """Return the number of weeks that stay together."""
    return 2 if weeks_of(log)[1] >= _WEEKS_FOR_BLOCKS else 1


def play_resample(resampling: Resampling, number: int) -> dict[str, Effect]:
    """Draw a log, or from the number of resamples on simulate one; mine it, and return the effects of the changes."""
    try:
        if number < resampling.resamples:
            log = drawn(resampling.log, resampling.scenario, resampling.seed, number)
        else:
            seed = int(stream(resampling.seed, "simulated log", number).integers(2**31))
            log = simulated_log(resampling.scenario, resampling.log, seed)
        scenario = mine_scenario(log, name=f"resample {number}", arrivals=resampling.arrivals).scenario
    except UserError:  # such as a resample without work of people
        return {}
    return _effects(resampling, scenario, number)


def _effects(resampling: Resampling, scenario: Scenario, number: int) -> dict[str, Effect]:
    """Return the effect of each change that a scenario allows on the mean cycle time."""
    seeds = stream(resampling.seed, "episodes of a resample", number).integers(2**31, size=resampling.episodes).tolist()
    # No change touches the flow, whose check and routing take most of the time.
    short = scenario.model_copy(update={"flow": with_flows(scenario.flow, lambda flow: {"cases": flow["cases"][:1]})})
    routing = build_routing(scenario.flow, scenario.activities)
    unchanged, effects = mean_cycle_times(scenario, seeds, routing), {}
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
    record, means = as_logged_record(parameters), []
    for seed in seeds:
        state = play_logged(record, parameters, sizes, seed).state
        done, began = state.completion_time[: state.arrived], state.arrival_time[: state.arrived]
        means.append(float((np.where(done >= 0.0, done, state.time) - began).mean()) if len(done) else 0.0)
    return np.array(means)
