"""The heap of timers and the clock of delays against a sorted list and against integration hour by hour."""

import heapq

import numpy as np
import pytest
from oracles.process_play import scenario

from longstride.process.kernel.parameters import as_record, build_parameters
from longstride.process.kernel.state import state_dtype
from longstride.process.kernel.timers import after_open_time, drop_timer, open_time_until, set_timer
from longstride.process.mining.delays.clock import open_time_until as open_hours_until


def parts(**changes):
    data = {"time_unit": "hours", "delays": [{"activity": "A", "distribution": "constant", "mean": 5.0}], **changes}
    parameters, sizes = build_parameters(scenario(**data))
    return as_record(parameters)[0], np.zeros(1, state_dtype(parameters, sizes)).view(np.recarray)[0], sizes


def test_timers_come_out_as_from_a_sorted_list():
    _, state, sizes = parts()
    rng, expected = np.random.default_rng(0), []
    for _ in range(1500):
        if expected and rng.random() < 0.45:
            due = heapq.heappop(expected)
            assert due == (state.timer_time[0], state.timer_case[0], state.timer_node[0])
            drop_timer(state)
        elif state.timers < sizes.timers:
            timer = float(rng.integers(0, 20)), int(rng.integers(0, 1000)), int(rng.integers(0, 5))
            heapq.heappush(expected, timer)
            assert set_timer(state, *timer, np.uint64(1))
    assert len(expected) == state.timers > 100


def test_a_full_heap_takes_no_more():
    _, state, sizes = parts(capacity={"waiting_tasks": 3}, arrivals={"process": "replay", "times": [1.0]})
    taken = [set_timer(state, 1.0, i, 0, np.uint64(1)) for i in range(sizes.timers + 1)]
    assert taken == [True] * sizes.timers + [False]


@pytest.mark.parametrize("seed", range(3))
def test_the_clock_of_delays_is_an_integral_and_its_inverse(seed):
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random(168) < 0.6, 0.0, rng.random(168) + 0.1)
    p, _, _ = parts(time_unit="minutes", delay_clock=weights.tolist())
    for time in rng.random(40) * 60 * 400:
        hours = np.arange(np.ceil(time / 60.0))
        inside = np.minimum(time / 60.0 - hours, 1.0)
        expected = 60.0 * (weights[hours.astype(int) % 168] * inside).sum()
        assert open_time_until(p, time) == pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert 60.0 * open_hours_until(weights, np.array([60.0 * time]))[0] == pytest.approx(
            expected, rel=1e-9, abs=1e-6
        )
        delay = rng.random() * 3000.0
        end = after_open_time(p, time, delay)
        assert open_time_until(p, end) - open_time_until(p, time) == pytest.approx(delay, rel=1e-7, abs=1e-6)
        assert weights[int(end / 60.0 + 1e-9) % 168] > 0.0  # it ends where time counts


def test_without_a_clock_delays_are_real_time():
    p, _, _ = parts()
    assert after_open_time(p, 3.0, 4.5) == 7.5
