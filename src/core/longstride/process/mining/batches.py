"""Batches in a log: one person begins and ends an activity of several cases together, as a driver takes parcels."""

from typing import Any, NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.case_order import CaseOrder, order_cases
from longstride.process.mining.working_hours import HOUR

_USUAL = 0.5
"""Share of an activity's batches that have the most frequent size, from which that size lets a batch begin."""

_FEWEST = 20
"""Fewest batches of an activity."""

_WITHIN = 0.95
"""Share of full batches that must gather within the longest time that smaller ones show."""

_DIGITS = 6


class Batches(NamedTuple):
    """The batches of a log with n events and A activities."""

    size: np.ndarray  # int64[A], tasks of a full batch, 1 for an activity without batches
    longest: np.ndarray  # float64[A], hours that the first task waits at most, infinity without such a limit
    group: np.ndarray  # int64[n], number of each event's batch, the same for events of one batch

    def whole(self, log: EventLog, hours: np.ndarray) -> np.ndarray:
        """Return float64[n], the hours of each event, in an activity with batches those of the whole batch."""
        batched = self.size[log.activity] > 1
        return np.where(batched, np.bincount(self.group, hours)[self.group], hours)

    def begun(self, log: EventLog) -> np.ndarray:
        """Return bool[n], the events without those that begin together with another one of their batch."""
        begun = self.size[log.activity] == 1
        begun[np.unique(self.group, return_index=True)[1]] = True
        return np.asarray(begun)

    def ready(self, log: EventLog, cases: CaseOrder) -> CaseOrder:
        """Return the order of events with the moments at which their batches were ready in place of their own."""
        activity, group = log.activity[cases.order], self.group[cases.order]
        first, last = _first_and_last(group, cases.enabled)
        full = np.bincount(group)[group] >= self.size[activity]
        ready = np.where(full, last[group], np.minimum(first[group] + self.longest[activity] * HOUR, log.end.max()))
        ready = np.clip(ready, cases.enabled, log.start[cases.order])
        return cases._replace(enabled=np.where(self.size[activity] > 1, ready, cases.enabled))

    def keys(self, log: EventLog) -> dict[str, Any]:
        """Return the keys of a scenario about batches."""
        found = []
        for a in np.flatnonzero(self.size > 1):
            batch = {"activity": log.activities[a], "size": int(self.size[a])}
            limit = float(self.longest[a])
            found.append(batch | ({"longest": float(f"{limit:.{_DIGITS}g}")} if np.isfinite(limit) else {}))
        return {"batches": found} if found else {}

    def notes(self, log: EventLog) -> list[str]:
        """Return a sentence about each activity with batches."""
        return [
            f"Batches: a person does {self.size[a]} tasks of {log.activities[a]} at a time"
            + (f", or fewer after the first has waited {self.longest[a]:.3g} h." if self.longest[a] < np.inf else ".")
            for a in np.flatnonzero(self.size > 1)
        ]


def find_batches(log: EventLog) -> Batches:
    """Return the batches of a log: events of one activity and person with equal start and end.

    An activity is done in batches if most of them have the same size. If its smaller batches begin only after their
    first task has waited for longer than nearly all full ones, that is the longest time.
    """
    rows = np.column_stack([log.activity, log.resource])
    same = np.lexsort((log.end, log.start, log.resource, log.activity))
    new = np.append(True, (np.diff(rows[same], axis=0) != 0).any(1) | (np.diff(log.start[same]) != 0))
    new[1:] |= np.diff(log.end[same]) != 0
    group = np.empty(len(log), np.int64)
    group[same] = np.cumsum(new) - 1
    sizes, of_group = np.bincount(group), log.activity[same[new]]
    named = (log.resource[same[new]] >= 0) & (log.end[same[new]] > log.start[same[new]])
    size = np.ones(len(log.activities), np.int64)
    longest = np.full(len(log.activities), np.inf)
    for a in np.unique(of_group[named & (sizes > 1)]):
        mine = sizes[named & (of_group == a)]
        counts = np.bincount(mine)
        if counts.argmax() > 1 and len(mine) >= _FEWEST and counts.max() >= _USUAL * len(mine):
            size[a] = counts.argmax()
    if (size > 1).any():
        longest = _longest(log, order_cases(log), group, size)
    return Batches(size, longest, group)


def _longest(log: EventLog, cases: CaseOrder, group: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return float64[A], the longest time in hours that the first task of a batch waits, infinity if there is none."""
    of_event = group[cases.order]
    first, last = _first_and_last(of_event, cases.enabled)
    start, count = np.zeros(len(first)), np.bincount(of_event)
    start[of_event] = log.start[cases.order]
    activity = np.zeros(len(first), np.int64)
    activity[of_event] = log.activity[cases.order]
    longest = np.full(len(size), np.inf)
    for a in np.flatnonzero(size > 1):
        mine = activity == a
        full, small = mine & (count >= size[a]), mine & (count < size[a])
        if small.any():
            limit = (start - first)[small].min() / HOUR
            if limit > 0.0 and ((last - first)[full] <= limit * HOUR).mean() >= _WITHIN:
                longest[a] = limit
    return longest


def _first_and_last(group: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the earliest and the latest time of each group, float64[groups] each."""
    first, last = np.full(int(group.max()) + 1, np.inf), np.full(int(group.max()) + 1, -np.inf)
    np.minimum.at(first, group, times)
    np.maximum.at(last, group, times)
    return first, last
