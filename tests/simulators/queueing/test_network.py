"""Queueing networks against value iteration, formulas, and a plain simulation of single jobs."""

from typing import ClassVar

import numpy as np
import pytest
from helpers.long_run import long_run
from oracles.queueing import least_jobs_of_criss_cross, simulate

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.loading import load_simulator
from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.criss_cross import OPTIMA, SECOND_RATE, THRESHOLD, CrissCross
from longstride.simulators.queueing.network import LEAVES, Network, events_per_time, set_up
from longstride.simulators.simulator import Simulator, compiled, new_state


class AnyNetwork(Simulator):
    """A network of several choices, with all rules."""

    max_steps = 1000
    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric = "mean_cost"
    reset, observe, action_mask = dynamics.reset, dynamics.observe, dynamics.action_mask
    step, time, episode_metrics = dynamics.step_of_many, dynamics.time, dynamics.episode_metrics
    heuristics: ClassVar = {
        "c_mu": rules.c_mu,
        "max_weight": rules.max_weight,
        "max_pressure": rules.max_pressure,
        "last_first": rules.last_first,
    }

    def __init__(self, network):
        set_up(self, network)


class OneChoice(AnyNetwork):
    """The same where one station decides."""

    step = dynamics.step_of_one
    heuristics: ClassVar = {"c_mu": rules.c_mu_of_one, "max_weight": rules.max_weight_of_one}


LINE = Network(  # two stations, each with two classes of one route, and costs that differ
    arrival_rate=[0.5, 0, 0, 0],
    service_rate=[[2.0, 0, 2.5, 0], [0, 1.5, 0, 4.0]],
    next_class=[1, 2, 3, LEAVES],
    holding_cost=[1.0, 2.0, 1.5, 3.0],
    servers=[1, 1],
)
RULES = {
    "c_mu": lambda network: (
        lambda s, busy, n: max(busy, key=lambda k: network.holding_cost[k] * network.service_rate[s][k])
    ),
    "max_weight": lambda network: (
        lambda s, busy, n: max(busy, key=lambda k: network.holding_cost[k] * network.service_rate[s][k] * n[k])
    ),
    "max_pressure": lambda network: (
        lambda s, busy, n: max(
            busy,
            key=lambda k: (
                network.service_rate[s][k]
                * (
                    network.holding_cost[k] * n[k]
                    - (
                        network.holding_cost[network.next_class[k]] * n[network.next_class[k]]
                        if network.next_class[k] >= 0
                        else 0
                    )
                )
            ),
        )
    ),
    "last_first": lambda network: lambda s, busy, n: max(busy),
}


@pytest.mark.parametrize(("kind", "rate"), [case for case in OPTIMA if case[1] < 0.9])
def test_value_iteration_finds_the_published_optimum(kind, rate):
    least = least_jobs_of_criss_cross(SECOND_RATE[kind], rate, 16 if rate < 0.5 else 30)
    assert least == pytest.approx(OPTIMA[kind, rate], abs=0.003)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rate"), OPTIMA)
def test_rules_do_not_beat_the_optimum(kind, rate):
    simulator = CrissCross(kind, rate)
    steps, chance = (600_000, 0.12) if rate == 0.9 else (200_000, 0.02)
    costs = {rule: long_run(simulator, rule, steps) for rule in simulator.heuristics}
    assert all(cost > OPTIMA[kind, rate] * (1 - chance) for cost in costs.values())
    assert costs["threshold"] < OPTIMA[kind, rate] * (1.04 + chance)
    assert simulator.parameters.threshold == THRESHOLD[kind]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "spread"), [*zip(RULES, (0.0, 0.8, 0.8, 0.0), strict=True)])
def test_a_simulation_of_single_jobs_costs_the_same(rule, spread):
    network = Network(**{**LINE.__dict__, "spread": spread})
    plain = simulate(network, RULES[rule](network), 75_000, 1)  # with this seed within 5 % of the simulator
    assert long_run(AnyNetwork(network), rule, 1_000_000) == pytest.approx(plain, rel=0.07)


@pytest.mark.slow
def test_a_single_class_with_priority_is_an_m_m_1_queue():
    """The preferred class never waits for the other; two equal classes are one queue: rho / (1 - rho) jobs each."""
    network = Network([0.4, 0.4], [[2.0, 1.0]], [LEAVES, LEAVES], [1.0, 0.0], [1])
    assert long_run(OneChoice(network), "c_mu", 2_000_000) == pytest.approx(0.2 / 0.8, rel=0.02)
    equal = Network([0.4, 0.8], [[2.0, 2.0]], [LEAVES, LEAVES], [1.0, 1.0], [1])
    for rule in OneChoice.heuristics:
        assert long_run(OneChoice(equal), rule, 2_000_000) == pytest.approx(0.6 / 0.4, rel=0.02)


@pytest.mark.slow
def test_two_queues_in_a_row_are_jacksons():
    """A third class with its own station makes the network one of the contract's, with a choice."""
    network = Network(
        [0.5, 0, 0.2], [[1.0, 0, 0], [0, 0.8, 0], [0, 1e-9, 2.0]], [1, LEAVES, LEAVES], [1.0, 1.0, 0.0], [1, 1, 1]
    )
    assert long_run(OneChoice(network), "c_mu", 3_000_000) == pytest.approx(1.0 + 0.625 / 0.375, rel=0.04)


def test_a_pool_is_an_m_m_c_queue():
    """Two classes of one pool of 3 servers, all alike, have the jobs of Erlang's formula."""
    network = Network([0.9, 0.9], [[1.0, 1.0]], [LEAVES, LEAVES], [1.0, 1.0], [3])
    waiting = 0.6**3 * 3**3 / 6 / 0.4
    p_wait = waiting / (1 + 1.8 + 1.8**2 / 2 + waiting)
    assert long_run(OneChoice(network), "max_weight", 2_000_000) == pytest.approx(1.8 + p_wait * 0.6 / 0.4, rel=0.02)


def test_jobs_go_to_the_fastest_server_first():
    """One job and two stations that can serve it: the faster one does, and the slower one has nothing else to do."""
    network = Network([0.1, 0.1], [[1.0, 0.5], [0.0, 2.0]], [LEAVES, LEAVES], [1.0, 1.0], [1, 1])
    simulator = OneChoice(network)
    state, rng = new_state(simulator)[0], np.random.default_rng(0)
    step, completed = compiled(dynamics.step_of_one), 0
    for _ in range(4000):
        state.queue[:], state.speed[:] = (0, 1), 1.0
        state.time = state.cost = 0.0
        step(state, simulator.parameters, 1, rng)
        completed += state.queue[1] == 0
    assert state.flow.sum() == 2.0
    assert completed / 4000 == pytest.approx(2.0 / 2.2, abs=0.02)


def test_events_a_time_unit():
    assert events_per_time(LINE) == pytest.approx(0.5 * 5)
    assert CrissCross("balanced", 0.3).mean_interval == pytest.approx(1 / (0.3 * 5))


@pytest.mark.parametrize("queue", [(0, 0, 0), (3, 0, 1), (0, 2, 0), (4, 5, 6)])
def test_the_mask_lets_no_station_choose_an_empty_class(queue):
    simulator, mask = CrissCross(), np.ones(2, bool)
    state = new_state(simulator)[0]
    state.queue[:] = queue
    dynamics.action_mask(state, simulator.parameters, mask)
    assert mask.tolist() == ([True, True] if queue[:2] == (0, 0) else [queue[0] > 0, queue[1] > 0])


@pytest.mark.slow
def test_the_contract_is_kept():
    assert check_simulator(CrissCross("imbalanced", 0.6)) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kind": "odd"}, "kind is one of balanced, imbalanced, not 'odd'."),
        ({"arrival_rate": 1}, "arrival_rate is a number above 0 and below 1, not 1."),
    ],
)
def test_wrong_options_are_sentences(options, part):
    with pytest.raises(UserError) as error:
        load_simulator("criss_cross", options)
    assert part in str(error.value)
