"""Hours without starts in which no task waits are duty, and a day's hours are those of its week unless it differs."""

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays.waits import hours_of_waiting, ready_times
from longstride.process.mining.rosters import mine_rosters
from longstride.process.mining.working_hours import worked_time

WEEKS = 26
HOUR = 3600.0


def early_shift(left=0.4, weeks=WEEKS):
    """Return the starts, in hours, of tasks from six to two: some days have one at six, then none begins until nine."""
    rng, found = np.random.default_rng(4), []
    for day in (168 * week + 24 * d for week in range(weeks) for d in range(5)):
        found += [day + 6.0] * (rng.random() < left) + sorted(day + rng.uniform(9, 14, 4))
    return np.array(found)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ("not", "06:00-14:00"),
        ("through", "06:00-07:00 09:00-14:00"),
        ("unknown", "06:00-07:00 09:00-14:00"),
        ("rarely through", "06:00-14:00"),
    ],
)
def test_hours_without_starts_are_duty_if_nothing_waits_in_them(waits, expected):
    start = early_shift()
    log = log_of(np.arange(len(start)), np.zeros(len(start)), np.zeros(len(start)), start, start + 0.3)
    ready = HOUR * np.where(start % 24 < 7, start - 10.0, start - 0.1)  # those at six were left the night before
    first = np.flatnonzero(np.diff(start // 24, prepend=-1) > 0)
    through = {"through": first, "rarely through": first[:1]}.get(waits, first[:0])
    nine = np.array([np.flatnonzero((start // 24 == start[i] // 24) & (start % 24 > 9))[0] for i in through], np.int64)
    ready[nine] = HOUR * (start[nine] // 24 * 24 + 6.5)
    found = mine_rosters(
        log,
        worked_time(log),
        False,
        np.ones(len(log), np.bool_),
        np.full(len(log), np.nan) if waits == "unknown" else ready,
    )
    assert {" ".join(plan["hours"]) for plan in found.plans["b0"] if plan["p"] > 0.5} == {expected}


def test_hours_at_whose_end_a_free_person_lets_a_task_wait():
    rng = np.random.default_rng(5)
    for _ in range(40):
        start = np.sort(rng.uniform(0, 60, 12))
        ready = start - rng.exponential(3.0, 12)
        ready[rng.random(12) < 0.2] = np.nan
        end = start + rng.exponential(1.0, 12)
        slow = [
            hour
            for hour in range(70)
            if any(r <= hour + 0.5 and s >= hour + 1 for r, s in zip(ready, start, strict=True))
            and not any(s < hour + 1 <= e for s, e in zip(start, end, strict=True))
        ]
        assert hours_of_waiting(HOUR * ready, HOUR * start, HOUR * start, HOUR * end).tolist() == slow


def test_a_task_can_begin_when_its_predecessors_have_ended():
    log = log_of([0, 0, 0, 1], [0, 1, 2, 0], [0, 1, 0, 1], [1.0, 4.0, 9.0, 2.0], [3.0, 5.0, 9.5, 3.0])
    np.testing.assert_array_equal(ready_times(log, order_cases(log)) / HOUR, [np.nan, 3.0, 5.0, np.nan])


def test_a_weekday_on_which_little_is_left_has_the_hours_of_the_others_in_a_rota():
    rng, start = np.random.default_rng(6), early_shift(left=0.15, weeks=16)
    start = start[(start % 168 >= 24) | (start % 24 > 9)]  # on no Monday is a task left
    start += 168 * (start // 168)  # each second week is late
    late = 168 + np.repeat(336 * np.arange(16), 25) + np.tile(np.repeat(24 * np.arange(5), 5), 16)
    start = np.sort(np.append(start, late + rng.uniform(14, 20, len(late))))
    log = log_of(np.arange(len(start)), np.zeros(len(start)), np.zeros(len(start)), start, start + 0.2)
    found = mine_rosters(log, worked_time(log), False, np.ones(len(log), np.bool_), HOUR * start)
    monday = [plan for plan in found.plans["b0"] if plan["days"] == ["Monday"] and plan["week"] == 0]
    assert {" ".join(plan["hours"]) for plan in monday} == {"06:00-14:00"}
