"""Service times and random streams: what is drawn, and from which stream."""

import itertools
import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from oracles.process_play import FIFO, LAZY, RANDOM, SPT, bound_of, office, play, pool, scenario, service
from scipy import stats

from longstride.process.kernel.counter_rng import advance, child, uniform
from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.service_times import normal_quantile, service_mean, service_time
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator

# Service times


def quantile_function(scenario: Scenario) -> Callable[[float], float]:
    """Return the quantile function of the first pair of a scenario."""
    p, _ = build_parameters(scenario)
    row = (p.service_kind[0], p.service_scale[0], p.service_low[0], p.service_high[0], p.service_table)
    return lambda u: service_time(*row, u)


DISTRIBUTIONS = {
    "exponential": ({"mean": 2.5}, stats.expon(scale=2.5)),
    "uniform": ({"low": 1.0, "high": 4.0}, stats.uniform(1.0, 3.0)),
    "lognormal": (
        {"mean": 2.0, "cv": 0.5},
        stats.lognorm(math.sqrt(math.log(1.25)), scale=2.0 / math.sqrt(1.25)),
    ),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_service_times_have_the_quantiles_mean_and_variation_of_scipy(name):
    values, law = DISTRIBUTIONS[name]
    one = scenario(service=[service("A", "R", name, **values)])
    quantile = quantile_function(one)
    for u in (0.0, 1e-3, 0.1, 0.5, 0.77, 0.95, 0.999):
        assert quantile(u) == pytest.approx(law.ppf(u), rel=1e-9)
    values = np.array([quantile(u) for u in (np.arange(20_000) + 0.5) / 20_000])  # midpoint rule
    moments = [values.mean(), (values**2).mean()]
    assert moments[0] == pytest.approx(law.mean(), rel=1e-3)
    assert moments[0] == pytest.approx(service_mean(one.service[0]), rel=1e-3)
    cv = math.sqrt(moments[1] - moments[0] ** 2) / moments[0]
    assert cv == pytest.approx(law.std() / law.mean(), rel=5e-3)


def test_a_constant_time_is_constant():
    one = scenario(service=[service("A", "R", "constant", mean=2.5)])
    quantile = quantile_function(one)
    assert [quantile(u) for u in (0.0, 0.3, 1 - 2**-53)] == [2.5, 2.5, 2.5]


def test_a_table_of_quantiles_is_read_by_interpolation():
    pairs = [
        service("A", "R", "quantiles", quantiles=[7.0, 8.0]),
        service("B", "R", "quantiles", quantiles=[1.0, 2.0, 6.0]),
    ]
    two = scenario(activities=["B", "A"], service=pairs)  # the table of B comes first, the one of A behind it
    quantile = quantile_function(two)
    assert [quantile(u) for u in (0.0, 0.25, 0.5, 0.75)] == [1.0, 1.5, 2.0, 4.0]
    assert quantile(1 - 2**-53) == pytest.approx(6.0)
    assert service_mean(two.service[1]) == pytest.approx((1.5 + 4.0) / 2)


def test_normal_quantiles_agree_with_the_standard_library():
    expected = NormalDist().inv_cdf
    tails = 10.0 ** -np.arange(1, 300, 7)
    for u in [*np.linspace(0.001, 0.999, 999), *tails, 0.075, 0.925, 2.0**-53, 1 - 2.0**-53, 1 - 1e-12]:
        assert normal_quantile(u) == pytest.approx(expected(u), rel=1e-12), u
    assert normal_quantile(0.5) == 0.0


@pytest.mark.parametrize("cv", [0.1, 1.0, 4.0])
def test_a_lognormal_is_exact_far_into_its_tails(cv):
    quantile = quantile_function(scenario(service=[service("A", "R", "lognormal", mean=2.0, cv=cv)]))
    law = stats.lognorm(math.sqrt(math.log1p(cv**2)), scale=2.0 / math.sqrt(1 + cv**2))
    assert (law.mean(), law.std()) == (pytest.approx(2.0), pytest.approx(2.0 * cv))
    for u in (2.0**-53, 1e-9, 0.01, 0.5, 0.99, 1 - 1e-9, 1 - 2.0**-53):
        assert quantile(u) == pytest.approx(law.ppf(u), rel=1e-9)


def test_the_least_lognormal_time_is_zero():
    assert quantile_function(scenario(service=[service("A", "R", "lognormal", mean=2.0, cv=0.5)]))(0.0) == 0.0


def test_service_times_rise_with_the_uniform_number():
    """The bound rests on it."""
    for name, (values, _) in DISTRIBUTIONS.items():
        quantile = quantile_function(scenario(service=[service("A", "R", name, **values)]))
        times = [quantile(u) for u in np.linspace(0, 1 - 2**-53, 500)]
        assert all(a <= b for a, b in itertools.pairwise(times)), name


# Random streams


def uniforms(seed: int, cases: int, draws: int) -> np.ndarray:
    """Return the first numbers of the streams of some cases."""
    values = np.empty((cases, draws))
    for case in range(cases):
        state = np.uint64(child(np.uint64(seed), case + 1))
        for k in range(draws):
            state = np.uint64(advance(state))
            values[case, k] = uniform(state)
    return values


def test_the_streams_are_uniform_and_independent_across_cases():
    values = uniforms(12345, 3000, 6)
    assert values.min() >= 0
    assert values.max() < 1
    for column in values.T:  # the k-th number of every case
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    cells = (values * 16).astype(int)
    assert stats.chisquare(np.bincount(cells.ravel(), minlength=16)).pvalue > 1e-3
    # Pairs: next cases, next numbers, next number of the next case, next seed.
    other = (uniforms(12346, 3000, 6) * 16).astype(int)
    pairs = [(cells[:-1], cells[1:]), (cells[:, :-1], cells[:, 1:]), (cells[:-1, 1:], cells[1:, :-1]), (cells, other)]
    for a, b in pairs:
        counts = np.bincount((a * 16 + b).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_branches_of_a_fork_have_streams_of_their_own():
    parents = [np.uint64(child(np.uint64(7), i)) for i in range(2000)]
    branches = np.array([[uniform(np.uint64(advance(np.uint64(child(s, i))))) for i in range(3)] for s in parents])
    assert len(np.unique(branches)) == branches.size
    assert np.abs(np.corrcoef(branches.T)[np.triu_indices(3, 1)]).max() < 4 / math.sqrt(2000)


def test_the_generator_is_splitmix64():
    # First outputs for state 1234567, from the reference implementation of Vigna (splitmix64.c).
    state, bits = np.uint64(1234567), []
    for _ in range(3):
        state = np.uint64(advance(state))
        bits.append(int(uniform(state) * 2**53))
    assert bits == [x >> 11 for x in (6457827717110365317, 3203168211198807973, 9817491932198370423)]


def test_two_policies_meet_the_same_arrivals_and_random_numbers():
    simulator = pool()
    for a, b in itertools.pairwise([play(simulator, which, 1)[0] for which in (FIFO, SPT, RANDOM, LAZY)]):
        n = int(a.state.arrived)
        assert n == b.state.arrived
        assert np.array_equal(a.state.arrival_time[:n], b.state.arrival_time[:n])
        assert a.total != b.total


def test_poisson_arrivals_have_their_rate_and_exponential_gaps():
    simulator = pool()
    gaps = [np.diff(e.state.arrival_time[: e.state.arrived]) for e in play(simulator, FIFO, 20)]
    assert stats.kstest(np.concatenate(gaps), "expon", args=(0, 2.0)).pvalue > 1e-3


@pytest.mark.slow
def test_weekly_arrivals_follow_the_rates_of_the_hours():
    simulator = ProcessSimulator(office())
    p, rates = simulator.parameters, np.tile([0.0] * 8 + [0.01] * 9 + [0.002] * 7, 7)
    counts = np.zeros(168)
    for episode in range(60):
        state, _ = bound_of(simulator, episode)
        hours = (state.arrival_time[: state.arrived] // 60).astype(int)
        np.add.at(counts, hours % 168, 1)
    expected = rates * 60 * 3 * 60  # cases a minute, minutes, weeks, episodes
    assert p.reward_scale == pytest.approx(60 / expected.sum())
    assert counts[expected == 0].sum() == 0
    busy = expected > 0
    assert ((counts - expected)[busy] ** 2 / expected[busy]).sum() < stats.chi2(busy.sum()).ppf(0.999)
