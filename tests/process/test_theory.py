"""Mean cycle times against queueing theory, and the identities that hold on every path.

Each comparison allows four standard errors of the mean over independent episodes: one of the six would fail by chance
once in some 2,600 choices of the seed, and the seed is fixed.
"""

import math

import numpy as np
import pytest
from numba import njit
from oracles.process_play import FIFO, LAZY, RANDOM, SPT, mean_and_error, play, scenario, service, summary

from longstride.process.kernel import heuristics
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator

pytestmark = pytest.mark.slow

HORIZON, WARMUP, EPISODES = 20_000.0, 1_000.0, 60
"""At a load of 0.7 the queue forgets its start in about 1 / (1 - sqrt(0.7))^2 = 37 mean service times."""


def queue(servers: int, rate: float, **times: float | str) -> Scenario:
    """Return one activity done by some equal resources."""
    names = [f"R{i}" for i in range(servers)]
    return scenario(
        time_unit="abstract",
        horizon={"value": HORIZON},
        warmup=WARMUP,
        arrivals={"process": "poisson", "rate": rate},
        resources=names,
        service=[service("A", name, **times) for name in names],
    )


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that an arrival waits in M/M/c, for a load in erlangs (A. K. Erlang, 1917)."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


def pollaczek_khinchine(rate: float, mean: float, second_moment: float) -> float:
    """Return the mean cycle time of M/G/1, E[T] = E[S] + rate E[S^2] / (2 (1 - rate E[S]))."""
    return mean + rate * second_moment / (2 * (1 - rate * mean))


def agree(measured: tuple[float, float], expected: float) -> None:
    """Assert agreement within four standard errors, and that these are small enough to tell errors of 5 %."""
    mean, error = measured
    assert error < 0.0125 * expected
    assert abs(mean - expected) < 4 * error, f"{mean:.4f} against {expected:.4f}, standard error {error:.4f}"


@pytest.mark.parametrize(
    ("times", "second_moment"),
    [
        ({"distribution": "exponential", "mean": 1.0}, 2.0),
        ({"distribution": "constant", "mean": 1.0}, 1.0),
        ({"distribution": "uniform", "low": 0.5, "high": 1.5}, 1 + 1 / 12),
        ({"distribution": "lognormal", "mean": 1.0, "cv": 0.5}, 1.25),
        # 0, 1 and 3 in even steps: half uniform on 0..1, half on 1..3. E[S] = 1.25, E[S^2] = (1/3 + 13/3) / 2.
        ({"distribution": "quantiles", "quantiles": [0.0, 0.8, 2.4]}, 0.8**2 * (1 / 3 + 13 / 3) / 2),
    ],
    ids=["exponential", "constant", "uniform", "lognormal", "quantiles"],
)
def test_one_server_agrees_with_pollaczek_and_khinchine(times, second_moment):
    simulator = ProcessSimulator(queue(1, 0.7, **times))
    assert simulator.parameters.pair_mean[0] == pytest.approx(1.0)
    agree(mean_and_error(simulator, FIFO, EPISODES), pollaczek_khinchine(0.7, 1.0, second_moment))


def test_several_servers_agree_with_erlang_c():
    simulator = ProcessSimulator(queue(3, 2.1, distribution="exponential", mean=1.0))
    # Erlang C of 3 servers and 2.1 erlangs by hand: 1 + 2.1 + 2.205 = 5.305, last 1.5435 * 3 / 0.9 = 5.145.
    assert erlang_c(3, 2.1) == pytest.approx(5.145 / 10.45)
    agree(mean_and_error(simulator, RANDOM, EPISODES // 2), 1.0 + erlang_c(3, 2.1) / (3 - 2.1))


@njit
def weighted(state, p, observed, which, rng, row):
    """Choose by the weighted rule."""
    return heuristics.weighted_shortest_processing_time(state, p, observed.mask, rng)


def test_the_weighted_rule_agrees_with_cobhams_priorities():
    """Waiting of class k, by weight over mean: W0 / ((1 - s_(k-1)) (1 - s_k)), W0 = sum of rate E[S^2] / 2.

    With a rate of 0.7, 30 % of gold cases of mean 1.5 and weight 4, by hand: W0 = 0.21 * 2.25 + 0.49 = 0.9625 and the
    loads are 0.315 and 0.805, so gold waits 0.9625 / 0.685 and plain 0.9625 / (0.685 * 0.195).
    """
    means = {"A · gold": 1.5, "A · plain": 1.0}
    flows = [("gold", 0.3, "A · gold"), ("plain", 0.7, "A · plain")]
    simulator = ProcessSimulator(
        scenario(
            time_unit="abstract",
            horizon={"value": HORIZON},
            warmup=WARMUP,
            arrivals={"process": "poisson", "rate": 0.7},
            activities=list(means),
            service=[service(name, "R", "exponential", mean=mean) for name, mean in means.items()],
            flow={"classes": [{"name": name, "p": p, "flow": {"task": task}} for name, p, task in flows]},
            aims={"class_weights": {"gold": 4.0}},
        )
    )
    gold, plain = 0.9625 / 0.685 + 1.5, 0.9625 / (0.685 * 0.195) + 1.0
    found = [episode.metrics for episode in play(simulator, 0, 2 * EPISODES, chooser=weighted)]
    for name, expected in (
        ("mean_cycle_time of gold", gold),
        ("mean_cycle_time of plain", plain),
        ("objective", 0.3 * 4.0 * gold + 0.7 * plain),
    ):
        agree(summary([metrics[name] for metrics in found]), expected)


def test_utilisation_of_equal_servers_is_the_load():
    simulator = ProcessSimulator(queue(3, 2.1, distribution="exponential", mean=1.0))
    use = np.array([episode.metrics["utilisation"] for episode in play(simulator, RANDOM, EPISODES // 2)])
    error = use.std(ddof=1, axis=0) / math.sqrt(len(use))
    assert np.all(np.abs(use.mean(axis=0) - 0.7) < 4 * error + 1e-4)


@pytest.mark.parametrize("which", [FIFO, SPT, RANDOM, LAZY])
def test_the_return_is_minus_the_sum_of_cycle_times(which):
    """Little's law on a path: the integral of open cases is the sum of their times in the system."""
    simulator = ProcessSimulator(queue(3, 2.1, distribution="exponential", mean=1.0))
    for episode in play(simulator, which, 3, seed=5):
        n = int(episode.state.arrived)
        arrival, completion = episode.state.arrival_time[:n], episode.state.completion_time[:n]
        total = (np.where(completion >= 0, completion, HORIZON) - arrival).sum()
        assert n > 41_000
        assert episode.total == pytest.approx(-total / (2.1 * HORIZON), rel=1e-9)
        counted = arrival >= WARMUP
        expected = (np.where(completion >= 0, completion, HORIZON) - arrival)[counted].mean()
        assert episode.metrics["mean_cycle_time"] == pytest.approx(expected)
        assert episode.metrics["cases_finished"] + episode.metrics["cases_open"] == counted.sum()
