from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from benchmarks.further_problems_of_operations import (
    AssetSale,
    DualSourcing,
    Impatience,
    Perishable,
    Regulator,
    Storage,
)


def fresh(problem):
    """Return a state with the fields of a problem's record."""
    fields = {name: of.subdtype for name, (of, *_) in problem.state_dtype.fields.items()}
    return SimpleNamespace(**{name: 0 if part is None else np.zeros(part[1], part[0]) for name, part in fields.items()})


def played(problem, rule, steps=60_000, seed=0):
    """Return the mean reward a step of a rule from observation to action."""
    state, rng = fresh(problem), np.random.default_rng(seed)
    problem.reset(state, problem.parameters, rng)
    observation, total = np.zeros(problem.observation_size), 0.0
    for _ in range(steps):
        problem.observe(state, problem.parameters, observation)
        reward, ended = problem.step(state, problem.parameters, rule(observation), rng)
        total += reward
        if ended:
            problem.reset(state, problem.parameters, rng)
        observation[:] = 0.0
    return total / steps


def test_orders_up_to_a_level_come_close_to_the_best_order_of_perishable_goods():
    problem = Perishable()
    cost = min(-played(problem, lambda seen, up_to=up_to: int(max(up_to - seen.sum(), 0))) for up_to in (7, 8, 9, 10))
    assert 0.99 < cost / problem.optimum() < 1.15


def test_two_levels_come_close_to_the_best_orders_from_two_sources():
    problem, costs = DualSourcing(), []
    for now, later in [(now, later) for now in (3, 4) for later in (10, 11, 12)]:

        def orders(seen, now=now, later=later):
            at_once = min(max(now - seen[0], 0), 6)
            return np.array([min(max(later - seen.sum() - at_once, 0), 6), at_once], np.int64)

        costs.append(-played(problem, orders, 30_000))
    assert 0.98 < min(costs) / problem.optimum() < 1.1


def test_prices_at_which_to_buy_and_sell_come_close_to_the_best_use_of_a_battery():
    problem = Storage()
    gains = [
        played(problem, lambda seen, low=low, high=high: 1 if seen[1] <= low else (2 if seen[1] >= high else 0))
        for low in (22.0, 25.0, 28.0)
        for high in (34.0, 37.0, 40.0)
    ]
    assert 0.85 < max(gains) / problem.optimum() < 1.06


def test_a_priority_is_not_better_than_the_best_service_of_impatient_customers():
    problem = Impatience()
    first = -played(problem, lambda seen: 0 if seen[0] > 0 else 1)
    second = -played(problem, lambda seen: 1 if seen[1] > 0 else 0)
    assert 0.97 < min(first, second) / problem.optimum() < 1.3


def test_the_feedback_of_the_riccati_equation_costs_what_the_equation_says():
    problem = Regulator()
    riccati = solve_discrete_are(problem.MOVE, problem.PUSH, np.eye(4), 0.1 * np.eye(2))
    inner = 0.1 * np.eye(2) + problem.PUSH.T @ riccati @ problem.PUSH
    gain = np.linalg.solve(inner, problem.PUSH.T @ riccati @ problem.MOVE)
    assert -played(problem, lambda seen: -gain @ seen) == pytest.approx(problem.optimum(), rel=0.05)
    assert -played(problem, lambda seen: -0.5 * gain @ seen) > 1.02 * problem.optimum()


def test_falling_limits_sell_for_the_optimum():
    problem, limits = AssetSale(), [0.0]
    for _ in range(30):
        limits.append((1.0 + limits[-1] ** 2) / 2.0)
    state, rng, prices = fresh(problem), np.random.default_rng(0), []
    for _ in range(5_000):
        problem.reset(state, problem.parameters, rng)
        ended = False
        while not ended:
            action = int(state.offer >= limits[30 - state.seen])
            _, ended = problem.step(state, problem.parameters, action, rng)
        prices.append(state.price)
    assert np.mean(prices) == pytest.approx(problem.optimum(), rel=0.005)
