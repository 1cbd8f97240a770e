"""The order of the events of a log, which is the same for any order of its rows."""

import numpy as np

from longstride.process.event_logs.reading.records import Records

_MOSTLY = 0.9
"""Share of the steps between successive rows of a case that go one way, from which the file is in that order."""


def in_order(records: Records, only_dates: bool) -> Records:
    """Return the events by start, end, case, and then as the file tells which came first.

    In a log without hours the file tells more than the names of the cases.
    """
    names = [column.alphabetical() for column in (records.resource, records.activity)]
    case, told = records.case.alphabetical(), _told_by_the_file(records)
    ties = (case, told) if only_dates else (told, case)
    return records.taken(np.lexsort((*names, *ties, records.end, records.start)))


def _told_by_the_file(records: Records) -> np.ndarray:
    """Return int64[n], a place of each event: its row, counted from the end in a file with the newest events first.

    A file that is in no order of time says nothing about events of one moment, and all places are 0.
    """
    rows = np.lexsort((records.number, records.case.code))
    same = np.diff(records.case.code[rows]) == 0
    steps = np.concatenate([np.diff(time[rows])[same] for time in (records.start, records.end)])
    forward, backward = int((steps > 0).sum()), int((steps < 0).sum())
    if forward >= _MOSTLY * (forward + backward):
        return records.number
    return -records.number if backward >= _MOSTLY * (forward + backward) else np.zeros_like(records.number)
