"""Waits in a log: the whole wait before each event, and the part in which its person was free and on duty."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.case_order import CaseOrder, order_cases
from longstride.process.mining.delays.clock import delay_clock, open_time_until
from longstride.process.mining.working_hours import HOUR, find_open_hours, present_hours


class Waits(NamedTuple):
    """Times of each event in open hours, float64[n], in the order of :class:`CaseOrder`."""

    waiting: np.ndarray  # from the end of the event's predecessors to its start
    external: np.ndarray  # proven external part: from the first to the last moment with its person free and on duty
    span: np.ndarray  # from its start to its end; its suspensions count as external waiting instead


def find_waits(log: EventLog, cases: CaseOrder, weights: np.ndarray, open_hours: np.ndarray) -> Waits:
    """Return the waits of a log; an event without a resource counts as if its person were always free.

    ``weights`` is the clock of the delays, float64[168]; ``open_hours``, bool[168], are the open hours of the week.
    """
    order = cases.order
    # Real time and wall-clock time differ in logs with UTC offsets after a change to or from summer time.
    ahead = log.clock_start[order] - log.start[order]
    enabled, start = cases.enabled + ahead, log.clock_start[order]
    end = np.maximum(log.clock_end[order], start)
    first, last = enabled.copy(), start.copy()
    work, resources = log.stretches(), len(log.resources)
    clock_end = np.maximum(work.clock_end, work.clock_start)
    in_order, worked = rows_by(log.resource[order], resources), rows_by(work.resource, resources)
    for mine, records in zip(in_order, worked, strict=True):
        if len(mine):
            free = free_times(work.clock_start[records], clock_end[records], open_hours)
            first[mine], last[mine] = free_between(free, enabled[mine], start[mine])
    o_enabled, o_start, o_end, o_first, o_last = (
        open_time_until(weights, t) for t in (enabled, start, end, first, last)
    )
    if log.only_dates:  # no moment is known to be free
        o_first = o_last
    waiting, span = np.maximum(o_start - o_enabled, 0.0), np.maximum(o_end - o_start, 0.0)
    external, paused = np.clip(o_last - o_first, 0.0, waiting), np.zeros(len(log))
    if len(log.pauses.event):
        open_work = open_time_until(weights, clock_end) - open_time_until(weights, work.clock_start)
        paused = np.maximum(span - work.total(open_work, len(log))[order], 0.0)
    return Waits(waiting + paused, external + paused, span - paused)


def proven_of_waits(log: EventLog) -> np.ndarray:
    """Return float64[n], the part of the wait before each event of a log in which its person was free and on duty."""
    cases = order_cases(log)
    waits = find_waits(log, cases, delay_clock(log), find_open_hours(log))
    proven = np.zeros(len(log))
    proven[cases.order] = waits.external / np.maximum(waits.waiting, 1e-12)
    return proven


def ready_times(log: EventLog, cases: CaseOrder) -> np.ndarray:
    """Return float64[n], when the predecessors of each event of a log ended, in seconds; NaN if it has none."""
    ready = np.full(len(log), np.nan)
    ready[cases.order] = np.where([len(after) > 0 for after in cases.after], cases.enabled, np.nan)
    return np.asarray(ready + (log.clock_start - log.start))


def hours_of_waiting(ready: np.ndarray, start: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return int64[*], the hours at whose end one resource is free although a task has waited for it for half an hour.

    Hours are counted from time 0. Its tasks wait from ``ready`` to ``start``, float64[n] seconds; those without
    a known time, NaN, do not count. Its records are open from ``begin`` to ``end``, float64[k].
    """
    known, count = np.isfinite(ready), int(max(start.max(), end.max()) // HOUR) + 2

    def within(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        some = last > first
        change = np.bincount(first[some], minlength=count) - np.bincount(last[some], minlength=count)
        return np.asarray(np.cumsum(change) > 0)

    since = np.maximum(np.ceil(ready[known] / HOUR - 0.5), 0.0).astype(np.int64)
    waiting = within(since, (start[known] // HOUR).astype(np.int64))
    busy = within((begin // HOUR).astype(np.int64), (end // HOUR).astype(np.int64))
    return np.flatnonzero(waiting & ~busy)


def free_times(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return float64[k, 2], the intervals in which one resource is on duty and has no record open, in seconds.

    A daily break is not duty: otherwise no wait over noon would be waiting for people.
    """
    first_hour, present = present_hours(start, end, open_hours, breaks=True)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], present.astype(np.int64), [0]]))).reshape(-1, 2)
    return outside_of_work((edges + first_hour) * HOUR, start, end)


def outside_of_work(duty: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return float64[k, 2], the times of ``duty``, ordered intervals, in which none of the records is open.

    ``start`` and ``end``, float64[n] seconds, belong to the records.
    """
    if len(duty) == 0:
        return duty
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.append(True, start[1:] > until[:-1]))
    busy = np.stack([start[begins], until[np.append(begins[1:], len(until)) - 1]], 1)
    # Free time lies between neighbouring busy intervals and within duty.
    times = np.unique(np.concatenate([duty.ravel(), busy.ravel()]))
    middle = (times[1:] + times[:-1]) / 2
    on = _inside(duty, middle) & ~_inside(busy, middle)
    return np.stack([times[:-1][on], times[1:][on]], 1)


def _inside(intervals: np.ndarray, times: np.ndarray) -> np.ndarray:
    k = np.searchsorted(intervals[:, 0], times, side="right") - 1
    return np.asarray((k >= 0) & (times < intervals[np.maximum(k, 0), 1]))


def free_between(free: np.ndarray, enabled: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last moment within each [enabled, start] that lies in a free interval.

    Both are ``start`` if there is none.
    """
    if len(free) == 0:
        return start.copy(), start.copy()
    i = np.searchsorted(free[:, 1], enabled, side="right")
    j = np.searchsorted(free[:, 0], start, side="left") - 1
    first = np.maximum(enabled, free[np.minimum(i, len(free) - 1), 0])
    last = np.minimum(start, free[np.maximum(j, 0), 1])
    none = (i > j) | (first >= last)
    return np.where(none, start, first), np.where(none, start, last)
