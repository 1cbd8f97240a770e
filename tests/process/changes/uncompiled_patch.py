"""Patched arrays against the scenarios that they stand for: the same episodes to the bit."""

import numpy as np
import pytest
from oracles.process_play import FIFO, LAZY, SPT, play, scenario, service

from longstride.process.changes.alike import same_sizes
from longstride.process.changes.apply import apply_changes
from longstride.process.changes.patch import with_arrivals, without_people
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator


def shifts():
    """Return a desk of two people, one of them with working hours."""
    return scenario(
        horizon={"value": 24.0 * 9},
        resources=["R", "S"],
        arrivals={"process": "poisson", "rate": 0.4},
        service=[service("A", "R", "exponential", mean=1.0), service("A", "S", "exponential", mean=3.0)],
        working_hours={"R": [{"days": ["Monday", "Friday"], "from": "06:30", "to": "20:00"}]},
    )


def always():
    """Return two people in abstract time, always there."""
    services = [service("A", "r", "constant", mean=1.0), service("A", "s", "exponential", mean=2.0)]
    arrivals = {"process": "replay", "times": [float(t // 2 * 2) for t in range(60)]}
    return scenario(
        time_unit="abstract", horizon={"value": 80.0}, resources=["r", "s"], arrivals=arrivals, service=services
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


def cycle_times(simulator, which):
    (episode,) = play(simulator, which, 1)
    state = episode.state
    return (state.completion_time[: state.arrived] - state.arrival_time[: state.arrived]).tolist(), int(state.decisions)


@pytest.mark.parametrize("which", [FIFO, SPT])
@pytest.mark.parametrize(("made", "like"), [(shifts, "R"), (rostered, "S"), (always, "s")])
def test_somebody_who_is_hidden_is_not_there(made, like, which):
    base = made()
    more = ProcessSimulator(apply_changes(base, f"people +2 {like}").scenario)
    added = more.scenario.resources[len(base.resources) :]
    before = more.parameters.copy()
    one = apply_changes(base, f"people +1 {like}").scenario
    assert cycle_times(without_people(more, added), which) == cycle_times(ProcessSimulator(base), which)
    assert cycle_times(without_people(more, added[1:]), which) == cycle_times(ProcessSimulator(one), which)
    assert cycle_times(more, which) != cycle_times(ProcessSimulator(base), which)
    assert before.tobytes() == more.parameters.tobytes()  # nothing is changed in place


@pytest.mark.parametrize("made", [shifts, rostered])
def test_fewer_arrivals_are_those_of_the_scenario(made):
    fewer = ProcessSimulator(apply_changes(made(), "arrivals -30%").scenario)
    assert cycle_times(with_arrivals(ProcessSimulator(made()), 0.7), FIFO) == cycle_times(fewer, FIFO)


def test_simulators_of_the_same_people_share_one_layout_and_play_as_before():
    base = rostered()
    changes = ["arrivals +40%", "R off monday; S absent day 8 to 9; holiday day 3", "people -1 S", "people +1 T"]
    plain = [ProcessSimulator(s) for s in (base, *(apply_changes(base, change).scenario for change in changes))]
    alike = same_sizes(plain)
    layouts = {(simulator.parameters.dtype, simulator.state_dtype) for simulator in alike}
    assert len({simulator.parameters.dtype for simulator in plain}) > 2
    assert len(layouts) == 2  # one more person is another layout
    for before, after in zip(plain, alike, strict=True):
        assert cycle_times(after, LAZY) == cycle_times(before, LAZY)


def test_a_capacity_is_another_layout():
    content = scenario_content(rostered())
    small = parse_scenario({**content, "capacity": {"waiting_tasks": 3}}, "test")
    first, other = same_sizes([ProcessSimulator(rostered()), ProcessSimulator(small)])
    assert first.state_dtype != other.state_dtype
    assert other.state_dtype["slot_case"].shape == (3,)


def test_other_names_or_skills_are_another_layout():
    content = scenario_content(rostered())
    renamed = {**content, "resources": ["R", "U", "T"], "rosters": {}}
    renamed["service"] = [{**s, "resource": "U" if s["resource"] == "S" else s["resource"]} for s in content["service"]]
    first, other = same_sizes([ProcessSimulator(rostered()), ProcessSimulator(parse_scenario(renamed, "test"))])
    np.testing.assert_array_equal(first.parameters.pair_mean, other.parameters.pair_mean)
    assert first.labels != other.labels
