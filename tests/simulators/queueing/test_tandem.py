"""The tandem queues: formulas of one speed, brute force over all policies of a tiny one, the optimum played."""

import itertools

import numpy as np
import pytest
from helpers.long_run import long_run

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.loading import load_simulator
from longstride.simulators.queueing.tandem import HOLDING, REFUSAL, SPEEDS, Tandem
from longstride.simulators.queueing.tandem_optimum import least_cost
from longstride.simulators.simulator import compiled, new_state


def mean_cost(policy, arrival_rate, capacity, power):
    """Return the average cost of speeds by state, by the equations of the stationary distribution.

    Args:
        policy: (jobs in queue 1, jobs in queue 2) -> speeds of the two servers.
    """
    states = list(itertools.product(range(capacity + 1), repeat=2))
    number, rates, cost = {state: i for i, state in enumerate(states)}, np.zeros((len(states),) * 2), []
    for a, b in states:
        one, two = policy((a, b))
        works = a > 0 and b < capacity
        cost.append(HOLDING[0] * a + HOLDING[1] * b + power * (one**2 * works + two**2 * (b > 0)))
        if a < capacity:
            rates[number[a, b], number[a + 1, b]] += arrival_rate
        else:
            cost[-1] += arrival_rate * REFUSAL
        if works:
            rates[number[a, b], number[a - 1, b + 1]] += one
        if b > 0:
            rates[number[a, b], number[a, b - 1]] += two
    balance = np.vstack([(rates - np.diag(rates.sum(axis=1))).T, np.ones(len(states))])
    share = np.linalg.lstsq(balance, np.array([0.0] * len(states) + [1.0]), rcond=None)[0]
    return float(share @ cost)


def test_no_policy_of_a_tiny_line_is_better():
    speeds, states = (0.5, 2.0), list(itertools.product(range(3), repeat=2))
    first = [(a, b) for a, b in states if a > 0 and b < 2]
    second = [(a, b) for a, b in states if b > 0]
    best = np.inf
    for chosen in itertools.product(speeds, repeat=len(first) + len(second)):
        one = dict(zip(first, chosen[: len(first)], strict=True))
        two = dict(zip(second, chosen[len(first) :], strict=True))
        best = min(best, mean_cost(lambda s, one=one, two=two: (one.get(s, 0.5), two.get(s, 0.5)), 0.8, 2, 2.0))
    assert least_cost(0.8, 2, 2.0, speeds, HOLDING, REFUSAL).cost == pytest.approx(best, abs=1e-4)


def test_one_speed_is_jacksons_network():
    """Without a choice: arrival rate 0.4 and speed 1 are two M/M/1 queues that are busy 40 % of the time."""
    solution = least_cost(0.4, 40, 2.0, (1.0,), HOLDING, REFUSAL)
    assert solution.cost == pytest.approx(0.4 / 0.6 * 3.0 + 2.0 * 0.8, abs=1e-3)


@pytest.mark.parametrize("options", [{}, {"arrival_rate": 1.2, "power": 5.0, "capacity": 8}])
def test_the_optimum_is_what_its_policy_costs(options):
    simulator = Tandem(**options)
    parameters, optimum = simulator.parameters, simulator.references["optimum (value iteration)"]
    power = parameters.power[2]
    solution = least_cost(parameters.arrival_rate, parameters.capacity, power, SPEEDS, HOLDING, REFUSAL)
    table = solution.speed

    def best(state, parameters, mask, rng, action):
        action[0], action[1] = table[0, state.queue[0], state.queue[1]], table[1, state.queue[0], state.queue[1]]

    exact = mean_cost(
        lambda s: (SPEEDS[table[0][s]], SPEEDS[table[1][s]]), parameters.arrival_rate, parameters.capacity, power
    )
    assert optimum == pytest.approx(exact, abs=1e-4)
    assert long_run(simulator, best, 3_000_000) == pytest.approx(optimum, rel=0.01)
    for rule in simulator.heuristics:
        assert long_run(simulator, rule, 300_000) > 1.01 * optimum


def test_rules_cost_what_the_stationary_distribution_says():
    exact = mean_cost(lambda s: (2.0, 2.0), 0.8, 20, 2.0)
    assert long_run(Tandem(), "full_speed", 3_000_000) == pytest.approx(exact, rel=0.01)


def test_a_full_queue_refuses_and_blocks():
    simulator, rng = Tandem(capacity=2), np.random.default_rng(0)
    state, step = new_state(simulator)[0], compiled(Tandem.step)
    for _ in range(2000):
        state.queue[:] = 2, 2
        step(state, simulator.parameters, np.array([4, 4]), rng)
        assert state.queue.tolist() in ([2, 2], [2, 1])
    assert state.refused / 2000 == pytest.approx(0.8 / 4.8, abs=0.03)


def test_the_contract_is_kept():
    assert check_simulator(Tandem()) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"arrival_rate": 2.0}, "arrival_rate is a number above 0 and below 2, not 2.0."),
        ({"capacity": 1}, "capacity is a whole number from 2 to 50, not 1."),
        ({"power": "much"}, "power is a number above 0 and below 1000, not 'much'."),
    ],
)
def test_wrong_options_are_sentences(options, part):
    with pytest.raises(UserError) as error:
        load_simulator("tandem", options)
    assert part in str(error.value)
