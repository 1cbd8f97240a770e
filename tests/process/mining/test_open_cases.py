"""Cases that the end of a log cuts off, where the generator of the log knows how they go on."""

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.case_order import order_cases
from longstride.process.mining.weights import case_weights


def log_until(end: float):
    """Return a log of 400 cases in 4,000 hours, as it is at some time: five tasks a case with 100 h before each."""
    rng = np.random.default_rng(2)
    begin = np.repeat(np.sort(rng.uniform(0.0, 4000.0, 400)), 5)
    start = begin + np.cumsum(rng.exponential(100.0, (400, 5)), axis=1).ravel()
    case, task, person = np.repeat(np.arange(400), 5), np.tile(np.arange(5), 400), rng.integers(0, 3, 2000)
    rows = np.flatnonzero(start + 1.0 < end)
    rows = rows[np.argsort(start[rows])]
    case, columns = np.unique(case[rows], return_inverse=True)[1], (task[rows], person[rows], start[rows])
    finished = np.bincount(case) == 5
    return log_of(case, *columns, columns[-1] + 1.0), int((~finished).sum())


def test_a_log_with_many_open_cases_says_so_and_tells_the_mean_of_whole_ones():
    log, unfinished = log_until(4000.0)
    weights = case_weights(log, order_cases(log))
    (note,) = weights.notes
    counted = int(note.split("about ")[1].split(" of")[0])
    assert counted == pytest.approx(unfinished, rel=0.15)
    first, last = log.case_times()
    assert (weights.weight * (last - first)).mean() / 3600.0 == pytest.approx(401.0, rel=0.05)  # four gaps, one task
    assert f"its mean cycle time of {(last - first).mean() / 3600.0:.3g} h is too short" in note


def test_a_log_of_whole_cases_has_no_note():
    log, unfinished = log_until(9000.0)
    assert unfinished == 0
    assert case_weights(log, order_cases(log)).notes == []
