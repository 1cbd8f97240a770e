"""Sentences about the shares of cycle times, in a log and in its simulation."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import NO_RESOURCE, EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.fidelity.external_share import format_time, unexplained_share
from longstride.process.fidelity.log_distances import HOUR, Events
from longstride.process.mining.batches import find_batches
from longstride.process.mining.delays.waits import proven_of_waits
from longstride.process.mining.working_hours import divided_time, tasks_at_once
from longstride.process.scenario.scenario import HOURS_PER_WEEK, Scenario

_MOST_NAMED = 2
_NOTABLE = 0.1
"""Difference of an activity's time, as a share of the mean cycle, from which it is named."""


class Shares(NamedTuple):
    """Shares of the cycle time; they add up to 1."""

    work: float
    people: float  # waiting for people; in a log, waiting that its records leave unexplained
    external: float  # external delays


def logged_shares(log: EventLog) -> Shares:
    """Return the shares of a log: work is the time in which a record of the case is open.

    Records that a person has open at the same time share it, as in mining: the rest is waiting for people. The part of
    a wait's open hours in which its person was free and on duty is an external delay.
    """
    first, last = log.case_times()
    total = float((last - first).sum())
    if total <= 0.0:
        return Shares(1.0, 0.0, 0.0)
    gaps, order = _gaps(Events(log.case, log.activity, log.start, log.end))
    waited, external = np.bincount(log.case[order], gaps), float(gaps @ proven_of_waits(log)[order]) / total
    work = float(((last - first - waited) * _undivided(log)).sum()) / total
    return Shares(work, 1.0 - work - external, external)


def _undivided(log: EventLog) -> np.ndarray:
    """Return float64[cases], the share of the time of a case's records that is left where a person's share it.

    A batch is one record. People who work on several at once do not share their time.
    """
    batches, always = find_batches(log), np.ones(HOURS_PER_WEEK, np.bool_)
    shares = np.append(tasks_at_once(log) == 1, False)[log.resource]  # events without a person are last
    begun, mine = batches.begun(log), np.zeros(int(batches.group.max()) + 1)
    clock_end = np.maximum(log.clock_end, log.clock_start)
    for rows in rows_by(np.where(begun, log.resource, NO_RESOURCE), len(log.resources)):
        mine[batches.group[rows]] = divided_time(always, log.clock_start[rows], clock_end[rows])
    open_for = (clock_end - log.clock_start) / HOUR
    own = np.where(shares, mine[batches.group], open_for)
    whole = np.bincount(log.case, open_for, len(log.cases))
    return np.divide(np.bincount(log.case, own, len(log.cases)), whole, out=np.ones(len(log.cases)), where=whole > 0)


def _gaps(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[n], seconds from the latest end before in the case to each start, at least 0, and the order."""
    order = np.lexsort((events.end, events.start, events.case))
    case, start, end = events.case[order], events.start[order], events.end[order]
    begins = np.append(True, case[1:] != case[:-1])
    # A running maximum within cases: each case's times are shifted above those of the case before.
    lift = np.cumsum(begins) * (end.max() - start.min() + 1.0)
    latest = np.maximum.accumulate(end + lift) - lift
    gaps = np.zeros(len(case))
    gaps[1:] = np.maximum(start[1:] - latest[:-1], 0.0)
    gaps[begins] = 0.0
    return gaps, order


def hours_by_activity(events: Events, count: int) -> np.ndarray:
    """Return float64[count], hours a case of each activity, with the time since the latest end before in the case."""
    gaps, order = _gaps(events)
    hours = (gaps + events.end[order] - events.start[order]) / HOUR
    return np.bincount(events.activity[order], hours, count) / max(len(np.unique(events.case)), 1)


def verdict(logged: Shares, simulated: Shares, scenario: Scenario, cycle: float) -> list[str]:
    """Return sentences about the shares; ``cycle`` is the simulated mean in the scenario's unit."""

    def parts(shares: Shares, people: str) -> str:
        return f"{shares.work:.1%} is work, {shares.people:.1%} {people} and {shares.external:.1%} is external delay"

    sentences = [
        f"Of the logged cycle time {parts(logged, 'is waiting that the log leaves unexplained')}.",
        f"Of the simulated one {parts(simulated, 'waits for people')}.",
    ]
    if simulated.external > 0.0:
        least, most = (
            simulated.people * cycle,
            (simulated.people + unexplained_share(scenario) * simulated.external) * cycle,
        )
        sentences.append(
            f"Waiting that people can change is {format_time(least, scenario)} of {format_time(cycle, scenario)} a "
            f"case, and {format_time(max(most, least), scenario)} if they cause all that is unexplained."
        )
    return sentences


def differing_activities(logged: np.ndarray, simulated: np.ndarray, names: list[str], cycle: float) -> str | None:
    """Return a sentence about the activities whose hours a case, float64[A], differ most; None if all are similar."""
    difference = simulated - logged
    order = np.argsort(-np.abs(difference))[:_MOST_NAMED]
    named = [
        f"{names[a]} ({logged[a]:.3g} h a case in the log, {simulated[a]:.3g} h in the simulation)"
        for a in order
        if abs(difference[a]) > _NOTABLE * cycle
    ]
    return f"The times of these activities differ most: {', '.join(named)}." if named else None
