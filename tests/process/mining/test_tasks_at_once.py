"""Several open tasks: worked on at full speed each or in shared time, and what is finished after duty."""

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.rosters import overtime_of_several, several_after_duty
from longstride.process.mining.working_hours import tasks_at_once, worked_time

HOUR = 3600.0


def records(shared, days=120, most=3, seed=0):
    """Return starts and ends in hours of exponential tasks of a person with up to ``most`` open, from 9 to 17."""
    rng, rows = np.random.default_rng(seed), []
    for day in range(days):
        now, open_tasks = 24.0 * day + 9.0, []
        while now < 24.0 * day + 17.0 or open_tasks:
            rate = 1.0 * len(open_tasks) if not shared else 1.0 * bool(open_tasks)
            arrives = rng.exponential(1 / 1.5) if now < 24.0 * day + 17.0 else np.inf
            ends = rng.exponential(1.0 / rate) if rate else np.inf
            now += min(arrives, ends)
            if ends <= arrives:
                rows.append((open_tasks.pop(rng.integers(len(open_tasks))), now))
            elif len(open_tasks) < most and now < 24.0 * day + 17.0:
                open_tasks.append(now)
    start, end = np.array(rows).T
    return log_of(np.arange(len(start)), np.zeros(len(start)), np.zeros(len(start)), start, end)


def test_tasks_at_full_speed_are_told_from_tasks_that_share_time():
    for seed in range(3):
        assert tasks_at_once(records(shared=False, seed=seed)).tolist() == [3]
        assert tasks_at_once(records(shared=True, seed=seed)).tolist() == [1]


def test_work_at_full_speed_is_the_whole_record():
    log = records(shared=False)
    assert worked_time(log).hours.mean() == pytest.approx(1.0, rel=0.05)
    assert worked_time(records(shared=True)).hours.mean() == pytest.approx(1.0, rel=0.05)


def test_a_batch_is_one_task():
    start = np.repeat(24.0 * np.arange(200) + 9.5, 4)
    log = log_of(np.arange(800), np.zeros(800), np.zeros(800), start, start + 1.0)
    assert tasks_at_once(log).tolist() == [1]


def test_hours_after_duty_with_several_open_records_are_duty():
    start, end = HOUR * np.array([15.0, 16.0, 16.5, 40.0]), HOUR * np.array([18.9, 19.9, 17.5, 45.0])
    there = np.zeros((2, 24), np.bool_)
    there[:, 9:17] = True
    found = overtime_of_several(start, end, np.array([0, 1]), there)
    # Two are open to 18.9 on the first day, one on the second.
    assert np.flatnonzero(found[0]).tolist() == [17, 18] and not found[1].any()


def test_time_with_several_records_after_duty():
    open_hours = np.ones(168, np.bool_)
    shared, alone = records(shared=True), records(shared=True, most=1)
    late = [several_after_duty(log.clock_start, log.clock_end, open_hours) for log in (shared, alone)]
    assert late[0] > 0.05 and late[1] == 0.0
