"""Run by test_uncompiled.py: the time at work in an episode's record is that in the simulator's own state."""

import numpy as np
import pytest
from oracles.process_play import scenario, service

from longstride.process.report.trace import stretches_of_work, trace_of
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import new_state

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]


def office(at_end_of_duty):
    return ProcessSimulator(
        scenario(
            horizon={"value": 336.0},
            arrivals={"process": "poisson", "rate": 0.4},
            activities=["talk", "test"],
            resources=["ann", "bob"],
            service=[
                service("talk", "ann", "exponential", mean=1.5),
                service("talk", "bob", "exponential", mean=2.5),
                service("test", "bob", "uniform", low=5.0, high=9.0),
            ],
            flow={"seq": [{"task": "talk"}, {"task": "test"}]},
            rosters={"ann": [{"days": WEEKDAYS, "p": 0.6, "hours": ["08:00-16:00"]}]},
            working_hours={"bob": [{"days": WEEKDAYS, "from": "08:00", "to": "17:00"}]},
            at_end_of_duty=at_end_of_duty,
        )
    )


def first_possible(simulator):
    """Return the actions of an episode that takes the first possible pair, and its last state."""
    states, rng, p, actions = new_state(simulator), stream(0, "evaluation", 0), simulator.parameters, []
    simulator.reset(states[0], p, rng)
    over = False
    while not over and len(actions) < simulator.max_steps:
        mask = np.ones(simulator.action_space.n, np.bool_)
        simulator.action_mask(states[0], p, mask)
        actions.append(int(np.flatnonzero(mask)[0]))
        _, over = simulator.step(states[0], p, actions[-1], rng)
    return np.array(actions), states[0]


@pytest.mark.parametrize("at_end_of_duty", ["pause", "finish"])
def test_the_time_at_work_is_that_of_the_finished_tasks(at_end_of_duty):
    simulator = office(at_end_of_duty)
    actions, state = first_possible(simulator)
    trace = trace_of(simulator, actions, 0, "evaluation", 0)
    assert len(trace.tasks) > 30
    finished = trace.tasks[trace.tasks["finish"] < trace.end]
    work = stretches_of_work(finished, trace.on_duty if at_end_of_duty == "pause" else None, trace.end)
    np.testing.assert_allclose(np.bincount(work["resource"], work["end"] - work["start"], 2), state.busy_time)
    assert len(work) > len(finished) or at_end_of_duty == "finish"
    assert len(trace.work) >= len(work)


def test_a_task_rests_between_two_shifts():
    tasks = np.array(
        [(1, 0, 15.0, 34.0), (0, 0, 34.0, 99.0)],
        [("activity", int), ("resource", int), ("start", float), ("finish", float)],
    )
    shifts = np.array(
        [(0, 8.0, 16.0), (1, 16.0, 32.0), (0, 32.0, 40.0)], [("resource", int), ("start", float), ("end", float)]
    )
    assert stretches_of_work(tasks, shifts, 36.0).tolist() == [
        (1, 0, 15.0, 16.0),
        (1, 0, 32.0, 34.0),
        (0, 0, 34.0, 36.0),
    ]
    assert stretches_of_work(tasks, None, 36.0).tolist() == [(1, 0, 15.0, 34.0), (0, 0, 34.0, 36.0)]
