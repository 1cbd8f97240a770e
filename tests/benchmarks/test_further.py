import numpy as np
import pytest

from benchmarks.further_problems import Machine, Prices, best_mean


def mean_cost(machine, actions):
    """Return the mean cost of a policy, from the stationary distribution of its chain."""
    n, risk = machine.LEVELS, machine.parameters.first
    chain, cost = np.zeros((n, n)), np.zeros(n)
    for wear, action in enumerate(actions):
        left, price = {0: (wear, 0.0), 1: (max(0, wear - 4), 8.0), 2: (0, 20.0)}[action]
        cost[wear] = price + 100.0 * risk[left]
        chain[wear, 0] += risk[left]
        for more, share in ((0, 0.3), (1, 0.5), (2, 0.2)):
            chain[wear, min(left + more, n - 1)] += share * (1.0 - risk[left])
    equations = np.vstack([chain.T - np.eye(n), np.ones(n)])
    share = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return float(share @ cost)


def test_the_machine_is_best_with_thresholds():
    machine = Machine()
    costs = [
        mean_cost(machine, np.where(np.arange(21) >= replace, 2, np.where(np.arange(21) >= repair, 1, 0)))
        for repair in range(22)
        for replace in range(repair, 22)
    ]
    assert machine.optimum() == pytest.approx(min(costs), rel=1e-7)


def test_a_periodic_chain_has_its_mean():
    there_and_back = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert best_mean([there_and_back], np.array([[1.0], [4.0]])) == pytest.approx(2.5)


def test_a_season_of_one_price_brings_less():
    prices = Prices()
    rng, best = np.random.default_rng(0), prices.optimum()
    for price in (50.0, 100.0, 150.0, 200.0, 250.0):
        sold = np.minimum(rng.poisson(3.0 * np.exp(-price / 100.0), (4_000, 50)).sum(axis=1), 30)
        assert price * sold.mean() < best
    assert best < 30 * 250.0
