"""Resources that are no person: systems that work around the clock; and people who change jobs, who become two."""

from dataclasses import replace
from datetime import timedelta

import numpy as np

from longstride.process.event_logs.event_log import NO_RESOURCE, EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.mine_services import some
from longstride.process.mining.working_hours import HOUR

TIRELESS_HOURS = 20
"""Hours of a day with a start or an end that no single person can work."""

FEWEST_DAYS = 5
"""Fewest days with records for a decision about a resource."""

DAY = 24 * HOUR

_OF_A_JOB, _EVIDENCE = 50, 50.0
"""Fewest events of a job, and the gain of log-likelihood from which a person has changed it."""

_USUAL, _HARDLY = 0.2, 0.01
"""Share of a job's events that an activity has, and of the other job's, where jobs differ."""


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


def split_jobs(log: EventLog) -> tuple[EventLog, list[str]]:
    """Return the log with two resources for each person who changed jobs, and notes.

    From one event on, such a person does something that was hardly done before, or no longer does what was usual. The
    events before that get the name "NAME before DATE"; today's person keeps the name.
    """
    resources, resource, changed = list(log.resources), log.resource.copy(), list[str]()
    at_once = None if log.at_once is None else dict(log.at_once)
    for r, rows in enumerate(rows_by(log.resource, len(log.resources))):
        mine = rows[np.argsort(log.clock_start[rows], kind="stable")]
        if at := _change_of_job(log.activity[mine]):
            day = log.monday + timedelta(days=float(log.clock_start[mine[at]] // DAY))
            resource[mine[:at]] = len(resources)
            resources.append(f"{log.resources[r]} before {day:%Y-%m-%d}")
            changed.append(log.resources[r])
            if at_once is not None:
                at_once[resources[-1]] = at_once.get(log.resources[r], 1)
    if not changed:
        return log, []
    pauses = log.pauses._replace(resource=resource[log.pauses.event])
    note = (
        f"Another job: {some(changed)} did other activities until a certain day, so the scenario has two people in "
        "place of each, one for each job."
    )
    return replace(log, resources=tuple(resources), resource=resource, pauses=pauses, at_once=at_once), [note]


def _change_of_job(activity: np.ndarray) -> int:
    """Return the number of the first event, of int64[n] activities in order, that belongs to a new job; 0 for none."""
    count = len(activity)
    if count < 2 * _OF_A_JOB:
        return 0
    code = np.unique(activity, return_inverse=True)[1]
    upto = np.cumsum(np.eye(int(code.max()) + 1)[code], 0)
    parts = upto[:-1], upto[-1] - upto[:-1]
    shares = [part / part.sum(1, keepdims=True) for part in parts]
    # Log-likelihoods of both parts, each with its own shares of the activities, for each place of the change.
    likely = sum((n * np.log(np.maximum(p, 1e-12))).sum(1) for n, p in zip(parts, shares, strict=True))
    alone = float((upto[-1] * np.log(upto[-1] / count)).sum())
    inner = likely[_OF_A_JOB - 1 : count - _OF_A_JOB]
    best = int(np.argmax(inner)) + _OF_A_JOB - 1
    first, second = shares[0][best], shares[1][best]
    differ = ((first >= _USUAL) & (second <= _HARDLY)) | ((second >= _USUAL) & (first <= _HARDLY))
    return best + 1 if likely[best] - alone > _EVIDENCE and differ.any() else 0
