"""The control variate: by hand, and its claim that no policy can change its expectation."""

import pytest
from oracles.process_play import FIFO, RANDOM, SPT, play, scenario, service, summary

from core.seeding import stream
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import compile_functions, new_state


def test_a_morning_worked_out_by_hand():
    simulator = ProcessSimulator(
        scenario(
            horizon={"value": 10.0},
            arrivals={"process": "replay", "times": [0.0, 0.5]},
            resources=["fast", "slow"],
            service=[service("A", "fast", "constant", mean=1.0), service("A", "slow", "constant", mean=3.0)],
        )
    )
    functions, states, p = compile_functions(simulator), new_state(simulator), simulator.parameters
    state = states[0]
    functions.reset(state, p, stream(0, "simulator"))
    assert functions.control_variate(state, p) == 0.0
    functions.step(state, p, 1, None)  # slow takes the first case: two hours more than fast; half an hour passes
    assert functions.control_variate(state, p) == pytest.approx((-2.0 + 0.5) / 2)  # of two cases
    functions.step(state, p, 0, None)  # fast takes the second one: they work for 1 and for another 2.5 hours
    assert functions.truncated(state, p)
    assert functions.control_variate(state, p) == pytest.approx((1.0 + 1.0) / 2)


def rework_with_every_distribution() -> ProcessSimulator:
    """Return a process of which every task is finished and takes the fastest one hour on average."""
    again = [{"p": 0.3, "activity": "A"}, {"p": 0.3, "activity": "B"}, {"p": 0.4, "activity": None}]
    return ProcessSimulator(
        scenario(
            time_unit="abstract",
            horizon={"value": 1000.0},
            arrivals={"process": "replay", "times": [float(i) for i in range(20)]},
            activities=["A", "B"],
            resources=["r", "s", "t"],
            service=[
                service("A", "r", "exponential", mean=1.0),
                service("A", "s", "lognormal", mean=2.5, cv=1.5),
                service("A", "t", "constant", mean=1.5),
                service("B", "s", "quantiles", quantiles=[0.0, 0.8, 2.4]),
                service("B", "t", "uniform", low=0.5, high=4.0),
            ],
            flow={"start": [{"p": 1.0, "activity": "A"}], "next": {"A": again, "B": again}},
        )
    )


def test_its_expectation_is_the_work_of_the_fastest_whatever_the_policy():
    simulator = rework_with_every_distribution()
    worked = {}
    for which in (RANDOM, SPT, FIFO):
        episodes = play(simulator, which, 2500)
        assert all(e.state.open == 0 and e.state.arrived == 20 for e in episodes)
        # None of these postpones, so that every decision is a task, whose fastest mean is 1.
        mean, error = summary([e.state.control - e.metrics["decisions"] for e in episodes])
        assert error < 0.3  # of 50 tasks
        assert abs(mean) < 4 * error, f"{mean:.3f}, standard error {error:.3f}"
        worked[which] = summary([e.state.busy_time.sum() for e in episodes])[0]
    # What the policies do differs, and not by little.
    assert worked[RANDOM] > worked[SPT] + 5
