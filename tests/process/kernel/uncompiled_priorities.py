"""Priorities: the order of queues, against hand-counted times, a slow reference and a closed formula."""

import heapq

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, bound_of, play, scenario, service

from longstride.errors import UserError
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.simulator import ProcessSimulator


def counter(times, priorities, **changes):
    """Return cases of some priorities, equally frequent, that one clerk serves in an hour each."""
    cases = [{"tasks": [{"task": "A"}]} | ({"priority": p} if p else {}) for p in priorities]
    data = {
        "horizon": {"value": 400.0},
        "arrivals": {"process": "replay", "times": list(times)},
        "service": [service("A", "R", "constant", mean=1.0)],
        "flow": {"cases": cases},
    }
    return scenario(**{**data, **changes})


def starts_and_priorities(made, seed=1):
    """Return float64[cases], the start of each case in the order of arrival, and int64[cases], its priority."""
    parameters, sizes = build_parameters(made)
    played = play_logged(as_logged_record(parameters), parameters, sizes, seed)
    order = np.argsort(played.case)
    return played.start[order], parameters.node_priority[played.node[order]]


def reference(times, priorities):
    """Return float64[cases], the starts at one server, highest priority first, then first come, first served."""
    found, waiting, free, i = np.zeros(len(times)), [], 0.0, 0
    while i < len(times) or waiting:
        if not waiting:
            free = max(free, times[i])
        while i < len(times) and times[i] <= free:
            heapq.heappush(waiting, (-priorities[i], i))
            i += 1
        found[heapq.heappop(waiting)[1]] = free
        free += 1.0
    return found


@pytest.mark.parametrize("seed", range(4))
def test_higher_priorities_come_first_and_equal_ones_in_order_as_in_a_slow_reference(seed):
    times = np.sort(np.random.default_rng(seed).uniform(0.0, 200.0, 180))
    made = counter(times, [0, 0, 1, 5])
    found, priorities = starts_and_priorities(made, seed)
    assert set(priorities) == {0, 1, 5}
    np.testing.assert_allclose(found, reference(times, priorities))


def test_among_activities_the_queue_with_the_highest_priority_at_its_head_is_served_first():
    """The clerk is busy until 1. B's case came last, and is served first; then A's, in the order of their arrivals."""
    cases = [{"tasks": [{"task": "A"}]}, {"tasks": [{"task": "B"}], "priority": 1}]
    both = [service(a, "R", "constant", mean=1.0) for a in "AB"]
    made = counter([0.0, 0.1, 0.2, 0.3, 0.4], [0], activities=["A", "B"], service=both, flow={"cases": cases})
    seen = set()
    for seed in range(12):
        found, priorities = starts_and_priorities(made, seed)
        np.testing.assert_allclose(found, reference([0.0, 0.1, 0.2, 0.3, 0.4], priorities))
        seen.add(tuple(priorities))
    assert len(seen) > 3


def test_every_policy_serves_all_cases_of_priorities_and_none_before_the_bound():
    times = np.sort(np.random.default_rng(9).uniform(0.0, 300.0, 200))
    simulator = ProcessSimulator(counter(times, [0, 1, 2], service=[service("A", "R", "exponential", mean=1.0)]))
    bound = bound_of(simulator, 0)[0].completion_time[:200]
    for which in (FIFO, RANDOM):
        (episode,) = play(simulator, which, 1)
        state = episode.state
        assert state.waiting == 0
        assert (state.completion_time[:200] >= bound - 1e-9).all()


@pytest.mark.parametrize("priority", [-1, 1.5, True, "high", 1001])
def test_a_priority_that_is_no_small_whole_number_is_refused(priority):
    with pytest.raises(UserError, match=r"flow\.cases\[0\]\.priority: expected a whole number from 0 to 1000"):
        counter([1.0], [priority])
