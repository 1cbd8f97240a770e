"""The order of the events of a case: a partial order, because activities of a case may overlap."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.event_log import EventLog

MIN_OVERLAPS = 0.25
"""Share of overlapping meetings from which two activities are concurrent."""

_TOLERANCE = 0.05
"""Share of an event that may overlap with the next event without making them concurrent."""


MOST_OVERLAPPING = 100_000
"""Most overlapping events of one case: a bit for each pair of events takes 0.6 GB."""

MOST_LINKS = 5_000_000
"""Most pairs of an event and an event that it waits for, in one case."""


class CaseOrder(NamedTuple):
    """The events of a log by case and start, with the events that each waits for.

    Event i of ``order`` begins after the events ``after[i]``, indices in ``order``; a case's first events have none.
    """

    order: np.ndarray  # int64[n], events by case, start and end
    first: np.ndarray  # int64[cases + 1], first index of each case
    after: list[list[int]]  # direct predecessors of each event, as indices in ``order``
    enabled: np.ndarray  # float64[n], real seconds, last end of the predecessors; the case's first start without any


def order_cases(log: EventLog) -> CaseOrder:
    """Return the order of all events.

    Raises:
        UserError: a case has too many overlapping events, or its events wait for too many others.
    """
    order = np.lexsort((np.arange(len(log)), log.end, log.start, log.case))
    first = np.searchsorted(log.case[order], np.arange(len(log.cases) + 1))
    start, end, activity = log.start[order], log.end[order], log.activity[order]
    concurrent = Concurrency(log, order)
    after: list[list[int]] = []
    for c, (a, b) in enumerate(pairwise(first.tolist())):
        of_case = _Case(start[a:b], end[a:b], activity[a:b])
        after += [[a + i for i in before] for before in _before(of_case, concurrent, f"case {log.cases[c]}")]
    begin = start[first[np.searchsorted(first, np.arange(len(order)), side="right") - 1]]
    enabled = np.array([end[before].max() if before else begin[i] for i, before in enumerate(after)])
    return CaseOrder(order, first, after, np.minimum(np.maximum(enabled, begin), start))


class Concurrency:
    """Pairs of different activities that overlap in a large share of their meetings.

    Two events of a case meet if one follows the other in the order of starts. So a log of n events has fewer than n
    meetings, for any number of activities.

    Args:
        log: event log.
        order: its events by case and start, int64[n].

    Attributes:
        others: activity -> the activities that are concurrent with it, if there are any.
    """

    def __init__(self, log: EventLog, order: np.ndarray) -> None:
        case, activity = log.case[order], log.activity[order]
        start, end = log.start[order], log.end[order]
        same = case[1:] == case[:-1]
        overlap = _overlaps(start[:-1], end[:-1], start[1:]) & same
        low = np.minimum(activity[1:], activity[:-1]).astype(np.int64)
        high = np.maximum(activity[1:], activity[:-1]).astype(np.int64)
        key = low * len(log.activities) + high
        met, times = np.unique(key[same], return_counts=True)
        overlapped = np.bincount(np.searchsorted(met, key[overlap]), minlength=len(met))
        low, high = np.divmod(met, len(log.activities))
        found = (overlapped > 0) & (overlapped >= MIN_OVERLAPS * times) & (low != high)
        self.others: dict[int, set[int]] = {}
        for a, b in zip(low[found].tolist(), high[found].tolist(), strict=True):
            self.others.setdefault(a, set()).add(b)
            self.others.setdefault(b, set()).add(a)

    def within(self, activities: set[int]) -> dict[int, set[int]]:
        """Return ``others`` restricted to some activities."""
        found = ((a, self.others[a] & activities) for a in activities if a in self.others)
        return {a: others for a, others in found if others}


def _overlaps(start: np.ndarray, end: np.ndarray, next_start: np.ndarray) -> np.ndarray:
    """Return bool[n], whether an event overlaps the next one by more than a negligible share."""
    return np.asarray(end - next_start > _TOLERANCE * (end - start))


class _Case(NamedTuple):
    """The k events of a case in the order of their starts."""

    start: np.ndarray  # float64[k]
    end: np.ndarray  # float64[k]
    activity: np.ndarray  # int64[k]


def _before(case: _Case, concurrent: Concurrency, name: str) -> list[list[int]]:
    """Return the direct predecessors of each event of a case."""
    k = len(case.start)
    others = concurrent.within(set(case.activity.tolist())) if concurrent.others else {}
    chain = not _overlaps(case.start[:-1], case.end[:-1], case.start[1:]).any()
    if chain and not others:
        return [[i - 1] if i else [] for i in range(k)]
    if k > MOST_OVERLAPPING:
        raise UserError(
            f"{name} has {k:,} events, some of which overlap; the order of more than {MOST_OVERLAPPING:,} in one case "
            "does not fit into memory. Name the column of cases with --log-columns case=..., or split the case."
        )
    result, links = [], 0
    for before in _direct(_first_after(case), case.activity.tolist(), others):
        links += len(before)
        if links > MOST_LINKS:
            raise UserError(
                f"{name}: its events wait for more than {MOST_LINKS:,} others in all, as if thousands began together "
                "after thousands that ended together. Name the column of cases with --log-columns case=..., or split "
                "the case."
            )
        result.append(before)
    return result


def _first_after(case: _Case) -> list[list[int]]:
    """Return for each event the earlier events of which it is the first one that does not overlap them.

    If an event does not overlap a later one, it overlaps none of the following events. So bisection, for all events at
    once, finds the first event that it does not overlap.
    """
    k = len(case.start)
    low, high = np.arange(1, k + 1), np.full(k, k)  # the first event lies in [low, high]; k means none
    while (low < high).any():
        middle = (low + high) // 2
        overlapping = _overlaps(case.start, case.end, case.start[np.minimum(middle, k - 1)])
        low, high = np.where(overlapping & (low < high), middle + 1, low), np.where(overlapping, high, middle)
    ended: list[list[int]] = [[] for _ in range(k + 1)]
    for i, place in enumerate(low.tolist()):
        ended[place].append(i)
    return ended


def _direct(ended: list[list[int]], activity: list[int], others: dict[int, set[int]]) -> Iterator[list[int]]:
    """Yield the direct predecessors of each event: those that no other predecessor waits for.

    Sets of events are bits of integers. Candidates are visited from the latest to the earliest, since an event waits
    only for earlier ones. Each chosen candidate removes all events that it waits for, so only direct ones remain.
    """
    done, of_activity = 0, dict.fromkeys(activity, 0)
    ancestors: list[int] = []
    for j, a in enumerate(activity):
        for i in ended[j]:
            done |= 1 << i
        left = done
        for other in others.get(a, ()):
            left &= ~of_activity[other]
        direct, mine = [], 0
        while left:
            i = left.bit_length() - 1
            direct.append(i)
            of_i = ancestors[i] | (1 << i)
            mine |= of_i
            left &= ~of_i
        ancestors.append(mine)
        of_activity[a] |= 1 << j
        yield direct[::-1]
