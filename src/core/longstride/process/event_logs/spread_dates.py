"""Times of day for events of which only the dates are known."""

import numpy as np

from longstride.process.event_logs.pauses import Pauses
from longstride.process.event_logs.reading.records import Records

_DAY = 86_400.0
"""Seconds."""


def spread_dates(records: Records) -> Records:
    """Return records whose dates have a time of day.

    On each day the events of a person follow one another, and so do those of a case, in the order of the file. All
    events of a day are equally long, and the longest sequence of them takes 24 hours. This is a convention: it keeps
    the order and the load of each day, and no hour is known. An event that lasts for several days begins with its case
    and ends in turn. Suspensions keep their whole days.
    """
    first = np.floor((records.start + records.start_offset) / _DAY).astype(np.int64)
    last = np.floor((records.end + records.end_offset) / _DAY).astype(np.int64)
    begin, end, length = _turns(records.case.code, records.resource.code, first, last)
    return records._replace(
        start=(first + begin / _lengths(length, first)) * _DAY - records.start_offset,
        end=(last + end / _lengths(length, last)) * _DAY - records.end_offset,
        pauses=_whole_days(records.pauses),
    )


def _turns(
    case: np.ndarray, who: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[int, int]]:
    """Return the turn at which each event begins and ends on its day, and the number of turns of each day."""
    count = len(case)
    begin, end = np.zeros(count), np.zeros(count)
    length: dict[int, int] = {}
    free: dict[tuple[int, str, int], int] = {}  # next turn of a case or person on a day
    days = np.concatenate([first, last])
    for token in np.lexsort((np.arange(2 * count) % count, days)).tolist():
        event, day = token % count, int(days[token])
        ours, theirs = (day, "case", int(case[event])), (day, "person", int(who[event]))
        turn = free.get(ours, 0)
        if token < count:
            begin[event] = turn
            continue
        turn = max(turn, free.get(theirs, 0) if who[event] >= 0 else 0)
        if first[event] == last[event]:
            begin[event] = turn
        end[event] = free[ours] = free[theirs] = turn + 1
        length[day] = max(length.get(day, 1), turn + 1)
    return begin, end, length


def _lengths(length: dict[int, int], days: np.ndarray) -> np.ndarray:
    """Return float64[n], the number of turns of each day."""
    return np.array([length.get(day, 1) for day in days.tolist()], np.float64)


def _whole_days(pauses: Pauses) -> Pauses:
    """Return the suspensions without their first and last days."""
    begin = (np.floor((pauses.start + pauses.start_offset) / _DAY) + 1) * _DAY - pauses.start_offset
    end = np.floor((pauses.end + pauses.end_offset) / _DAY) * _DAY - pauses.end_offset
    return Pauses(*(column[end > begin] for column in pauses._replace(start=begin, end=end)))
