"""The base-stock problem: its formula against integration and simulation, a period against plain Python."""

import numpy as np
import pytest
from helpers.long_run import long_run
from scipy import integrate, stats

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.inventory.base_stock import BaseStock, newsvendor
from longstride.simulators.loading import load_simulator
from longstride.simulators.simulator import compiled, new_state

CASES = [(0, 9.0, 4.0), (2, 9.0, 4.0), (1, 19.0, 1.0), (5, 4.0, 0.5)]


@pytest.mark.parametrize(("lead_time", "penalty", "shape"), CASES)
def test_the_formula_is_the_integral_at_its_best(lead_time, penalty, shape):
    demand = stats.gamma((lead_time + 1) * shape, scale=1 / shape)

    def cost(level):
        left = integrate.quad(demand.cdf, 0, level)[0]
        missing = integrate.quad(demand.sf, level, np.inf)[0]
        return left + penalty * missing

    level, least = newsvendor(lead_time + 1, penalty, shape)
    assert least == pytest.approx(cost(level), rel=1e-6)
    assert least < min(cost(level * 0.97), cost(level * 1.03))


def test_exponential_demand_without_a_lead_time_has_a_closed_form():
    """The level is log(1 + penalty), and that is what it costs, too."""
    assert newsvendor(1, 19.0, 1.0) == pytest.approx((np.log(20), np.log(20)))


@pytest.mark.parametrize(("lead_time", "penalty", "shape"), CASES)
def test_the_best_level_costs_what_the_formula_says(lead_time, penalty, shape):
    simulator = BaseStock(lead_time, penalty, shape)
    optimum = simulator.references["optimum (newsvendor)"]
    assert long_run(simulator, "base_stock", 2_000_000) == pytest.approx(optimum, rel=0.01)
    assert long_run(simulator, "mean_demand", 1_000_000) > 1.05 * optimum


@pytest.mark.parametrize("lead_time", [0, 1, 3])
def test_a_period_is_the_textbooks(lead_time):
    simulator = BaseStock(lead_time)
    state, rng = new_state(simulator)[0], np.random.default_rng(5)
    compiled(BaseStock.reset)(state, simulator.parameters, rng)
    orders = np.random.default_rng(6).uniform(0, 2, 200).astype(np.float32)
    rewards = [compiled(BaseStock.step)(state, simulator.parameters, orders[n : n + 1], rng)[0] for n in range(200)]
    demands, on_order, stock, costs = np.random.default_rng(5).gamma(4.0, 0.25, 200), [1.0] * (lead_time - 1), 1.0, []
    for order, demand in zip(orders, demands, strict=True):
        on_order.append(min(float(order), max(0.0, simulator.parameters.most - stock - sum(on_order))))
        stock += on_order.pop(0) if lead_time == 0 else 0.0
        stock = max(stock - demand, -simulator.parameters.waiting)
        costs.append(max(stock, -9 * stock))
        stock += on_order.pop(0) if lead_time > 0 else 0.0
    np.testing.assert_allclose(rewards, -np.array(costs), atol=1e-9)


def test_neither_stock_nor_what_waits_grows_without_end():
    """Who orders nothing has as much waiting as may; who orders without end has twice the best level."""

    def always(order):
        def rule(state, parameters, mask, rng, action):
            action[0] = order

        return rule

    simulator = BaseStock(2)
    waiting, level = simulator.parameters.waiting, simulator.parameters.level
    assert stats.gamma(12, scale=0.25).sf(level + waiting) == pytest.approx(1e-9, rel=1e-3)
    assert long_run(simulator, always(0.0), 100_000) == pytest.approx(9 * waiting, rel=1e-3)
    assert long_run(simulator, always(1000.0), 100_000) == pytest.approx(2 * level - 3, rel=0.01)


@pytest.mark.parametrize("lead_time", [0, 2])
def test_the_contract_is_kept(lead_time):
    assert check_simulator(BaseStock(lead_time)) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"lead_time": -1}, "lead_time is a whole number from 0 to 20, not -1."),
        ({"penalty": 0}, "penalty is a number above 0 and below 1e+06, not 0."),
        ({"shape": "flat"}, "shape is a number above 0.25 and below 1e+06, not 'flat'."),
    ],
)
def test_wrong_options_are_sentences(options, part):
    with pytest.raises(UserError) as error:
        load_simulator("base_stock", options)
    assert part in str(error.value)
