"""Where the time of logged cases goes, by hand."""

from datetime import datetime

import numpy as np
import pytest

pytest.importorskip("pydantic")

from longstride.process.event_logs.event_log import EventLog
from longstride.process.fidelity.verdict import logged_shares

HOUR = 3600.0


def log_of(*rows):
    """Return a log of rows (case, activity, resource, start, end), hours since a Monday, of numbers from 0."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    names = [tuple(f"{kind}{i}" for i in range(column.max() + 1)) for kind, column in zip("car", columns, strict=False)]
    start, end = (HOUR * column.astype(float) for column in columns[3:])
    named = [value for pair in zip(names, columns[:3], strict=True) for value in pair]
    return EventLog("by hand", *named, start, end, start, end, datetime(2024, 3, 4))


def test_each_wait_has_its_own_external_part():
    """One wait while the person is free by day, another while it works, through the night."""
    others = [(day, 1, 2, 24 * day + 9, 24 * day + 17) for day in range(5)]  # open hours are 9 to 17; they do not wait
    by_day = [(5, 0, 0, 9, 10), (5, 1, 1, 12, 13)]  # waits from 10 to 12, person 1 is free
    over_night = [(6, 0, 0, 15, 16), (6, 1, 1, 34, 35)]  # waits from 16 to 10, person 1 works
    work = [(7, 0, 1, 9, 10), (8, 0, 1, 13, 17), (9, 0, 1, 33, 34), (10, 0, 1, 35, 36)]
    log = log_of(*others, *by_day, *over_night, *work)
    shares = logged_shares(log)
    first, last = log.case_times()
    total = float((last - first).sum()) / HOUR
    assert shares.external * total == pytest.approx(2.0, rel=1e-6)
    assert shares.people * total == pytest.approx(18.0, rel=1e-6)
    assert sum(shares) == pytest.approx(1.0)


def test_cases_without_duration_are_all_work():
    assert logged_shares(log_of((0, 0, 0, 9, 9), (1, 0, 0, 10, 10))) == (1.0, 0.0, 0.0)


def test_records_that_a_person_has_open_at_once_share_the_time():
    """Case 0 is alone from 9 to 10, and shares person 0 with case 1 until 12; case 2 has person 1 for itself."""
    shares = logged_shares(log_of((0, 0, 0, 9, 12), (1, 0, 0, 10, 12), (2, 0, 1, 9, 12)))
    assert shares == pytest.approx(((2.0 + 1.0 + 3.0) / 8.0, 2.0 / 8.0, 0.0))


def test_the_cases_of_a_batch_do_not_share_its_time():
    rows = [(4 * day + k, 0, 0, 24 * day + 9, 24 * day + 11) for day in range(30) for k in range(4)]
    assert logged_shares(log_of(*rows)) == pytest.approx((1.0, 0.0, 0.0))
    assert logged_shares(log_of(*rows[:8])) == pytest.approx((0.25, 0.75, 0.0))  # too few for batches
