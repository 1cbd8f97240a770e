"""Resources that work around the clock: systems, to which work cannot be allocated."""

from dataclasses import replace

import numpy as np

from longstride.process.event_logs.event_log import NO_RESOURCE, EventLog
from longstride.process.mining.working_hours import HOUR

TIRELESS_HOURS = 20
"""Hours of a day with a start or an end that no single person can work."""

FEWEST_DAYS = 5
"""Fewest days with records for a decision about a resource."""

DAY = 24 * HOUR


def tireless(log: EventLog) -> np.ndarray:
    """Return bool[R], resources that start or end something in at least 20 different hours on most of their days.

    Hours between a start and its end do not count: a record may stay open over a night. A log without hours shows none.
    """
    if log.only_dates:
        return np.zeros(len(log.resources), np.bool_)
    named = log.resource >= 0
    who = np.tile(log.resource[named], 2).astype(np.int64)
    times = np.concatenate([log.clock_start[named], log.clock_end[named]])
    days = int(times.max(initial=0.0) // DAY) + 1
    hours = np.unique(who * days * 24 + (times // HOUR).astype(np.int64))
    of_day, count = np.unique(hours // 24, return_counts=True)
    seen = np.bincount(of_day // days, minlength=len(log.resources))
    long = np.bincount(of_day // days, count >= TIRELESS_HOURS, len(log.resources))
    return (seen >= FEWEST_DAYS) & (long > seen / 2)


def without_machines(log: EventLog) -> tuple[EventLog, np.ndarray, list[str]]:
    """Return the log without tireless resources, bool[A], the activities that only they do, and notes.

    Their events then have no resource. If all resources are tireless, they are teams that work in shifts, and stay.
    """
    machines = tireless(log)
    nothing = np.zeros(len(log.activities), np.bool_)
    if not machines.any() or machines.all():
        return log, nothing, []
    theirs = (log.resource >= 0) & machines[log.resource]
    people = np.bincount(log.activity[(log.resource >= 0) & ~theirs], minlength=len(nothing))
    alone = (np.bincount(log.activity[theirs], minlength=len(nothing)) > 0) & (people == 0)
    names = [name for name, machine in zip(log.resources, machines, strict=True) if machine]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    note = (
        f"Not a person: {shown}, with records in at least {TIRELESS_HOURS} hours of most days; activities that no "
        "person does are automatic."
    )
    index = np.append(np.where(machines, NO_RESOURCE, np.cumsum(~machines) - 1), NO_RESOURCE)
    left = tuple(name for name, machine in zip(log.resources, machines, strict=True) if not machine)
    pauses = log.pauses._replace(resource=index[log.pauses.resource])
    return replace(log, resources=left, resource=index[log.resource], pauses=pauses), alone, [note]
