"""QGym's input switch and 5 x 5 network against closed formulas and a plain simulation with own service times."""

import numpy as np
import pytest
from helpers.long_run import long_run

from longstride.simulators.check import check_simulator
from longstride.simulators.queueing.network import LEAVES
from longstride.simulators.simulator import new_state
from research.learning.public.queueing_networks import (
    INPUT_SWITCH,
    LATER_RATES,
    SURGE_ENDS,
    SURGE_RATES,
    FiveByFive,
    InputSwitch,
    InputSwitchAsCoded,
    reset_five,
    step_five,
)

NETWORKS = {"switch": InputSwitch, "as_coded": InputSwitchAsCoded, "5x5": FiveByFive}


def plain_switch(as_coded, events, seed):
    """Return the mean jobs of each class under the c-mu rule; a server serves the lower of its classes first."""
    rng, queues, rates = np.random.default_rng(seed), [[] for _ in range(6)], INPUT_SWITCH.arrival_rate
    arrival = [rng.exponential(1 / rate) if rate else np.inf for rate in rates]
    area, clock = np.zeros(6), 0.0
    for _ in range(events):
        serving = []
        for classes in ((0, 1), (2, 3), (4, 5)):
            busy = [k for k in classes if queues[k]]
            serving += [(queues[busy[0]][0], busy[0])] if busy else []
        done, served = min(serving, default=(np.inf, -1))
        entered = int(np.argmin(arrival))
        duration = min(done, arrival[entered])
        area += duration * np.array([len(queue) for queue in queues])
        clock, arrival = clock + duration, [left - duration for left in arrival]
        for _, k in serving:
            queues[k][0] -= duration
        if done == duration:
            queues[served].pop(0)
            after = INPUT_SWITCH.next_class[served]
            if after != LEAVES:
                queues[after].append(rng.exponential())
                arrival[after] += rng.exponential(1 / rates[after]) if as_coded and rates[after] else 0.0
        else:
            queues[entered].append(rng.exponential())
            arrival[entered] = rng.exponential(1 / rates[entered])
    return area / clock


@pytest.mark.parametrize("network", NETWORKS)
def test_the_contract_is_kept(network):
    assert check_simulator(NETWORKS[network](), steps=2_000) == []


def test_the_surge_is_over_after_a_while():
    """Arrivals a time unit in the surge and later, by the clocks alone."""
    simulator, rng = FiveByFive(), np.random.default_rng(0)
    state, action, counts, spans = new_state(simulator)[0], np.zeros(4, np.int64), np.zeros((2, 5)), np.zeros(2)
    reset_five(state, simulator.parameters, rng)
    while state.time < 20 * SURGE_ENDS:
        before, jobs = float(state.time), state.queue.copy()
        step_five(state, simulator.parameters, action, rng)
        late = int(state.time > SURGE_ENDS)
        counts[late] += np.maximum(state.queue - jobs, 0)
        spans[late] += state.time - before
    for late, rates in enumerate((SURGE_RATES, LATER_RATES)):
        assert counts[late] / spans[late] == pytest.approx(rates, abs=4 * np.sqrt(rates.max() / spans[late]))


@pytest.mark.slow
@pytest.mark.parametrize("as_coded", [False, True])
def test_the_switch_costs_as_much_as_in_a_plain_simulation(as_coded):
    simulator = InputSwitchAsCoded() if as_coded else InputSwitch()
    plain = plain_switch(as_coded, 300_000, 1)
    assert plain[0] == pytest.approx(0.4 / 0.6, rel=0.05)  # M/M/1 with load 0.4
    assert plain[2] + plain[3] == pytest.approx(4.0, rel=0.15)  # M/M/1 with load 0.8, whatever is served first
    assert (plain[4] > 2.5) != as_coded  # half of the jobs are missing there
    assert long_run(simulator, "c_mu", 2_000_000) == pytest.approx(plain.sum(), rel=0.12)


@pytest.mark.slow
def test_the_rules_cost_what_is_published():
    """QGym's figures are of one sample path; ten paths of ours show how far one may lie from the mean."""
    published = {
        ("as_coded", "c_mu"): 5.30,
        ("as_coded", "max_weight"): 5.59,
        ("5x5", "c_mu"): 17.8,
        ("5x5", "max_weight"): 15.2,
    }
    for (network, rule), figure in published.items():
        costs = [long_run(NETWORKS[network](), rule, 50_000, seed) for seed in range(10)]
        assert abs(figure - np.mean(costs)) < 3 * np.std(costs, ddof=1), (network, rule, costs)
    assert np.mean([long_run(InputSwitch(), "c_mu", 50_000, seed) for seed in range(10)]) > 8.0
