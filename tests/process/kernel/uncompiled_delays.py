"""Delays and flows of cases: the same random numbers under every policy, a bound below each, and times that add up."""

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, SPT, bound_of, play, scenario, service

from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.state import WAITING_FULL
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.simulator import ProcessSimulator

POLICIES = FIFO, SPT, RANDOM


def shop(load=0.5, **changes):
    """Return three activities, the last automatic, two people and delays before the first two."""
    data = {
        "horizon": {"value": 800.0},
        "arrivals": {"process": "poisson", "rate": load},
        "activities": ["A", "B", "C"],
        "resources": ["R", "S"],
        "service": [
            service("A", "R", "exponential", mean=1.2),
            service("A", "S", "exponential", mean=1.8),
            service("B", "R", "constant", mean=0.5),
            service("B", "S", "lognormal", mean=1.0, cv=1.0),
        ],
        "flow": {"seq": [{"task": "A"}, {"and": [{"task": "B"}, {"task": "C"}]}]},
        "delays": [
            {"activity": "A", "distribution": "exponential", "mean": 20.0},
            {"activity": "B", "distribution": "uniform", "low": 0.0, "high": 30.0},
        ],
        "automatic": [{"activity": "C", "distribution": "constant", "mean": 7.0}],
        "delay_clock": [0.5] * 84 + [1.5] * 84,
    }
    return scenario(**{**data, **changes})


@pytest.fixture(scope="module")
def episodes():
    simulator = ProcessSimulator(shop())
    return simulator, {which: play(simulator, which, 1)[0] for which in POLICIES}


@pytest.mark.slow
def test_external_delays_do_not_depend_on_the_policy(episodes):
    _, played = episodes
    external = [episode.metrics["mean_world_time"] for episode in played.values()]
    assert max(external) == pytest.approx(min(external), rel=0.02)
    people = [episode.metrics["mean_people_time"] for episode in played.values()]
    assert max(people) > 1.1 * min(people)  # the policies do differ


def test_the_first_delay_of_a_case_is_the_same_to_the_bit_under_every_policy():
    made = shop(flow={"task": "A"}, automatic=[], activities=["A", "B"], delay_clock=None)
    queued = {}
    for which in POLICIES:
        (episode,) = play(ProcessSimulator(made), which, 1)
        queued[which] = episode.state.arrival_time[:100].copy(), episode.state.seed
    assert len({seed for _, seed in queued.values()}) == 1
    parameters, sizes = build_parameters(made)
    first, second = (play_logged(as_logged_record(parameters), parameters, sizes, 5, cases=100) for _ in range(2))
    fast = shop(flow={"task": "A"}, automatic=[], activities=["A", "B"], delay_clock=None)
    for entry in fast.service:
        if entry.mean:
            entry.mean /= 1000.0
    other = play_logged(as_logged_record(build_parameters(fast)[0]), build_parameters(fast)[0], sizes, 5, cases=100)
    rests = [played.queued[np.argsort(played.case)] for played in (first, second, other)]
    np.testing.assert_array_equal(rests[0], rests[1])
    np.testing.assert_array_equal(rests[0], rests[2])


def test_the_lower_bound_has_the_delays_and_lies_below_every_policy(episodes):
    simulator, played = episodes
    state, metrics = bound_of(simulator, 0)
    bound = np.where(state.completion_time >= 0, state.completion_time, np.inf)
    for episode in played.values():
        reached = np.where(episode.state.completion_time >= 0, episode.state.completion_time, np.inf)
        assert np.all(bound <= reached * (1 + 1e-12))
    assert metrics["mean_cycle_time"] > 30.0  # 20 and more of them are delays


def test_cycle_is_external_delay_and_people_and_work_and_the_reward_counts_the_latter_two(episodes):
    _, played = episodes
    for episode in played.values():
        m, cases = episode.metrics, int(episode.state.arrived)
        parts = m["mean_world_time"], m["mean_people_time"], m["mean_work_time"]
        assert sum(parts) == pytest.approx(m["mean_cycle_time"], rel=1e-9)
        assert -episode.total * 400.0 / cases == pytest.approx(parts[1] + parts[2], rel=1e-9)
        assert min(parts) > 0.2


def test_policies_see_no_timers():
    simulator = ProcessSimulator(shop(arrivals={"process": "replay", "times": [1.0, 2.0, 3.0]}))
    (episode,) = play(simulator, FIFO, 1)
    assert episode.state.arrived == 3
    states = np.zeros(1, simulator.state_dtype).view(np.recarray)
    simulator.reset(states[0], simulator.parameters, np.random.default_rng(0))
    observation = np.zeros(simulator.observation_size, np.float32)
    resting = states[0].open - states[0].waiting
    simulator.observe(states[0], simulator.parameters, observation)
    assert resting == states[0].resting > 0
    assert observation[-1] == states[0].open - resting  # cases that rest do not count as open there


def test_a_case_follows_its_order_and_its_delays():
    tasks = [
        {"task": "A", "delay": 2.0},
        {"task": "B", "delay": 1.0},
        {"task": "B", "after": [0], "delay": 10.0},
        {"task": "A", "after": [1, 2]},
    ]
    constant = [service(a, r, "constant", mean=m) for a, r, m in (("A", "R", 1.0), ("B", "S", 3.0))]
    made = scenario(
        horizon={"value": 100.0},
        arrivals={"process": "replay", "times": [5.0]},
        activities=["A", "B"],
        resources=["R", "S"],
        service=[{**entry, "observations": 1} for entry in constant],
        flow={"cases": [{"tasks": tasks}]},
    )
    parameters, sizes = build_parameters(made)
    played = play_logged(as_logged_record(parameters), parameters, sizes, 0, cases=1)
    order = np.argsort(played.start)
    # A 7-8; B from 9 (its delay of 1 after 8) to 12; B from 18 (10 after 8) to 21; then A.
    assert played.start[order].tolist() == [7.0, 9.0, 18.0, 21.0]
    assert played.end[order].tolist() == [8.0, 12.0, 21.0, 22.0]
    assert played.state.completion_time[0] == 22.0


def test_a_state_is_full_at_its_capacity():
    made = shop(5.0, capacity={"waiting_tasks": 7}, delays=[])
    parameters, sizes = build_parameters(made)
    state = play_logged(as_logged_record(parameters), parameters, sizes, 0).state
    assert (state.overflow, state.waiting, sizes.waiting) == (WAITING_FULL, 7, 7)
    parameters, sizes = build_parameters(shop(5.0))
    state = play_logged(as_logged_record(parameters), parameters, sizes._replace(timers=9), 0).state
    assert (state.overflow, state.timers) == (WAITING_FULL, 9)  # the tenth is one too many


def test_cases_are_drawn_by_their_weight():
    cases = [{"weight": w, "tasks": [{"task": "A"}] * n} for w, n in ((1.0, 1), (3.0, 2), (0.0, 5))]
    cases += [{"weight": 1e-9, "tasks": [{"task": "A"}]}] * 40  # enough branches for the search in halves
    made = scenario(
        horizon={"value": 2400.0},
        service=[{**service("A", "R", "constant", mean=0.1), "observations": 1}],
        flow={"cases": cases},
    )
    parameters, sizes = build_parameters(made)
    played = play_logged(as_logged_record(parameters), parameters, sizes, 0)
    visits = np.bincount(np.bincount(played.case))
    assert len(visits) == 3 and visits[2] / visits[1:].sum() == pytest.approx(0.75, abs=0.05)
    assert sizes.expected_tasks == pytest.approx(sizes.expected_cases * 1.75)
