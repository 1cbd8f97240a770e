"""Which events of a case come before which: a partial order, because activities of a case may overlap."""

from typing import NamedTuple

import numpy as np

from core.simulators.process.event_logs.event_log import EventLog

MIN_OVERLAPS = 0.25
"""Share of the meetings of two activities at which they overlap, from which they are concurrent."""

_TOLERANCE = 0.05
"""Share of an event that may overlap with the next one, which still follows it."""


class CaseOrder(NamedTuple):
    """The events of a log by case and start, and what each waits for.

    Event i of ``order`` begins after the events ``after[i]``, places in ``order``; none for a case's first ones.
    """

    order: np.ndarray  # int64[n], events by case, start and end
    first: np.ndarray  # int64[cases + 1], first place of each case
    after: list[list[int]]  # of each place, the places of the events before it that nothing else lies between
    enabled: np.ndarray  # float64[n], seconds of real time at which the last of these ended; the case's first start


def order_cases(log: EventLog) -> CaseOrder:
    """Return the order of all events."""
    order = np.lexsort((np.arange(len(log)), log.end, log.start, log.case))
    first = np.searchsorted(log.case[order], np.arange(len(log.cases) + 1))
    start, end, activity = log.start[order], log.end[order], log.activity[order]
    concurrent = concurrent_activities(log, order)
    after: list[list[int]] = []
    for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        after += [[a + i for i in before] for before in _before(start[a:b], end[a:b], activity[a:b], concurrent)]
    begin = start[first[np.searchsorted(first, np.arange(len(order)), side="right") - 1]]
    enabled = np.array([end[before].max() if before else begin[i] for i, before in enumerate(after)])
    return CaseOrder(order, first, after, np.minimum(np.maximum(enabled, begin), start))


def concurrent_activities(log: EventLog, order: np.ndarray) -> np.ndarray:
    """Return bool[A, A], pairs of different activities that overlap at a good part of their meetings.

    Two events of a case meet if one follows the other in the order of starts.
    """
    case, activity = log.case[order], log.activity[order]
    start, end = log.start[order], log.end[order]
    same = case[1:] == case[:-1]
    overlap = _overlaps(start[:-1], end[:-1], start[1:]) & same
    met, overlapped = (np.zeros((len(log.activities),) * 2) for _ in range(2))
    np.add.at(met, (activity[:-1][same], activity[1:][same]), 1)
    np.add.at(overlapped, (activity[:-1][overlap], activity[1:][overlap]), 1)
    met, overlapped = met + met.T, overlapped + overlapped.T
    np.fill_diagonal(overlapped, 0)
    return np.asarray((overlapped > 0) & (overlapped >= MIN_OVERLAPS * met))


def _overlaps(start: np.ndarray, end: np.ndarray, next_start: np.ndarray) -> np.ndarray:
    """Return whether events overlap those that begin after them by more than a trifle."""
    return np.asarray(end - next_start > _TOLERANCE * (end - start))


def _before(start: np.ndarray, end: np.ndarray, activity: np.ndarray, concurrent: np.ndarray) -> list[list[int]]:
    """Return the events before each event of a case, without those that lie before another of them."""
    k = len(start)
    chain = not _overlaps(start[:-1], end[:-1], start[1:]).any()
    if chain and not concurrent[np.ix_(activity, activity)].any():
        return [[i - 1] if i else [] for i in range(k)]
    precedes = ~_overlaps(start[:, None], end[:, None], start[None])
    precedes &= np.tri(k, k, -1, dtype=bool).T & ~concurrent[np.ix_(activity, activity)]
    result: list[list[int]] = []
    ancestors = np.zeros((k, k), np.bool_)
    for j in range(k):
        before = np.flatnonzero(precedes[:, j])
        direct = [int(i) for i in before if not ancestors[i, before].any()]
        result.append(direct)
        if direct:
            ancestors[:, j] = ancestors[:, direct].any(1)
            ancestors[direct, j] = True
    return result
