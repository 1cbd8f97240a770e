"""A log like another one by chance: its weeks of arrivals are drawn again, each with its cases.

It is the moving block bootstrap of Künsch (1989), "The jackknife and the bootstrap for general stationary
observations". A case keeps its events, its day of the week and its time of day. The log keeps its length.
"""

from dataclasses import replace

import numpy as np

from longstride.process.event_logs.event_log import EventLog, compact
from longstride.process.event_logs.grouping import rows_by
from longstride.process.event_logs.pauses import Pauses
from longstride.process.event_logs.reading.collect import Coded

_DAY = 86_400.0
_WEEK = 7 * _DAY


def weeks_of(log: EventLog) -> tuple[np.ndarray, float]:
    """Return int64[cases], the week in which each case arrives, and the number of weeks with arrivals.

    A case arrives at its first start. Weeks are counted from the midnight before the first arrival; the last one may
    be a part of a week.
    """
    first = np.full(len(log.cases), np.inf)
    np.minimum.at(first, log.case, log.clock_start)
    since = first - _DAY * (first.min() // _DAY)
    return (since // _WEEK).astype(np.int64), (float(since.max()) // _DAY + 1) / 7


def resample_weeks(log: EventLog, rng: np.random.Generator, block: int = 1) -> EventLog:
    """Return a log in which each week has the cases that arrived in a week drawn from all whole weeks of the log.

    Args:
        log: log with at least one whole week of arrivals.
        rng: generator of the draws.
        block: number of weeks that stay together, as far as the log's end allows; after the last week comes the first.
    """
    week, weeks = weeks_of(log)
    whole, slots = int(weeks), int(np.ceil(weeks))
    begins = rng.integers(whole, size=-(-slots // block))
    drawn = ((begins[:, None] + np.arange(block)) % whole).ravel()[:slots]
    cases = rows_by(week, slots)
    taken = [cases[source] for source in drawn]
    if slots > whole:  # the last slot is a part of a week, and so is what comes into it
        first = np.full(len(log.cases), np.inf)
        np.minimum.at(first, log.case, log.clock_start)
        begin = _DAY * (first.min() // _DAY) + _WEEK * drawn[-1]
        taken[-1] = taken[-1][first[taken[-1]] < begin + _WEEK * (weeks - whole)]
    later = _WEEK * np.repeat(np.arange(slots) - drawn, [len(of) for of in taken])
    return cases_of(log, np.concatenate(taken), later)


def cases_of(log: EventLog, taken: np.ndarray, later: np.ndarray) -> EventLog:
    """Return the log of some cases, int64[k], each by so many seconds later, float64[k]; a case may come repeatedly."""
    rows = rows_by(log.case, len(log.cases))
    events = np.concatenate([rows[case] for case in taken])
    case = np.repeat(np.arange(len(taken)), [len(rows[case]) for case in taken])
    order = np.lexsort((events, log.end[events] + later[case], log.start[events] + later[case]))
    events, case = events[order], case[order]
    by = later[case]
    activities, resources = compact(Coded(list(log.activities), log.activity[events])), log.resource[events]
    people = compact(Coded(list(log.resources), resources))
    return replace(
        log,
        cases=tuple(f"{log.cases[c]} ({k})" for k, c in enumerate(taken)),
        case=case,
        activities=tuple(activities.values),
        activity=activities.code,
        resources=tuple(people.values),
        resource=people.code,
        start=log.start[events] + by,
        end=log.end[events] + by,
        clock_start=log.clock_start[events] + by,
        clock_end=log.clock_end[events] + by,
        pauses=_pauses(log.pauses, events, by, len(log), _numbers(log.resources, people.values)),
        classes=log.classes.with_cases(log.classes.of_case[taken]) if log.classes else None,
        column=log.column.with_cases(taken) if log.column else None,
    )


def _numbers(names: tuple[str, ...], kept: list[str]) -> np.ndarray:
    """Return int64[names + 1], the new number of each name, -1 for one that is gone and for the number -1."""
    place = {name: i for i, name in enumerate(kept)}
    return np.array([*(place.get(name, -1) for name in names), -1])


def _pauses(pauses: Pauses, events: np.ndarray, later: np.ndarray, count: int, people: np.ndarray) -> Pauses:
    """Return the suspensions of the new events: ``events`` are their old numbers, of ``count``."""
    of_event = np.bincount(pauses.event, minlength=count)
    first, order = np.cumsum(of_event) - of_event, np.argsort(pauses.event, kind="stable")
    mine = of_event[events]
    event = np.repeat(np.arange(len(events)), mine)
    place = np.arange(len(event)) - np.repeat(np.cumsum(mine) - mine, mine)
    rows = order[first[events][event] + place]
    return Pauses(
        event=event,
        start=pauses.start[rows] + later[event],
        end=pauses.end[rows] + later[event],
        start_offset=pauses.start_offset[rows],
        end_offset=pauses.end_offset[rows],
        resource=people[pauses.resource[rows]],
    )
