"""The event loop against two independent simulators, Ciw and SimPy, on queues that theory has no formula for.

The libraries draw their own random numbers, so the comparison is of means: four standard errors of the difference.
"""

import math
import random

import ciw
import numpy as np
import pytest
import simpy
from numba import njit
from oracles.process_play import play, scenario, service, summary

from longstride.process.simulator import ProcessSimulator

pytestmark = pytest.mark.slow

HORIZON, WARMUP = 1_500.0, 100.0


@njit
def urgent_first(state, p, mask, rng):
    """Serve activity 0 before activity 1, by any free resource."""
    for pair in range(len(p.pair_mean)):
        if mask[pair]:
            return pair
    return len(p.pair_mean)


@njit
def urgent_last(state, p, mask, rng):
    """Serve activity 1 before activity 0."""
    for pair in range(len(p.pair_mean) - 1, -1, -1):
        if mask[pair]:
            return pair
    return len(p.pair_mean)


@njit
def earliest_enabled(state, p, mask, rng):
    """Serve the task that waits longest in its queue, whichever case it belongs to."""
    chosen, earliest = len(p.pair_mean), math.inf
    for pair in range(len(p.pair_mean)):
        if mask[pair] and state.slot_enabled[state.queue_head[p.pair_activity[pair]]] < earliest:
            chosen, earliest = pair, state.slot_enabled[state.queue_head[p.pair_activity[pair]]]
    return chosen


URGENT_FIRST, URGENT_LAST, EARLIEST = range(3)


@njit
def choose(state, p, observed, which, rng, row):
    """Choose by one of the rules above, so that a scenario's loop is compiled once."""
    if which == URGENT_FIRST:
        return urgent_first(state, p, observed.mask, rng)
    if which == URGENT_LAST:
        return urgent_last(state, p, observed.mask, rng)
    return earliest_enabled(state, p, observed.mask, rng)


def difference(ours: list[float], theirs: list[float]) -> float:
    """Return the difference of two means in standard errors."""
    (a, error_a), (b, error_b) = summary(ours), summary(theirs)
    assert max(error_a, error_b) < 0.05 * b
    return (a - b) / math.hypot(error_a, error_b)


def test_priorities_in_a_pool_agree_with_ciw():
    rate, share, episodes = 1.35, 0.4, 30
    network = ciw.create_network(
        arrival_distributions={
            "urgent": [ciw.dists.Exponential(rate * share)],
            "other": [ciw.dists.Exponential(rate * (1 - share))],
        },
        service_distributions={"urgent": [ciw.dists.Exponential(1 / 0.8)], "other": [ciw.dists.Uniform(0.5, 2.5)]},
        number_of_servers=[2],
        priority_classes={"urgent": 0, "other": 1},
    )
    theirs = []
    for seed in range(episodes):
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(HORIZON)
        records = [r for r in simulation.get_all_records() if r.arrival_date >= WARMUP]
        theirs.append(np.mean([r.exit_date - r.arrival_date for r in records]))
    branches = [{"p": share, "branch": {"task": "urgent"}}, {"p": 1 - share, "branch": {"task": "other"}}]
    simulator = ProcessSimulator(
        scenario(
            time_unit="abstract",
            horizon={"value": HORIZON},
            warmup=WARMUP,
            arrivals={"process": "poisson", "rate": rate},
            activities=["urgent", "other"],
            resources=["r", "s"],
            service=[service("urgent", r, "exponential", mean=0.8) for r in "rs"]
            + [service("other", r, "uniform", low=0.5, high=2.5) for r in "rs"],
            flow={"xor": branches},
        )
    )
    ours = [e.metrics["mean_cycle_time"] for e in play(simulator, URGENT_FIRST, 60, chooser=choose)]
    assert abs(difference(ours, theirs)) < 4
    # The other order would have been noticed.
    wrong = [e.metrics["mean_cycle_time"] for e in play(simulator, URGENT_LAST, 60, chooser=choose)]
    assert difference(wrong, theirs) > 4


def test_rework_in_a_shared_pool_agrees_with_simpy():
    rate, again, episodes = 1.0, 0.3, 20

    def case(environment, pool, rng, cycle_times):
        arrival = environment.now
        while True:
            for draw in (lambda: 0.5, lambda: rng.expovariate(1 / 0.6)):
                with pool.request() as request:
                    yield request
                    yield environment.timeout(draw())
            if rng.random() >= again:
                break
        if arrival >= WARMUP:
            cycle_times.append(environment.now - arrival)

    def source(environment, pool, rng, cycle_times):
        while True:
            yield environment.timeout(rng.expovariate(rate))
            environment.process(case(environment, pool, rng, cycle_times))

    theirs = []
    for seed in range(episodes):
        environment, cycle_times = simpy.Environment(), []
        environment.process(source(environment, simpy.Resource(environment, 2), random.Random(seed), cycle_times))
        environment.run(HORIZON)
        theirs.append(np.mean(cycle_times))

    simulator = ProcessSimulator(
        scenario(
            time_unit="abstract",
            horizon={"value": HORIZON},
            warmup=WARMUP,
            arrivals={"process": "poisson", "rate": rate},
            activities=["A", "B"],
            resources=["r", "s"],
            service=[service("A", r, "constant", mean=0.5) for r in "rs"]
            + [service("B", r, "exponential", mean=0.6) for r in "rs"],
            flow={
                "start": [{"p": 1.0, "activity": "A"}],
                "next": {
                    "A": [{"p": 1.0, "activity": "B"}],
                    "B": [{"p": again, "activity": "A"}, {"p": 1 - again, "activity": None}],
                },
            },
        )
    )
    played = play(simulator, EARLIEST, 60, chooser=choose)
    ours = [e.metrics["mean_cycle_time"] for e in played]
    assert abs(difference(ours, theirs)) < 4
    # Both resources carry the load rate * E[visits] * (0.5 + 0.6) / 2.
    use = np.mean([e.metrics["mean_utilisation"] for e in played])
    assert abs(use - rate / (1 - again) * 1.1 / 2) < 0.01
