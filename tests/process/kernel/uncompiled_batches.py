"""Batches: when they begin and whom they move on, against hand-counted times and a slow reference."""

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, bound_of, play, scenario, service

from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.simulator import ProcessSimulator


def ferry(times, size=3, longest=5.0, **changes):
    """Return cases that a ferry takes together in two hours, and that a clerk then checks in half an hour each."""
    batch = {"activity": "Cross", "size": size} | ({} if longest is None else {"longest": longest})
    data = {
        "horizon": {"value": 400.0},
        "arrivals": {"process": "replay", "times": list(times)},
        "activities": ["Cross", "Check"],
        "resources": ["ferry", "clerk"],
        "service": [service("Cross", "ferry", "constant", mean=2.0), service("Check", "clerk", "constant", mean=0.5)],
        "flow": {"seq": [{"task": "Cross"}, {"task": "Check"}]},
        "batches": [batch],
    }
    return scenario(**{**data, **changes})


def starts(made, activity):
    """Return float64[cases], the start of an activity of each case in the order of arrival."""
    parameters, sizes = build_parameters(made)
    played = play_logged(as_logged_record(parameters), parameters, sizes, 1)
    mine = parameters.node_target[played.node] == made.activities.index(activity)
    return played.start[mine][np.argsort(played.case[mine], kind="stable")]


def test_a_batch_begins_when_it_is_full_or_its_first_task_has_waited_for_the_longest_time():
    made = ferry([1, 2, 3, 4, 10, 20, 21, 22.5, 23])
    np.testing.assert_allclose(starts(made, "Cross"), [3, 3, 3, 9, 15, 22.5, 22.5, 22.5, 28])
    np.testing.assert_allclose(starts(made, "Check"), [5, 5.5, 6, 11, 17, 24.5, 25, 25.5, 30])
    np.testing.assert_allclose(starts(ferry([1, 2, 30, 40], longest=None), "Cross"), [30, 30, 30])


def reference(times, size, longest, service):
    """Return float64[cases], the starts of batches of one server, without a simulator."""
    found, free, i = [], 0.0, 0
    while i < len(times):
        due = times[i] + longest
        members = [t for t in times[i : i + size] if t < due]
        ready = members[-1] if len(members) == size else due
        begin = max(ready, free)
        found += [begin] * len(members)
        free, i = begin + service, i + len(members)
    return np.array(found)


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_random_arrivals_begin_as_in_a_slow_reference(seed):
    times = np.sort(np.random.default_rng(seed).uniform(0.0, 300.0, 250))
    np.testing.assert_allclose(starts(ferry(times), "Cross"), reference(times, 3, 5.0, 2.0))


def test_each_task_of_a_batch_waits_and_has_its_cost():
    """The ferry begins at 3 with the first three, and is back for the others, which wait from 4 on, at 5."""
    made = ferry(
        [1, 2, 3, 3.5, 3.6, 4], aims={"objective": {"waiting": 1, "cost": 1}, "costs": {"per_task": {"Cross": 7}}}
    )
    (episode,) = play(ProcessSimulator(made), FIFO, 1)
    waited_for_clerk = [0.0, 0.5, 1.0, 0.0, 0.5, 1.0]
    assert episode.state.waiting == episode.state.waiting_more == 0
    assert episode.metrics["mean_waiting_time"] == pytest.approx((3 * 1.0 + sum(waited_for_clerk)) / 6)
    assert episode.metrics["cost_per_case"] == pytest.approx(7.0)


def test_every_policy_finishes_all_cases_of_batches_and_none_before_the_bound():
    times = np.sort(np.random.default_rng(9).uniform(0.0, 300.0, 200))
    spread = [service("Cross", "ferry", "exponential", mean=2.0), service("Check", "clerk", "exponential", mean=0.5)]
    simulator = ProcessSimulator(ferry(times, service=spread))
    bound = bound_of(simulator, 0)[0].completion_time[:200]
    for which in (FIFO, RANDOM):
        (episode,) = play(simulator, which, 1)
        state, m = episode.state, episode.metrics
        assert m["cases_finished"] == 200 and state.waiting == 0 and state.resting == 0
        assert (bound <= state.completion_time[:200] + 1e-9).all()
        parts = m["mean_world_time"], m["mean_people_time"], m["mean_work_time"]
        assert sum(parts) == pytest.approx(m["mean_cycle_time"], rel=1e-9)
        assert 0.0 < parts[0] <= 5.0  # gathering takes at most the longest time
