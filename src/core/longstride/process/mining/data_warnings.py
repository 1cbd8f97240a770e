"""Warnings about data of a log that do not support conclusions about people, activities or times."""

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import pairs_of
from longstride.process.event_logs.pauses import Stretches
from longstride.text import agreeing

FEWEST_CASES = 20
"""Fewest cases for a warning about people in one case only."""

CUSTOMER_SHARE = 0.1
"""Share of people in one case only from which the warning is given."""

FEWEST_EVENTS = 20
"""Fewest events for a warning about the times of an activity."""

CLICKING = 10.0
"""Seconds; an activity with a shorter median is clicked through."""

TIMES_AS_FAST = 10.0
FEW_RECORDS = 100
"""Factor by which a person is faster than others, and number of records below which the warning is given."""

LEAST_RECORDS = 3
"""Fewest records for a person's speed."""

OPEN_AT_ONCE = 3.0
"""Mean number of open records, while a resource has any, from which it looks like a team."""

FEWEST_OF_GIANT, GIANT_SHARE = 1_000, 0.5
"""Number of events of one case, and its share of the log, above which it is probably no case."""

MANY_ACTIVITIES, EVENTS_EACH = 50, 5
"""Number of activities above which, and events per activity below which, the column may not hold activities."""

MOST_ACTIVITIES = 1_000
"""Number of activities above which the column may not hold activities, however many events there are."""


def data_warnings(log: EventLog) -> list[str]:
    """Return a sentence for each kind of problem in the data of a log."""
    work = log.stretches()
    durations = work.total(work.end - work.start, len(log))
    found = [
        giant_case(log),
        too_many_activities(log),
        _automatic(log, durations),
        _customers(log),
        _teams(log, work),
    ]
    if not log.starts_estimated:
        found += [_clicked_through(log, durations), _too_fast(log, durations)]
    return [f"Warning: {sentence}" for sentence in found if sentence]


def giant_case(log: EventLog) -> str:
    """Name a case that holds most of the events."""
    events = np.bincount(log.case)
    most = int(events.max())
    if most <= max(FEWEST_OF_GIANT, GIANT_SHARE * len(log)):
        return ""
    return (
        f"case {log.cases[int(events.argmax())]!r} holds {most:,} of {len(log):,} events, so it is probably a default "
        "id and no case; leave its rows out, or name the column of cases with --log-columns case=..."
    )


def too_many_activities(log: EventLog) -> str:
    """Name a number of activities that makes free text likely, and mining and training slow."""
    count = len(log.activities)
    if count <= MANY_ACTIVITIES or (len(log) >= EVENTS_EACH * count and count <= MOST_ACTIVITIES):
        return ""
    slow = ". Mining then takes minutes, and training far longer" if count > MOST_ACTIVITIES else ""
    return (
        f"{len(log):,} events have {count:,} different activities, so the column of activities may hold free text or "
        f"numbers{slow}; name another column with --log-columns activity=..."
    )


def _automatic(log: EventLog, durations: np.ndarray) -> str:
    """Name the activities that never take time and never name a person."""
    count = len(log.activities)
    events = np.bincount(log.activity, minlength=count)
    takes_time = np.bincount(log.activity, durations > 0, count)
    has_person = np.bincount(log.activity, log.resource >= 0, count)
    automatic = np.flatnonzero((events > 0) & (takes_time == 0) & (has_person == 0))
    instant = np.flatnonzero((events > 0) & (takes_time == 0) & (has_person > 0))
    parts = []
    if len(automatic):
        verbs, kind = ("takes", "names"), "an automatic activity"
        if len(automatic) > 1:
            verbs, kind = ("take", "name"), "automatic activities"
        named = _some(log.activities, automatic)
        parts.append(f"{named} {verbs[0]} no time and {verbs[1]} no person in any event: {kind}")
    if len(instant):
        verb = "takes" if len(instant) == 1 else "take"
        parts.append(f"{_some(log.activities, instant)} {verb} no time in any event although people are named")
    return f"{', and '.join(parts)}." if parts else ""


def _customers(log: EventLog) -> str:
    """Name the people who occur in one case only: they are customers, not staff."""
    named = log.resource >= 0
    pairs = np.unique(log.resource[named] * len(log.cases) + log.case[named])
    cases = np.bincount(pairs // len(log.cases), minlength=len(log.resources))
    once = np.flatnonzero(cases == 1)
    if len(log.cases) < FEWEST_CASES or len(once) < max(2, CUSTOMER_SHARE * len(log.resources)):
        return ""
    some = agreeing(len(once), len(log.resources), "person", "occurs", "occur", "people")
    return (
        f"{some} in one case only ({_some(log.resources, once)}). They may be customers, and work cannot be allocated "
        "to customers."
    )


def _teams(log: EventLog, work: Stretches) -> str:
    """Name the resources that look like several people."""
    durations, resource = work.end - work.start, work.resource
    order = np.lexsort((work.start, resource))
    order = order[(resource[order] >= 0) & (durations[order] > 0)]
    count = len(log.resources)
    events = np.bincount(resource[order], minlength=count)
    total = np.bincount(resource[order], durations[order], count)
    busy = np.zeros(count)
    for mine in np.split(order, np.flatnonzero(np.diff(resource[order])) + 1):
        if len(mine):
            latest = np.maximum.accumulate(work.end[mine])
            begin = np.maximum(work.start[mine][1:], latest[:-1])
            busy[resource[mine[0]]] = durations[mine[0]] + np.maximum(work.end[mine][1:] - begin, 0.0).sum()
    at_once = np.divide(total, busy, out=np.zeros(count), where=busy > 0)
    teams = np.flatnonzero((events >= FEWEST_EVENTS) & (at_once >= OPEN_AT_ONCE))
    if not len(teams):
        return ""
    shown = ", ".join(f"{log.resources[r]} {at_once[r]:.1f}" for r in teams[:3])
    return (
        f"{agreeing(len(teams), count, 'person', 'has', 'have', 'people')} several records open at once, on average: "
        f"{shown}{' and others' if len(teams) > 3 else ''}. Such a name may be a team, or open work before doing it."
    )


def _clicked_through(log: EventLog, durations: np.ndarray) -> str:
    """Name the activities whose events last for seconds."""
    found = []
    for a, mine in _by(log.activity):
        some = durations[mine][durations[mine] > 0]
        if len(some) >= FEWEST_EVENTS and np.median(some) < CLICKING:
            found.append(a)
    if not found:
        return ""
    return (
        f"half of the events of {_some(log.activities, np.array(found))} last less than {CLICKING:.0f} seconds, so "
        "their records may be clicked through after the work, and their service times are too short."
    )


def _too_fast(log: EventLog, durations: np.ndarray) -> str:
    """Name the people who are many times as fast as others in an activity, based on few records."""
    named = log.resource >= 0
    pairs = pairs_of(log.activity, log.resource, len(log.resources))
    count = pairs.events
    key = log.activity[named].astype(np.int64) * len(log.resources) + log.resource[named]
    total = np.bincount(np.unique(key, return_inverse=True)[1], durations[named], len(count))
    of_activity = np.bincount(pairs.activity, count, len(log.activities))[pairs.activity].astype(np.int64)
    others = of_activity - count
    usual = (np.bincount(pairs.activity, total, len(log.activities))[pairs.activity] - total) / np.maximum(others, 1)
    few = (count >= LEAST_RECORDS) & (count < FEW_RECORDS) & (others >= FEWEST_EVENTS)
    fast = few & (total > 0) & (TIMES_AS_FAST * total <= usual * count)
    found = [
        f"{log.resources[r]} ({log.activities[a]}, {events} records)"
        for a, r, events in zip(*pairs.taken(fast), strict=True)
    ]
    if not found:
        return ""
    shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return f"some are ten times as fast as others on few records, which does not prove that they are fast: {shown}."


def _by(column: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return each value of int64[n] with its rows, int64."""
    order = np.argsort(column, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
    return [(int(column[rows[0]]), rows) for rows in groups if len(rows)]


def _some(names: tuple[str, ...], which: np.ndarray) -> str:
    shown = ", ".join(names[i] for i in which[:3])
    return shown + (f" and {len(which) - 3:,} more" if len(which) > 3 else "")
