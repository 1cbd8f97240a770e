"""Long-run costs of chains against other computations of the same optima, closed formulas and played episodes."""

import numpy as np
import pytest
from oracles.lost_sales import optimal_cost
from oracles.queueing import least_cost_of_n_model, least_jobs_of_criss_cross

from longstride.simulators.inventory.lost_sales import LostSales
from longstride.simulators.queueing.criss_cross import CrissCross
from longstride.simulators.queueing.n_model import N_MODEL, NModel
from longstride.simulators.queueing.tandem import Tandem
from longstride.training.evaluation.evaluate import evaluate
from research.learning.long_run import long_run_cost
from research.learning.long_run_models import model_of


def best_policy(model, sweeps=3_000):
    """Return the policy of value iteration with half steps, float64[S, actions]."""
    rows, values = np.arange(len(model.states)), np.zeros(len(model.states))
    ends = np.cumsum([0, *(1 + max(column) for column in zip(*model.actions, strict=True))])
    for _ in range(sweeps):
        action_values = []
        for action in model.actions:
            cost, moves = model.follows(rows, action)
            allowed = model.allowed[:, ends[:-1] + action].all(axis=1)
            action_values.append(np.where(allowed, cost + sum(chance * values[to] for to, chance in moves), np.inf))
        new = np.minimum.reduce(action_values)
        values = 0.5 * (values + new)
        values -= values[0]
    return np.eye(len(model.actions))[np.argmin(action_values, axis=0)]


def test_the_best_policy_of_the_tandem_queues_costs_their_optimum():
    simulator = Tandem(capacity=6)
    cost, at_edge = long_run_cost(model := model_of(simulator, 0), best_policy(model))
    assert cost == pytest.approx(next(iter(simulator.references.values())), rel=1e-5)
    assert 0.0 < at_edge < 1.0


def test_the_best_policy_of_the_n_model_costs_what_policy_iteration_says():
    least, helps = least_cost_of_n_model(N_MODEL, 30)
    policy = np.stack([~helps.ravel(), helps.ravel()], axis=1).astype(float)
    assert long_run_cost(model_of(NModel(), 30), policy)[0] == pytest.approx(least, rel=1e-4)


def test_the_best_policy_of_the_criss_cross_network_has_its_least_number_of_jobs():
    model = model_of(CrissCross("imbalanced", 0.3), 8)
    assert long_run_cost(model, best_policy(model))[0] == pytest.approx(
        least_jobs_of_criss_cross(1.5, 0.3, 8), rel=1e-3
    )


@pytest.mark.parametrize(("demand", "lead_time"), [("poisson", 2), ("geometric", 1)])
def test_the_best_policy_of_lost_sales_costs_their_optimum(demand, lead_time):
    model = model_of(LostSales(lead_time, 4, demand), 0)
    least, error = optimal_cost(demand, 4, lead_time)
    assert long_run_cost(model, best_policy(model, 200))[0] == pytest.approx(least, rel=1e-4, abs=2 * error)


@pytest.mark.parametrize(
    ("simulator", "most", "rule", "action"),
    [
        (
            LostSales(2, 9),
            0,
            "constant_order",
            lambda s, m: np.minimum(s.parameters.constant, m.allowed.sum(axis=1) - 1),
        ),
        (Tandem(), 0, "full_speed", lambda s, m: np.full(len(m.states), len(m.actions) - 1)),
        (CrissCross("balanced", 0.6), 40, "class_1_first", lambda s, m: 1 * ~m.allowed[:, 0]),
        (NModel(), 100, "max_weight", lambda s, m: 1 * ~m.allowed[:, 0] | (m.states @ [1, -1.5] < 0) & m.allowed[:, 1]),
    ],
)
def test_a_rule_costs_what_episodes_cost(simulator, most, rule, action):
    model = model_of(simulator, most)
    cost = long_run_cost(model, np.eye(len(model.actions))[action(simulator, model)])[0]
    found = np.array([record["mean_cost"] for record in evaluate(simulator, [rule], None, 16, 0).records[rule]])
    assert cost == pytest.approx(found.mean(), abs=4 * found.std(ddof=1) / np.sqrt(len(found)))
