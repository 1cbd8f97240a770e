"""Order of service and work by a value of the case: against a slow reference, hand-counted times and a formula."""

import heapq
import math

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, bound_of, play, scenario, service

from longstride.errors import UserError
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.scenario.routing import build_routing
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import as_state
from longstride.process.snapshots.state_reader import StateReader


def counter(times, values, first="largest", work=(), **changes):
    """Return cases of some values, None for none, equally frequent, that one clerk serves in an hour each."""
    cases = [{"tasks": [{"task": "A"}]} | ({} if value is None else {"value": value}) for value in values]
    data = {
        "horizon": {"value": 400.0},
        "arrivals": {"process": "replay", "times": list(times)},
        "service": [service("A", "R", "constant", mean=1.0)],
        "flow": {"cases": cases},
        "case_values": {"column": "amount", "first": first, "activities": ["A"]}
        | ({"work": {"A": list(work)}} if work else {}),
    }
    return scenario(**{**data, **changes})


def played(made, seed=1):
    """Return the events in the order of the cases, and the value of the case of each."""
    parameters, sizes = build_parameters(made)
    events = play_logged(as_logged_record(parameters), parameters, sizes, seed)
    order = np.lexsort((events.start, events.case))
    value = np.array(build_routing(made.flow, made.activities).value)[events.node]
    return events._replace(**{k: getattr(events, k)[order] for k in events._fields if k != "state"}), value[order]


def reference(times, keys, hours):
    """Return float64[cases], the starts at one server, the least key first, then the first to come."""
    found, waiting, free, i = np.zeros(len(times)), [], 0.0, 0
    while i < len(times) or waiting:
        if not waiting:
            free = max(free, times[i])
        while i < len(times) and times[i] <= free:
            heapq.heappush(waiting, (keys[i], i))
            i += 1
        case = heapq.heappop(waiting)[1]
        found[case] = free
        free += hours[case]
    return found


@pytest.mark.parametrize("first", ["largest", "smallest"])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_served_in_order_and_equal_ones_by_age_as_in_a_slow_reference(first, seed):
    times = np.sort(np.random.default_rng(seed).uniform(0.0, 200.0, 150))
    events, values = played(counter(times, [-3.5, 0.0, 0.0, 12.0, 12.5, None, 1e6], first), seed)
    assert len(np.unique(values)) > 4 and np.isnan(values).any()
    keys = np.nan_to_num(values if first == "smallest" else -values, nan=math.inf)
    np.testing.assert_allclose(events.start, reference(times, keys, np.ones(len(times))))


@pytest.mark.parametrize("seed", range(3))
def test_work_follows_the_place_among_the_values_and_no_policy_beats_the_bound(seed):
    """The places of 1, 2, 9 are 0, 1/2, 1, whatever their distances; a case without a value takes an hour."""
    times = np.sort(np.random.default_rng(seed).uniform(0.0, 150.0, 100))
    made = counter(times, [1.0, 2.0, 9.0, None], work=[0.5, 1.0, 2.0])
    events, values = played(made, seed)
    hours = np.select([values == 1.0, values == 2.0, values == 9.0], [0.5, 1.0, 2.0], 1.0)
    assert len(set(hours)) == 3
    np.testing.assert_allclose(events.end - events.start, hours)
    np.testing.assert_allclose(events.start, reference(times, np.nan_to_num(-values, nan=math.inf), hours))
    simulator = ProcessSimulator(counter(times, [1.0, 2.0, 9.0], work=[0.5, 1.0, 2.0]))
    bound = bound_of(simulator, 0)[0].completion_time[:100]
    assert set(np.round(bound - times, 9)) == {0.5, 1.0, 2.0}
    for which in (FIFO, RANDOM):
        (episode,) = play(simulator, which, 1)
        assert episode.state.waiting == 0
        assert (episode.state.completion_time[:100] >= bound - 1e-9).all()


def test_an_order_of_one_activity_leaves_the_others_in_the_order_of_age():
    """A is served by value. B is served in turn, and between the queues the oldest case of any comes first."""
    tasks = [{"tasks": [{"task": a}], "value": v} for a, v in (("A", 1.0), ("A", 2.0), ("B", 1.0), ("B", 2.0))]
    both = [service(a, "R", "constant", mean=1.0) for a in "AB"]
    arrivals = [0.0, *np.linspace(0.1, 0.9, 20)]
    made = counter(arrivals, [], activities=["A", "B"], service=both, flow={"cases": tasks})
    swapped = 0
    for seed in range(6):
        events, values = played(made, seed)
        activity = build_parameters(made)[0].node_target[events.node]
        waiting = list(range(1, 21))
        for case in np.argsort(events.start)[1:]:
            oldest = min(waiting)
            own = [c for c in waiting if activity[c] == activity[oldest]]
            expected = max(own, key=lambda c: (values[c], -c)) if activity[oldest] == 0 else oldest
            assert case == expected
            swapped += expected != oldest
            waiting.remove(case)
    assert swapped > 10


def test_a_scenario_without_values_keeps_its_digest_and_has_neither_priorities_nor_work():
    simulator = ProcessSimulator(counter([1.0], [None], case_values=None))
    assert (simulator.parameters.has_priorities, simulator.parameters.has_work) == (0, 0)
    digest = simulator.description()["scenario_sha256"]
    assert digest != ProcessSimulator(counter([1.0], [None])).description()["scenario_sha256"]


def test_a_described_state_has_no_values_so_the_oldest_case_comes_first():
    tasks = [{"tasks": [{"task": a}], "value": v} for a, v in (("A", 1.0), ("B", 2.0))]
    values = {"column": "amount", "first": "largest", "activities": ["A", "B"]}
    both = [service(a, "R", "constant", mean=1.0) for a in "AB"]
    made = counter([1.0], [], activities=["A", "B"], service=both, flow={"cases": tasks}, case_values=values)
    simulator = ProcessSimulator(made)
    waiting = [{"case": a, "activity": a, "since": since} for a, since in (("A", 1.0), ("B", 2.0))]
    described = describe(as_state({"time": 3.0, "waiting": waiting}), Names(simulator))[0]
    assert StateReader(simulator, listed=False).read(described).choices["fifo"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case_values": {"column": "x", "first": "latest", "activities": ["A"]}}, "case_values.first"),
        ({"case_values": {"column": "x", "first": "largest", "activities": []}}, "case_values.activities"),
        ({"case_values": {"column": "x", "first": "largest", "activities": ["C"]}}, "'C' is not one of"),
        (
            {"case_values": {"column": "x", "first": "largest", "activities": ["A"], "work": {"A": [1.0]}}},
            "case_values.work.A: expected at least two factors above 0",
        ),
        (
            {"case_values": {"column": "x", "first": "largest", "activities": ["A"], "work": {"A": [1.0, 0.0]}}},
            "case_values.work.A: expected at least two factors above 0",
        ),
        (
            {"flow": {"cases": [{"tasks": [{"task": "A"}], "value": "high"}]}},
            r"cases\[0\].value: expected a number, not",
        ),
        ({"flow": {"cases": [{"tasks": [{"task": "A"}], "value": True}]}}, r"cases\[0\].value: expected a number, not"),
    ],
)
def test_values_that_make_no_sense_are_refused_in_a_sentence(change, message):
    with pytest.raises(UserError, match=message):
        counter([1.0], [1.0], **change)
