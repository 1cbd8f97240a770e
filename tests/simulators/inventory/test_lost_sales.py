"""Lost sales: the published optimum against value iteration, the kernel and its rules against plain Python."""

import numpy as np
import pytest
from helpers.long_run import long_run
from oracles.lost_sales import demand_law, most_units, optimal_cost

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.inventory.lost_sales import LostSales
from longstride.simulators.inventory.lost_sales_figures import DEMANDS, FIGURES, LEAD_TIMES, PENALTIES, figures_of
from longstride.simulators.loading import load_simulator
from longstride.simulators.simulator import compiled, function_of, new_state

INSTANCES = [(demand, penalty, lead) for demand in DEMANDS for penalty in PENALTIES for lead in LEAD_TIMES]


@pytest.mark.parametrize(("demand", "penalty", "lead_time"), [case for case in INSTANCES if case[2] == 1])
def test_value_iteration_finds_the_published_optimum(demand, penalty, lead_time):
    cost, error = optimal_cost(demand, penalty, lead_time)
    assert error < 1e-3
    assert cost == pytest.approx(figures_of(demand, penalty, lead_time).optimum, abs=0.0051)


@pytest.mark.slow
@pytest.mark.parametrize(("demand", "penalty"), [("poisson", 4), ("poisson", 9), ("poisson", 19), ("poisson", 39)])
def test_value_iteration_finds_the_published_optimum_of_two_periods(demand, penalty):
    assert optimal_cost(demand, penalty, 2)[0] == pytest.approx(figures_of(demand, penalty, 2).optimum, abs=0.0051)


def test_the_published_optima_are_ordered():
    for figures in FIGURES.values():
        optima = [entry.optimum for entry in figures]
        assert optima == sorted(optima)  # a longer lead time cannot help
    for lead in LEAD_TIMES:
        for demand in DEMANDS:
            optima = [figures_of(demand, penalty, lead).optimum for penalty in PENALTIES]
            assert optima == sorted(optima)


@pytest.mark.slow
@pytest.mark.parametrize(("demand", "penalty", "lead_time"), INSTANCES)
def test_rules_cost_what_they_should(demand, penalty, lead_time):
    """The best rules come close to the optimum, none beats it beyond chance."""
    simulator, optimum = LostSales(lead_time, penalty, demand), figures_of(demand, penalty, lead_time).optimum
    costs = {rule: long_run(simulator, rule, 100_000) for rule in simulator.heuristics}
    chance = 0.02 if demand == "poisson" else 0.06
    assert all(cost > optimum * (1 - chance) for cost in costs.values())
    assert costs["capped_base_stock"] < optimum * (1.03 + chance)
    assert costs["base_stock"] < optimum * (1.13 + chance)
    assert costs["myopic"] < optimum * (1.13 + chance)


def test_base_stock_costs_what_zipkin_published():
    """Table 3 of the paper: 4.16 for Poisson demand, penalty 4 and lead time 1, and 5.20 for lead time 4."""
    for lead_time, published in ((1, 4.16), (4, 5.20)):
        assert long_run(LostSales(lead_time, 4), "base_stock", 1_000_000) == pytest.approx(published, abs=0.02)


def plain_costs(orders, demands, lead_time, penalty):
    """Return the cost of each period from a list of orders and demands."""
    arriving, stock, costs = [5] * (lead_time - 1) + list(orders), 5, []
    for period, demand in enumerate(demands):
        costs.append(max(stock - demand, 0) + penalty * max(demand - stock, 0))
        stock = max(stock - demand, 0) + arriving[period]
    return costs


@pytest.mark.parametrize("lead_time", LEAD_TIMES)
@pytest.mark.parametrize("demand", DEMANDS)
def test_a_period_is_the_textbooks(lead_time, demand):
    simulator = LostSales(lead_time, 9, demand)
    state, rng = new_state(simulator)[0], np.random.default_rng(5)
    step = compiled(function_of(simulator, "step"))
    compiled(function_of(simulator, "reset"))(state, simulator.parameters, rng)
    orders = np.random.default_rng(6).integers(0, 11, 300)
    rewards = [step(state, simulator.parameters, order, rng)[0] for order in orders]
    again = np.random.default_rng(5)
    demands = [again.poisson(5) if demand == "poisson" else again.geometric(1 / 6) - 1 for _ in orders]
    assert [-reward for reward in rewards] == plain_costs(orders, demands, lead_time, 9)
    assert state.cost == -sum(rewards)


@pytest.mark.parametrize("pipeline", [(0, 0, 0), (5, 5, 5), (0, 9, 2), (20, 0, 0), (3, 0, 7)])
def test_the_myopic_order_is_the_least_that_meets_demand_often_enough(pipeline):
    simulator = LostSales(3, 9)
    state, rng = new_state(simulator)[0], np.random.default_rng(1)
    state.pipeline[:] = pipeline
    order = compiled(simulator.heuristics["myopic"])(state, simulator.parameters, np.ones(12, bool), rng)
    demands, stock = demand_law("poisson").rvs((200_000, 3), random_state=rng), np.full(200_000, pipeline[0])
    for period in range(3):
        stock = np.maximum(stock - demands[:, period], 0) + (pipeline[period + 1] if period < 2 else 0)
    met = [demand_law("poisson").cdf(stock + n).mean() for n in range(12)]
    allowed = simulator.parameters.most - sum(pipeline)
    assert order == next(n for n in range(12) if met[n] >= 0.9 - 1e-4 or n == allowed)


@pytest.mark.parametrize("lead_time", [1, 4])
def test_the_contract_is_kept(lead_time):
    assert check_simulator(LostSales(lead_time, 39, "geometric")) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"lead_time": 5}, "lead_time is one of 1, 2, 3, 4, not 5."),
        ({"penalty": 5}, "penalty is one of 4, 9, 19, 39, not 5."),
        ({"demand": "normal"}, "demand is one of poisson, geometric, not 'normal'."),
    ],
)
def test_wrong_options_are_sentences(options, part):
    with pytest.raises(UserError) as error:
        load_simulator("lost_sales", options)
    assert part in str(error.value)


@pytest.mark.parametrize(("demand", "penalty", "lead_time"), INSTANCES)
def test_the_mask_forbids_no_order_of_the_rules(demand, penalty, lead_time):
    """The oracle's bound on stock and orders is the mask's, and the best levels are within it."""
    parameters = LostSales(lead_time, penalty, demand).parameters
    assert parameters.most == most_units(demand, penalty, lead_time)
    assert max(parameters.level, parameters.capped_level) <= parameters.most


@pytest.mark.parametrize("units", [0, 10, 18])
def test_orders_beyond_the_bound_are_masked(units):
    simulator, mask = LostSales(2, 4), np.ones(12, bool)
    state = new_state(simulator)[0]
    state.pipeline[:] = units, 0
    LostSales.action_mask(state, simulator.parameters, mask)
    assert mask.tolist() == [units + order <= 18 for order in range(12)]
