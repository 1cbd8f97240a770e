"""Rosters of a log: on which days a person is there, and at which hours. Presence is not availability.

A person who has nothing to do leaves no record. So what the records show of a day is a part of it, and ``widening``
says how much of the rest is taken to be duty as well: 0 for none, 1 for every hour at which the person is ever seen.
"""

from typing import Any

import numpy as np

from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.event_logs.working_hours import CLOSED_GAP, HOUR, present_hours, without_short_gaps
from core.simulators.process.scenario import DAYS

_RARE = 0.1
"""Share of a weekday's days with the person, from which an hour belongs to the widest plan."""

_NEVER = 1e-6
_P_DECIMALS = 9


def mine_rosters(log: EventLog, open_hours: np.ndarray, widening: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rosters of all resources of a log; plans are the logged days, and the widest plan of each weekday.

    ``open_hours``, bool[168], are the open hours of the week.
    """
    begin, end = log.clock_start.min() // (24 * HOUR), log.clock_end.max() // (24 * HOUR)
    days = np.bincount(np.arange(int(begin), int(end) + 1) % 7, minlength=7)
    rosters = {}
    for r, name in enumerate(log.resources):
        mine = log.resource == r
        plans: list[dict[str, Any]] = []
        masks = day_masks(log.clock_start[mine], np.maximum(log.clock_end, log.clock_start)[mine], open_hours)
        usual = _usual_days(masks, days)
        for weekday, day in enumerate(DAYS):
            seen = masks[masks[:, 0] % 7 == weekday, 1:].astype(np.bool_)
            if len(seen):
                widest = without_short_gaps(seen.mean(0) >= _RARE, CLOSED_GAP)
                plans += _plans_of_day(day, seen, widest, int(days[weekday]), widening if usual[weekday] else 0.0)
        rosters[name] = plans
    return rosters


def day_masks(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return int64[days, 25], the days with records of one resource: number of the day, then its 24 hours."""
    first_hour, present = present_hours(start, end, open_hours)
    present = np.concatenate([np.zeros(first_hour % 24, np.bool_), present])
    present = np.pad(present, (0, -len(present) % 24)).reshape(-1, 24)
    number = first_hour // 24 + np.arange(len(present))
    filled = np.array([without_short_gaps(day, CLOSED_GAP) for day in present])
    return np.column_stack([number, filled])[filled.any(1)].astype(np.int64)


def _usual_days(masks: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Return bool[7], the weekdays on which a person is there at least at times: only these are widened.

    They are at least a quarter as frequent as the person's most frequent one, and at least a tenth of the log's
    ``days``, int64[7].
    """
    counts = np.bincount(masks[:, 0] % 7, minlength=7)
    return np.asarray((counts >= 0.25 * counts.max(initial=1)) & (counts >= _RARE * days))


def _plans_of_day(day: str, seen: np.ndarray, widest: np.ndarray, days: int, widening: float) -> list[dict[str, Any]]:
    """Return the plans of one weekday: the days ``seen``, bool[k, 24], of ``days`` in all, and the widest one.

    A person seen on k of n days is there on k / n of them, or (k + 1/2) / (n + 1) if that is more (Jeffreys' prior):
    one Sunday of twenty does not mean that it is never two, and who is there without work leaves no record.
    """
    plans: dict[tuple[str, ...], float] = {}
    k, n = len(seen), max(days, len(seen))
    present = max(k / n, (k + 0.5) / (n + 1))
    for mask in seen:
        hours = stretches(mask)
        plans[hours] = plans.get(hours, 0.0) + (1.0 - widening) * present / k
    hours = stretches(widest)
    plans[hours] = plans.get(hours, 0.0) + widening
    return [
        {"days": [day], "p": round(min(p, 1.0), _P_DECIMALS), "hours": list(hours)}
        for hours, p in plans.items()
        if p > _NEVER and hours
    ]


def stretches(mask: np.ndarray) -> tuple[str, ...]:
    """Return the stretches of bool[24] hours, like 09:00-17:00."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int64), [0]]))).reshape(-1, 2)
    return tuple(f"{a:02d}:00-{b:02d}:00" for a, b in edges.tolist())
