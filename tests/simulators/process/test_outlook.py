"""What is expected of the next hours: against integrals, a heap, hours on a wall clock, and a hand-made state."""

import heapq
import math
from functools import cache

import numpy as np
import pytest
from oracles.process_play import clerk, office, rework, scenario, service
from scipy import integrate

from core.seeding import stream
from core.simulators.process import action_features
from core.simulators.process.parameters import build_parameters
from core.simulators.process.service_times import least_residual, mean_residual, service_time
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import compile_functions, new_state

TIMES = {
    "exponential": {"mean": 2.5},
    "constant": {"mean": 2.0},
    "uniform": {"low": 1.0, "high": 4.0},
    "lognormal": {"mean": 2.0, "cv": 1.7},
    "quantiles": {"quantiles": [0.5, 0.5, 1.0, 2.0, 2.0, 9.0]},
}


@cache
def row_and_times(name):
    """Return the row of a kind of service, and its times at 400,000 even quantiles."""
    p, _ = build_parameters(scenario(service=[service("A", "R", name, **TIMES[name])]))
    row = p.service_kind[0], p.service_scale[0], p.service_low[0], p.service_high[0], p.service_table
    return p, row, np.array([service_time(*row, u) for u in (np.arange(400_000) + 0.5) / 400_000])


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("elapsed", [0.0, 0.4, 0.5, 1.3, 1.9999, 2.5, 3.7, 8.5])
def test_the_expected_rest_of_a_service_is_the_integral_over_its_survivors(name, elapsed):
    p, row, times = row_and_times(name)
    actual = mean_residual(*row, p.service_tail, elapsed)
    survivors = times[times > elapsed]
    expected = survivors.mean() - elapsed if len(survivors) else 0.0
    if name in ("exponential", "lognormal"):  # the grid is coarse where the tail is long
        assert actual == pytest.approx(expected, rel=0.02)
    else:
        assert actual == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_the_rest_of_a_lognormal_service_far_out_is_finite_and_grows():
    sigma = math.sqrt(math.log(1.25))
    rests = [mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), e) for e in (1e3, 1e6, 1e12, 1e200)]
    assert all(math.isfinite(r) and r > 0.0 for r in rests)
    assert rests == sorted(rests)

    def survivors(x):
        return math.erfc((math.log(x / 2.0) / sigma + sigma / 2) / math.sqrt(2.0)) / 2

    expected = integrate.quad(survivors, 30.0, 400.0, epsabs=0.0)[0] / survivors(30.0)
    assert mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), 30.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cv", [0.02, 0.1, 0.5, 1.0, 3.0, 20.0])
def test_the_least_rest_of_a_lognormal_service_is_its_minimum_less_a_margin(cv):
    sigma = math.sqrt(math.log1p(cv**2))
    least = least_residual(3, 2.0, sigma)
    elapsed = np.exp(np.linspace(math.log(2.0) - 8 * sigma, math.log(2.0) + max(3.0, 12 * sigma), 20_000))
    rests = [mean_residual(3, 2.0, sigma, 0.0, np.zeros(1), np.zeros(1), e) for e in elapsed]
    assert 0.98 * min(rests) < least < min(rests)
    assert least < rests[0]


@pytest.mark.parametrize("name", TIMES)
def test_nobody_is_ready_before_the_least_wait(name):
    p, _ = build_parameters(scenario(service=[service("A", "R", name, **TIMES[name])]))
    row = p.service_kind[0], p.service_scale[0], p.service_low[0], p.service_high[0], p.service_table
    rests = [mean_residual(*row, p.service_tail, e) for e in np.linspace(0.0, 30.0, 1_000)]
    assert 0.0 <= p.pair_least_rest[0] <= min(rests)


def list_schedule(ready, means, tasks):
    """Return when the last of some tasks is done if each goes to whoever would be done with it first."""
    heap = [(r + m, m) for r, m in zip(ready, means, strict=True)]
    heapq.heapify(heap)
    for _ in range(tasks - 1):
        done, mean = heap[0]
        heapq.heapreplace(heap, (done + mean, mean))
    return heap[0][0]


def crowd():
    """Return two activities that eight people do at different speeds, half of them in the mornings only."""
    people = [f"person {i}" for i in range(8)]
    morning = [{"days": ["Monday", "Tuesday", "Wednesday"], "from": "00:00", "to": "12:00"}]
    return scenario(
        horizon={"value": 72.0},
        arrivals={"process": "poisson", "rate": 2.0},
        activities=["A", "B"],
        resources=people,
        service=[
            service(a, name, "lognormal", mean=mean * (1 + i / 2), cv=0.3 + 0.3 * (i % 3))
            for a, mean in (("A", 0.5), ("B", 1.0))
            for i, name in enumerate(people)
        ],
        flow={"seq": [{"task": "A"}, {"task": "B"}]},
        working_hours=dict.fromkeys(people[::2], morning),
    )


@pytest.mark.parametrize("make", [office, rework, crowd])
def test_the_time_to_serve_a_queue_is_that_of_a_list_schedule(make):
    simulator = ProcessSimulator(make())
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p = states[0], simulator.parameters
    rng, longest, checked = np.random.default_rng(0), 0, 0
    functions.reset(state, p, stream(1, "simulator"))
    while not state.ended:
        relief = {}
        for a in np.flatnonzero(state.queue_length):
            pairs = range(p.activity_pairs[a], p.activity_pairs[a + 1])
            ready = [action_features.time_until_ready(state, p, p.pair_resource[k]) for k in pairs]
            soonest = [action_features.least_wait(state, p, p.pair_resource[k]) for k in pairs]
            assert all(0.0 <= least <= when for least, when in zip(soonest, ready, strict=True))
            expected = list_schedule(ready, [p.pair_mean[k] for k in pairs], min(16, state.queue_length[a]))
            relief[a] = expected * max(1.0, state.queue_length[a] / 16)
            assert action_features.time_to_serve(state, p, a) == pytest.approx(relief[a])
            longest, checked = max(longest, int(state.queue_length[a])), checked + 1
        mask = np.ones(simulator.action_space.n, bool)
        functions.action_mask(state, p, mask)
        features = np.zeros((simulator.action_space.n, simulator.action_feature_size), np.float32)
        functions.action_features(state, p, mask, features)
        assert not features[~mask].any()
        assert not features[-1].any(), "postpone has none"
        for pair in np.flatnonzero(mask[:-1]):
            slack = math.log(relief[p.pair_activity[pair]] / p.pair_mean[pair])
            assert features[pair, 0] == pytest.approx(min(3.0, max(-3.0, slack)), rel=1e-5, abs=1e-6)
            assert features[pair, 1] == min(features[pair, 0], 0.0)
            if make is office:
                assert features[pair, 2] == np.float32(action_features.branches_behind(state, p, p.pair_activity[pair]))
        functions.step(state, p, int(rng.choice(np.flatnonzero(mask))), None)
    assert simulator.action_feature_size == (3 if make is office else 2), "only the office has parallel branches"
    assert checked > 300
    assert longest > 3


def test_who_is_off_duty_or_leaves_before_being_free_is_ready_when_they_come_back():
    simulator = clerk([8.0, 9.0, 10.5, 16.5], ["Monday", "Tuesday"], horizon=48.0)
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p = states[0], simulator.parameters
    functions.reset(state, p, stream(0, "simulator"))
    seen = []
    while not state.ended:
        seen.append((state.time, action_features.time_until_ready(state, p, 0)))
        functions.step(state, p, 0, None)
    # The clerk works 9-12 and 13-17 and needs 2 hours for a task; decisions fall on 9, 11, 13 and 16:30.
    assert [time for time, _ in seen] == [9.0, 11.0, 13.0, 16.5]
    assert [ready for _, ready in seen] == [0.0] * 4
    state.busy_pair[0], state.started[0], state.on_duty[0] = 0, state.time, 1
    for now, busy, ready in ((9.5, True, 1.5), (10.5, True, 2.5), (15.5, True, 17.5), (12.5, False, 0.5)):
        functions.reset(state, p, stream(0, "simulator"))
        while state.time < 13.0 <= now:  # 9.0, then 13.0: the shift changes are those of that time
            functions.step(state, p, 0, None)
        if 12.0 <= now < 13.0:
            state.on_duty[0], state.change_at[0], state.change_after[0] = 0, 13.0, 17.0
        state.time, state.started[0], state.busy_pair[0] = now, now - 0.5, 0 if busy else -1
        assert action_features.time_until_ready(state, p, 0) == pytest.approx(ready)


@pytest.mark.parametrize("make", [office, rework])
def test_the_next_two_shift_changes_are_known_at_all_times(make):
    """Against the times at which duty really changes, over three weeks."""
    simulator = ProcessSimulator(make())
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p = states[0], simulator.parameters
    functions.reset(state, p, stream(2, "simulator"))
    week, changes = 10080.0, {r: [] for r in range(len(state.finish))}
    for i in range(p.shift_count):
        changes[p.shift_resource[i]] += [p.shift_times[i] + k * week for k in range(5)]
    decisions = 0
    while not state.ended:
        for r, times in changes.items():
            later = [*sorted(t for t in times if t > state.time), math.inf, math.inf]
            assert (state.change_at[r], state.change_after[r]) == pytest.approx(tuple(later[:2]))
        mask = np.ones(simulator.action_space.n, bool)
        functions.action_mask(state, p, mask)
        functions.step(state, p, int(mask.argmax()), None)
        decisions += 1
    assert decisions > 100
