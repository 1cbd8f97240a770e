"""Fewer arrivals in the arrays of a simulator against the scenario that they stand for: the same episodes."""

import numpy as np
import pytest
from helpers.process_desk import HOURLY, desk
from oracles.process_play import FIFO, play, scenario, service

from longstride.process.changes.apply import apply_changes
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.equivalent import _with_arrivals


def shifts():
    """Return a desk of two people, one of them with working hours."""
    return scenario(
        horizon={"value": 24.0 * 9},
        resources=["R", "S"],
        arrivals={"process": "poisson", "rate": 0.4},
        service=[service("A", "R", "exponential", mean=1.0), service("A", "S", "exponential", mean=3.0)],
        working_hours={"R": [{"days": ["Monday", "Friday"], "from": "06:30", "to": "20:00"}]},
    )


def rostered():
    """Return a desk of three people, one of them with a roster by chance, with pauses."""
    return scenario(
        horizon={"value": 24.0 * 9},
        resources=["R", "S", "T"],
        arrivals={"process": "poisson", "rate": 0.6},
        service=[service("A", name, "exponential", mean=mean) for name, mean in (("R", 2.0), ("S", 3.0), ("T", 2.0))],
        working_hours={"R": [{"days": ["Monday", "Friday"], "from": "06:00", "to": "20:00"}]},
        rosters={"S": [{"days": ["Monday", "Tuesday"], "p": 0.6, "hours": ["08:00-18:00"]}]},
        at_end_of_duty="pause",
    )


def cycle_times(simulator):
    (episode,) = play(simulator, FIFO, 1)
    state = episode.state
    return (state.completion_time[: state.arrived] - state.arrival_time[: state.arrived]).tolist(), int(state.decisions)


@pytest.mark.parametrize("made", [shifts, rostered])
def test_fewer_arrivals_are_those_of_the_scenario(made):
    whole = ProcessSimulator(made())
    fewer, before = ProcessSimulator(apply_changes(made(), "arrivals -30%").scenario), whole.parameters.tobytes()
    assert cycle_times(_with_arrivals(whole, 0.7)) == cycle_times(fewer)
    assert cycle_times(whole) != cycle_times(fewer)
    assert whole.parameters.tobytes() == before  # nothing is changed in place


def test_fewer_weekly_arrivals_have_the_parameters_of_the_scenario():
    whole = desk(process="weekly", rates=HOURLY * 7)
    fewer = ProcessSimulator(apply_changes(whole.scenario, "arrivals -30%").scenario).parameters
    found = _with_arrivals(whole, 0.7).parameters
    for name in ("arrival_rates", "arrivals_expected"):
        assert np.allclose(found[name], fewer[name], rtol=1e-12)
    assert found["arrivals_expected"][..., -1] == pytest.approx(0.7 * 17 * 7)
