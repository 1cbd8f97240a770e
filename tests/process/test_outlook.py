"""What is expected of the next hours: against integrals and a heap; more in uncompiled/."""

import math
from functools import cache

import numpy as np
import pytest
from oracles.list_schedule import check_times_to_serve
from oracles.process_play import office, scenario, service
from scipy import integrate

from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.service_times import least_residual, mean_residual, service_time

TIMES = {
    "exponential": {"mean": 2.5},
    "constant": {"mean": 2.0},
    "uniform": {"low": 1.0, "high": 4.0},
    "lognormal": {"mean": 2.0, "cv": 1.7},
    "quantiles": {"quantiles": [0.5, 0.5, 1.0, 2.0, 2.0, 9.0]},
}


@cache
def row_and_times(name):
    """Return the row of a kind of service, and its times at 400,000 even quantiles."""
    p, _ = build_parameters(scenario(service=[service("A", "R", name, **TIMES[name])]))
    row = p.service_kind[0], p.service_scale[0], p.service_low[0], p.service_high[0], p.service_table
    return p, row, np.array([service_time(*row, u) for u in (np.arange(400_000) + 0.5) / 400_000])


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("elapsed", [0.0, 0.4, 0.5, 1.3, 1.9999, 2.5, 3.7, 8.5])
def test_the_expected_rest_of_a_service_is_the_integral_over_its_survivors(name, elapsed):
    p, row, times = row_and_times(name)
    actual = mean_residual(*row, p.service_tail, elapsed)
    survivors = times[times > elapsed]
    expected = survivors.mean() - elapsed if len(survivors) else 0.0
    if name in ("exponential", "lognormal"):  # the grid is coarse where the tail is long
        assert actual == pytest.approx(expected, rel=0.02)
    else:
        assert actual == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_the_rest_of_a_lognormal_service_far_out_is_finite_and_grows():
    sigma = math.sqrt(math.log(1.25))
    rests = [mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), e) for e in (1e3, 1e6, 1e12, 1e200)]
    assert all(math.isfinite(r) and r > 0.0 for r in rests)
    assert rests == sorted(rests)

    def survivors(x):
        return math.erfc((math.log(x / 2.0) / sigma + sigma / 2) / math.sqrt(2.0)) / 2

    expected = integrate.quad(survivors, 30.0, 400.0, epsabs=0.0)[0] / survivors(30.0)
    assert mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), 30.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cv", [0.02, 0.1, 0.5, 1.0, 3.0, 20.0])
def test_the_least_rest_of_a_lognormal_service_is_its_minimum_less_a_margin(cv):
    sigma = math.sqrt(math.log1p(cv**2))
    least = least_residual(3, 2.0, sigma)
    elapsed = np.exp(np.linspace(math.log(2.0) - 8 * sigma, math.log(2.0) + max(3.0, 12 * sigma), 20_000))
    rests = [mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), e) for e in elapsed]
    assert 0.98 * min(rests) < least < min(rests)
    assert least < rests[0]


@pytest.mark.parametrize("name", TIMES)
def test_nobody_is_ready_before_the_least_wait(name):
    p, _ = build_parameters(scenario(service=[service("A", "R", name, **TIMES[name])]))
    row = p.service_kind[0], p.service_scale[0], p.service_low[0], p.service_high[0], p.service_table
    rests = [mean_residual(*row, p.service_tail, e) for e in np.linspace(0.0, 30.0, 1_000)]
    assert 0.0 <= p.pair_least_rest[0] <= min(rests)


def test_compiled_the_time_to_serve_a_queue_is_that_of_a_list_schedule():
    check_times_to_serve(office)
