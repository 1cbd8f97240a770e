"""Mines rosters: the days and hours at which each person is present. Presence is not availability.

A person without work leaves no record, so the records show only a part of each day. A person who is present on a day is
present at all hours at which they are usually seen on that weekday. With changing shifts these are the hours of the
shift that contains the day's records (``shifts.py``).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.delays.waits import hours_of_waiting
from longstride.process.mining.shifts import (
    begun_by_hour,
    changes_shifts,
    hours_of_taking,
    in_shifts,
    long_absences,
    quiet_hours,
    usual_days,
    usual_hours,
    weeks_of_rota,
    without_overtime,
)
from longstride.process.mining.working_hours import CLOSED_GAP, HOUR, WorkedTime, breaks_of, present_hours
from longstride.process.scenario.scenario import DAYS

_KNOWN = 0.5
"""Share of a person's events whose predecessors tell since when they wait, from which a quiet hour is no break."""

_MOST = 0.99
"""Share of the starts after which the end of a log begins."""

_P_DECIMALS = 9
_ROUNDS = 200


class Rosters(NamedTuple):
    """Duty of the people of a log."""

    plans: dict[str, list[dict[str, Any]]]  # rosters of a scenario
    in_turn: list[str]  # people with changing shifts
    rotas: dict[str, int]  # people whose hours repeat after several weeks, and how many
    absences: dict[str, list[tuple[int, int]]]  # first and last day of long absences, counted from time 0

    def of_scenario(self, names: list[str]) -> dict[str, Any]:
        """Return the keys of some people in a scenario whose time unit is hours."""
        return {
            "rosters": {name: self.plans[name] for name in names},
            "absences": [
                {"person": name, "from": 24.0 * first, "to": 24.0 * (last + 1)}
                for name in names
                for first, last in self.absences.get(name, ())
            ],
        }


def mine_rosters(
    log: EventLog, worked: WorkedTime, pause: bool, begun: np.ndarray, ready: np.ndarray | None = None
) -> Rosters:
    """Return the duty of all resources of a log.

    ``pause`` is whether tasks rest at the end of duty; ``begun``, bool[n], are the events that count as begun: one of
    each batch. ``ready``, float64[n], is when each event could begin (:func:`ready_times`), if that is known.
    """
    # The log may begin in the middle of a day, and at its end people may have no work because no more cases come. So a
    # person without records on these days may be present.
    begin, end = log.clock_start.min() // (24 * HOUR), np.quantile(log.clock_start, _MOST) // (24 * HOUR)
    every, work = np.arange(int(begin) + 1, int(end)), log.stretches()
    found = Rosters({}, [], {}, {})
    clock_end, resources = np.maximum(work.clock_end, work.clock_start), len(log.resources)
    events = zip(rows_by(log.resource, resources), rows_by(work.resource, resources), strict=True)
    for r, (name, (mine, records)) in enumerate(zip(log.resources, events, strict=True)):
        open_hours = worked.own_hours[r]
        masks = day_masks(work.clock_start[records], clock_end[records], open_hours)
        if log.only_dates:
            masks[:, 1:] = 1  # all hours of the day
        start = log.clock_start[mine[begun[mine]]]
        away = long_absences(masks[:, 0], every)
        gone = np.concatenate([every[:0], *(every[(every >= first) & (every <= last)] for first, last in away)])
        if away:
            found.absences[name] = away
        cycle = 7 * weeks_of_rota(start)
        days = np.bincount(np.setdiff1d(every, gone) % cycle, minlength=cycle)
        counted = (masks[:, 0] > begin) & (masks[:, 0] < end)
        counted |= (days[masks[:, 0] % cycle] == 0) | ~counted.any()
        of_cycle, seen = masks[:, 0] % cycle, masks[:, 1:].astype(np.bool_)
        usual, changes = usual_days(of_cycle, days), cycle == 7 and changes_shifts(start)
        if changes:
            found.in_turn.append(name)
        if cycle > 7:
            found.rotas[name] = cycle // 7
        quiet = None
        if ready is not None and np.isfinite(ready[mine]).mean() >= _KNOWN:
            waiting = hours_of_waiting(
                ready[mine], log.clock_start[mine], work.clock_start[records], clock_end[records]
            )
            quiet = quiet_hours(waiting, masks[:, 0], cycle)
        there = _hours_there(of_cycle, seen, changes, None if pause else start, cycle, quiet)
        there &= seen | ~breaks_of(open_hours).reshape(7, 24)[of_cycle % 7]
        if not pause and worked.at_once[r] == 1:
            there |= overtime_of_several(work.clock_start[records], clock_end[records], masks[:, 0], there)
        hours, idle = np.where(usual[of_cycle][:, None], there, seen), share_without_work(start)
        found.plans[name] = [
            plan
            for d in range(cycle)
            for plan in _plans_of_day(
                d, cycle, hours[counted & (of_cycle == d)], int(days[d]), idle if usual[d] else 0.0
            )
        ]
    return found


def overtime_of_several(start: np.ndarray, end: np.ndarray, days: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return bool[k, 24], the hours after duty, ``there``, in which a person still has several records open.

    A simulated person does one task after the other, and finishes only one of them after duty. So the hours in which
    two records or more are open for most of the time are duty. ``start`` and ``end``, float64[n] seconds, are those of
    the person's records, ``days``, int64[k], the days with records. A batch is one record.
    """
    several = _time_with_several(start, end)
    hours = several(HOUR * (24.0 * days[:, None] + np.arange(25)))
    busy, found = np.diff(hours, axis=1) > 0.5 * HOUR, np.zeros_like(there)
    for hour in range(1, 24):
        found[:, hour] = busy[:, hour] & ~there[:, hour] & (there | found)[:, hour - 1]
    return found


def _time_with_several(start: np.ndarray, end: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function: moment -> seconds until then in which several of a person's records are open."""
    spans = np.unique(start + 1j * end)
    times = np.unique(np.concatenate([spans.real, spans.imag]))
    begun, ended = (np.bincount(np.searchsorted(times, t), minlength=len(times)) for t in (spans.real, spans.imag))
    upto = np.append(0.0, np.cumsum(np.diff(times) * (np.cumsum(begun - ended)[:-1] > 1)))
    return lambda moments: np.interp(moments, times, upto)


def several_after_duty(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> float:
    """Return for how much of its work a person has several records open after duty, a share of the time of duty.

    ``start`` and ``end``, float64[n] seconds, are those of its records, ``open_hours``, bool[168], its open hours.
    """
    duty = on_duty(start, end, open_hours)
    several = _time_with_several(start, end)
    within = several(duty[:, 1]) - several(duty[:, 0])
    return float(several(end.max()) - within.sum()) / max(float((duty[:, 1] - duty[:, 0]).sum()), HOUR)


def day_masks(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return int64[days, 25], the days with records of one resource: number of the day, then its 24 hours."""
    first_hour, present = present_hours(start, end, open_hours)
    present = np.concatenate([np.zeros(first_hour % 24, np.bool_), present])
    present = np.pad(present, (0, -len(present) % 24)).reshape(-1, 24)
    number = first_hour // 24 + np.arange(len(present))
    seen = present.any(1)
    number, present = number[seen], present[seen]
    filled = _filled(present) & (present | ~breaks_of(open_hours).reshape(7, 24)[number % 7])
    return np.column_stack([number, filled]).astype(np.int64)


def _filled(days: np.ndarray) -> np.ndarray:
    """Return bool[k, 24], the hours of days, with short gaps filled."""
    hours = np.arange(24)
    last = np.maximum.accumulate(np.where(days, hours, -24), axis=1)
    following = np.minimum.accumulate(np.where(days, hours, 48)[:, ::-1], axis=1)[:, ::-1]
    between = (last >= 0) & (following < 24)
    return np.asarray(days | (between & (following - last - 1 <= CLOSED_GAP)))


def _hours_there(
    of_cycle: np.ndarray,
    seen: np.ndarray,
    changes: bool,
    start: np.ndarray | None,
    cycle: int,
    quiet: np.ndarray | None = None,
) -> np.ndarray:
    """Return bool[k, 24], the hours of a person's presence on each day, with changing shifts or without.

    ``start``, float64[n], are the times at which its records begin, None if tasks rest at the end of duty. If they do
    not rest, hours without a start are overtime or a break, unless they are ``quiet``, bool[cycle, 24]. Hours repeat
    after ``cycle`` days.
    """
    usual = there = usual_hours(of_cycle, seen)
    if changes:
        there &= in_shifts(seen)
        return there
    if start is not None:
        there = np.zeros_like(usual)
        for day in np.unique(of_cycle):
            of_day, of_week, week = of_cycle == day, of_cycle // 7 == day // 7, day // 7
            begun, idle = begun_by_hour(start, cycle)[week], None if quiet is None else quiet[day]
            hours = usual[of_day][0]
            if cycle > 7 and idle is not None:  # of few days of each kind, so those of the others in this week count
                hours = hours | (idle & hours_of_taking(usual[of_week].any(0), begun, idle))
            there[of_day] = without_overtime(hours, begun, idle)
    return there


def on_duty(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return float64[k, 2], intervals in which one resource is usually present, in seconds and in order.

    These are the hours of the day in which it usually begins events, on days with records, without breaks. A resource
    of few records has none. ``start`` and ``end`` are float64[n], ``open_hours`` bool[168].
    """
    days, _, taking = _presence(start, end, open_hours)
    return _intervals(days, taking)


def surely_on_duty(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return float64[k, 2], intervals in which one resource is surely present, in seconds and in order.

    They are those of :func:`on_duty` without the first and the last hour: a person may come late and leave early.
    """
    days, there, taking = _presence(start, end, open_hours)
    return _intervals(days, taking & _with_neighbours(there))


def _presence(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return int64[k], the days with records, and bool[k, 24], the hours of presence and those of beginning events."""
    masks, cycle = day_masks(start, end, open_hours), 7 * weeks_of_rota(start)
    seen, begun, days = masks[:, 1:].astype(np.bool_), begun_by_hour(start, cycle), masks[:, 0]
    there = _hours_there(days % cycle, seen, cycle == 7 and changes_shifts(start), start, cycle)
    taking = [hours_of_taking(hours, begun[day]) for hours, day in zip(there, days % cycle // 7, strict=True)]
    return days, there, np.array(taking)


def _intervals(days: np.ndarray, hours_of_day: np.ndarray) -> np.ndarray:
    """Return float64[k, 2], the intervals in seconds of the hours, bool[n, 24], of some days, int64[n]."""
    hours = (24 * days[:, None] + np.arange(24))[hours_of_day]
    if len(hours) == 0:
        return np.zeros((0, 2))
    apart = np.flatnonzero(np.diff(hours) > 1)
    return np.stack([np.append(hours[:1], hours[apart + 1]), np.append(hours[apart], hours[-1:]) + 1], 1) * HOUR


def _with_neighbours(there: np.ndarray) -> np.ndarray:
    """Return bool[k, 24], the hours of days with a neighbouring hour before and after, also across midnight."""
    all_day = there.all(1, keepdims=True)
    inner = np.zeros_like(there)
    inner[:, 1:-1] = there[:, :-2] & there[:, 1:-1] & there[:, 2:]
    return np.asarray(inner | all_day)


def share_without_work(start: np.ndarray) -> float:
    """Return the share of one resource's days of presence without work, which leave no record.

    The number of records a day is assumed to be Poisson, with unseen zeros; its mean follows from that of the days with
    records. ``start``, float64[n] seconds, are the times at which the records begin.
    """
    _, counts = np.unique(start // (24 * HOUR), return_counts=True)
    mean = seen = float(counts.mean())
    for _ in range(_ROUNDS):  # zero-truncated Poisson: seen = mean / (1 - exp(-mean)), which has one solution
        mean = seen * -math.expm1(-mean)
    return math.exp(-mean)


def _plans_of_day(day: int, cycle: int, hours: np.ndarray, days: int, idle: float) -> list[dict[str, Any]]:
    """Return the plans of a day of the cycle from the ``hours``, bool[k, 24], of those seen, of ``days`` in all.

    A person seen on k of n days is present on k / n of them, or (k + 1/2) / (n + 1) if that is more (Jeffreys' prior):
    after one Sunday of twenty, two are possible. ``idle`` is the share of the person's days without records.
    """
    plans: dict[tuple[str, ...], float] = {}
    k, n = len(hours), max(days, len(hours))
    present = min(max(k / n, (k + 0.5) / (n + 1)) / (1.0 - idle), 1.0) if k else 0.0
    for mask in hours:
        there = stretches(mask)
        plans[there] = plans.get(there, 0.0) + present / k
    of_rota = {"week": day // 7, "of": cycle // 7} if cycle > 7 else {}
    return [
        {"days": [DAYS[day % 7]], "p": round(min(p, 1.0), _P_DECIMALS), "hours": list(there), **of_rota}
        for there, p in plans.items()
        if there
    ]


def stretches(mask: np.ndarray) -> tuple[str, ...]:
    """Return the stretches of bool[24] hours, like 09:00-17:00."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int64), [0]]))).reshape(-1, 2)
    return tuple(f"{a:02d}:00-{b:02d}:00" for a, b in edges.tolist())
