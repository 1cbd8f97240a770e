"""Delays by the moments with a free person: the estimator compared with others, and generated logs."""

import numpy as np
import pytest
from helpers.generated_logs import DELAY, log_of, two_tasks

from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays import free_moments
from longstride.process.mining.delays.clock import delay_clock
from longstride.process.mining.delays.free_moments import (
    FreeMoments,
    TotalDelay,
    blend,
    is_noisy,
    product_limit_mean,
    united,
)
from longstride.process.mining.shifts import without_overtime
from longstride.process.mining.working_hours import find_open_hours


def slow_mean(begin, stop, ended):
    """The formula, end by end: the share that is left falls by ends over resting."""
    left, mean, before, terms = 1.0, 0.0, 0.0, []
    for age in sorted(set(ended)):
        resting = sum(b < age <= s for b, s in zip(begin, stop, strict=True))
        ends = sum(e == age for e in ended)
        if resting >= 5:
            mean, before = mean + left * (age - before), age
            left *= 1.0 - ends / resting
            terms.append((age, ends, resting, mean))
    spread = sum((mean - m) ** 2 * e / (r * (r - e)) for _, e, r, m in terms if r > e)
    rest = left * sum(s - max(b, 0.0) for b, s in zip(begin, stop, strict=True)) / len(ended)
    return mean + rest, (spread + rest**2) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_estimator_is_the_formula_in_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    begin = np.where(rng.random(80) < 0.3, -1.0, rng.exponential(3.0, 80))
    stop = np.maximum(begin, 0.0) + np.round(rng.exponential(4.0, 80), 1)
    ended = stop[rng.random(80) < 0.6]
    np.testing.assert_allclose(product_limit_mean(begin, stop, ended), slow_mean(begin, stop, ended), rtol=1e-12)


def test_without_late_beginnings_it_is_kaplan_and_meier():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    age, cut = rng.exponential(10.0, 300), rng.exponential(30.0, 300)
    stop, whole = np.minimum(age, cut), age <= cut
    survival = stats.ecdf(stats.CensoredData(stop[whole], right=stop[~whole])).sf
    at, left = survival.quantiles, survival.probabilities
    resting = (stop[None] >= at[:, None]).sum(1)
    last = np.flatnonzero((resting >= 5) & np.isin(at, stop[whole]))[-1]
    mean = at[0] + (left[:last] * np.diff(at[: last + 1])).sum() + left[last] * stop.sum() / whole.sum()
    assert product_limit_mean(np.full(300, -1.0), stop, stop[whole])[0] == pytest.approx(mean, rel=1e-12)


def test_the_error_is_the_spread_of_repetitions():
    """Rests of a mean of ten, each watched in a window that begins and ends at random."""
    rng, found = np.random.default_rng(2), []
    for _ in range(400):
        age, begin = rng.exponential(10.0, 400), rng.exponential(8.0, 400)
        end = begin + rng.exponential(20.0, 400)
        watched = age > begin
        stop = np.minimum(age, end)[watched]
        found.append(product_limit_mean(begin[watched], stop, stop[(age <= end)[watched]]))
    means, errors = np.array(found).T
    assert means.mean() == pytest.approx(10.0, rel=0.05)
    assert errors.mean() == pytest.approx(means.std(), rel=0.15)


def test_nothing_is_said_of_rests_that_nobody_saw_end():
    assert product_limit_mean(np.zeros(9), np.ones(9), np.zeros(0)) is None
    assert product_limit_mean(np.zeros(4), np.ones(4), np.ones(4)) is None


def test_of_too_many_rests_some_are_looked_at(monkeypatch):
    made = two_tasks(0.5, True, 2000, 4)
    moments = FreeMoments(made.log, order_cases(made.log), delay_clock(made.log), find_open_hours(made.log))
    whole = moments.total_delay(1)
    monkeypatch.setattr(free_moments, "_MOST_PIECES", 4_000)
    some = moments.total_delay(1)
    assert some.hours == pytest.approx(whole.hours, rel=0.1) and 1.3 * whole.error < some.error < 4.0 * whole.error


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_delays_of_a_generated_log(load):
    made = two_tasks(load, True, 2000, 4)
    log = made.log
    moments = FreeMoments(log, order_cases(log), delay_clock(log), find_open_hours(log))
    total = moments.total_delay(1)
    assert abs(total.hours / 2000 - made.rest) < 3.0 * total.error / 2000
    assert total.error / 2000 < 0.12 * DELAY
    assert moments.total_delay(0) is None  # a case's first event: nothing is known of the time before


def test_people_who_are_never_free_say_nothing():
    # One person works on end; the second activity of each case begins when the first one of the next has ended.
    n = 40
    start = np.arange(2.0 * n)
    log = log_of(np.arange(2 * n) // 2, np.arange(2 * n) % 2, np.zeros(2 * n), start, start + 1.0)
    moments = FreeMoments(log, order_cases(log), np.ones(168), np.ones(168, np.bool_))
    assert moments.total_delay(1) is None


def test_only_noisy_shares_are_blended_and_by_the_errors():
    share, least, room = np.full(3, 0.5), np.full(3, 10.0), np.full(3, 100.0)
    sampling_error = np.array([1.0, 30.0, 30.0])
    assert is_noisy(sampling_error, least, room).tolist() == [False, True, True]
    found = [None, TotalDelay(40.0, np.hypot(30.0, 2.0)), None]
    settled, changed = blend(share, sampling_error, least, room, found)
    # The error of 40 hours is that of the estimate and a twentieth of it: here about as large as the sampling error.
    error = np.hypot(np.hypot(30.0, 2.0), 0.05 * 40.0)
    hours = (60.0 / 30.0**2 + 40.0 / error**2) / (1 / 30.0**2 + 1 / error**2)
    np.testing.assert_allclose(settled, [0.5, (hours - 10.0) / 100.0, 0.5], rtol=1e-12)
    assert changed.tolist() == [False, True, False]
    far, _ = blend(share, sampling_error, least, room, [None, TotalDelay(900.0, 0.0), TotalDelay(0.0, 0.0)])
    assert far.tolist() == [0.5, 1.0, 0.0]


def test_united_times_lie_apart():
    first, second = np.array([[0.0, 2.0], [5.0, 6.0]]), np.array([[1.0, 3.0], [6.0, 7.0], [9.0, 9.5]])
    assert united([first, second]).tolist() == [[0.0, 3.0], [5.0, 7.0], [9.0, 9.5]]
    assert united([np.zeros((0, 2))]).shape == (0, 2)


def test_hours_in_which_nothing_begins_are_overtime_or_a_break():
    hours, begun = np.zeros(24, np.bool_), np.zeros(24, np.int64)
    hours[8:18] = True
    begun[8:16] = [40, 30, 0, 30, 30, 30, 30, 30]  # nothing begins at ten either
    begun[16] = 1
    assert np.flatnonzero(without_overtime(hours, begun)).tolist() == [8, 9, *range(11, 16)]
    assert (without_overtime(hours, begun // 8) == hours).all()  # too few to tell
    assert not without_overtime(np.zeros(24, np.bool_), begun).any()
