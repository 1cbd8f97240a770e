"""A list schedule as the oracle of the time in which a queue is served, and a check of a whole episode with it."""

import heapq
import math

import numpy as np
import pytest
from oracles.process_play import office, scenario, service

from longstride.process.kernel.pairs import action_features
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state


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


def check_times_to_serve(make):
    """Play an episode with random actions; assert that the times to serve each queue are those of a list schedule."""
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
