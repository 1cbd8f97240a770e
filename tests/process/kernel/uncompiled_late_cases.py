"""Queues that serve late cases last: against a slow reference, hand-counted cases, and in states."""

import heapq

import numpy as np
import pytest
from oracles.process_play import scenario, service

from longstride.errors import UserError
from longstride.process.hooks import with_hooks
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.read_aims import AimSettings, with_aims
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import as_state
from longstride.process.snapshots.state_reader import StateReader
from longstride.simulators.simulator import new_state

HOURS = {"A": 1.0, "B": 0.4, "C": 2.3}
PATHS = ["ABC", "BAB", "CA", "AACB", "B"]


def shop(times, allowances, late_cases="last", paths=PATHS, **changes):
    """Return cases of some paths, equally frequent, that R serves; each has its own allowance."""
    cases = [{"tasks": [{"task": a} for a in path]} for path in paths]
    data = {
        "horizon": {"value": 1000.0},
        "arrivals": {"process": "replay", "times": list(times)},
        "activities": list(HOURS),
        "resources": ["R"],
        "service": [{**service(a, "R", "constant", mean=HOURS[a]), "observations": 1} for a in HOURS],
        "flow": {"cases": cases},
        "aims": {"objective": {"late": 1.0}, "due": {"each": list(allowances)}, "late_cases": late_cases},
    }
    return scenario(**{**data, **changes})


def first_feasible(mask):
    """Return the first pair that can begin; it tells queues apart without a look at their heads."""
    return int(np.flatnonzero(mask)[0])


def played(made, seed):
    """Return case, activity and start of the tasks of an episode, the metrics, and the paths of its cases."""
    simulator, rng = ProcessSimulator(made), np.random.default_rng(seed)
    states, p = new_state(simulator), simulator.parameters
    state, found, mask = states[0], [], np.zeros(simulator.action_space.n, np.bool_)
    simulator.reset(state, p, rng)
    while not simulator.truncated(state, p):
        simulator.action_mask(state, p, mask)
        pair = first_feasible(mask)
        a = p.pair_activity[pair]
        found.append((int(state.slot_case[state.queue_head[a]]), int(a), float(state.time)))
        simulator.step(state, p, pair, rng)
    metrics = np.zeros(1, simulator.metrics_dtype).view(np.recarray)
    simulator.episode_metrics(state, p, metrics[0])
    paths = ["".join("ABC"[a] for case, a, _ in found if case == c) for c in range(state.arrived)]
    return found, metrics[0], paths


def reference(times, dues, paths, left):
    """Return case, activity and start of all tasks; each queue is searched anew at every start."""
    coming, waiting, late, found, now = [(t, c, 0) for c, t in enumerate(times)], [], [], [], 0.0
    heapq.heapify(coming)
    while coming or waiting:
        if not waiting:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            waiting.append(heapq.heappop(coming))
        hopeless = [task for task in waiting if dues[task[1]] - now < left[paths[task[1]][task[2]]] - 1e-9]
        late += sorted((task for task in hopeless if task not in late), key=lambda task: (dues[task[1]], task[0]))
        activity = min(paths[task[1]][task[2]] for task in waiting)
        queue = [task for task in waiting if paths[task[1]][task[2]] == activity]
        in_time = [task for task in queue if task not in late]
        chosen = min(in_time, key=lambda task: (dues[task[1]], task[0])) if in_time else min(queue, key=late.index)
        waiting.remove(chosen)
        _, c, k = chosen
        found.append((c, "ABC".index(activity), now))
        now += HOURS[activity]
        if k + 1 < len(paths[c]):
            heapq.heappush(coming, (now, c, k + 1))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_tasks_are_served_as_in_a_slow_reference(seed):
    draw = np.random.default_rng(seed)
    times, allowances = np.sort(draw.uniform(0.0, 150.0, 50)), draw.uniform(1.0, 40.0, 50)
    made = shop(times, allowances)
    found, _, paths = played(made, seed)
    parameters, _ = build_parameters(made)
    expected = reference(
        times.tolist(), (times + allowances).tolist(), paths, dict(zip("ABC", parameters.work_left, strict=True))
    )
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected])
    usual = played(shop(times, allowances, "in turn"), seed)[0]
    assert usual != found


def test_a_late_case_does_not_block_those_that_can_be_in_time():
    """The second case can no longer be in time at 1, when the third one still can; it is served after that."""
    for late_cases, order, share in (("last", [0, 2, 1], 1 / 3), ("in turn", [0, 1, 2], 2 / 3)):
        found, metrics, _ = played(shop([0.0, 0.1, 0.9], [1.0, 1.2, 1.3], late_cases, ["A"]), 0)
        assert [case for case, _, _ in found] == order
        assert metrics["share_late"] == pytest.approx(share)


def test_the_case_that_is_due_first_goes_first_even_if_it_came_later():
    found, _, _ = played(shop([0.0, 0.1, 0.2, 0.3], [9.0, 9.0, 4.0, 8.9], paths=["A"]), 0)
    assert [case for case, _, _ in found] == [0, 2, 1, 3]


def test_without_due_dates_the_age_of_the_target_counts():
    aims = {"target": {"share": 0.9, "within": 1.2}, "late_cases": "last"}
    found, _, _ = played(shop([0.0, 0.1, 0.9], [1.0] * 3, paths=["A"], aims=aims), 0)
    assert [case for case, _, _ in found] == [0, 2, 1]


def test_a_described_state_has_the_same_head():
    """At 3.5, X can no longer be in time; of the other two Y is due first, although Z has waited longer."""
    aims = {"due": {"after": 3.0}, "late_cases": "last"}
    simulator = ProcessSimulator(shop([1.0], [1.0], paths=["A"], aims=aims))
    since = {"X": (1.0, 1.0), "Z": (2.0, 2.1), "Y": (1.6, 2.2)}
    tasks = [{"case": name, "activity": "A", "since": waits} for name, (_, waits) in since.items()]
    cases = [{"case": name, "since": opened} for name, (opened, _) in since.items()]
    described, *_ = describe(as_state({"time": 3.5, "waiting": tasks, "cases": cases}), Names(simulator))
    reader = StateReader(simulator, listed=False)
    for _ in range(2):  # the record is used again
        state = reader.read(described).state
        slot, order = state["queue_head"][0], []
        for _ in range(3):
            order.append(float(state["arrival_time"][state["slot_case"][slot]]))
            slot = state["slot_next"][slot]
        assert order == [1.6, 2.0, 1.0]


def test_rules_serve_a_queue_of_late_cases_after_the_others():
    """X is the oldest case and due first, but at 5 it is late; at B, Y can be in time. At 2, X can, too."""
    aims = {"objective": {"late": 1.0}, "due": {"by_class": {"x": {"after": 3.0}, "y": {"after": 9.0}}}}
    flow = {"classes": [{"name": n, "p": 0.5, "flow": {"task": a}} for n, a in (("x", "A"), ("y", "B"))]}
    entries = [{**service(a, "R", "constant", mean=1.0), "observations": 1} for a in "AB"]
    tasks = [{"case": "X", "activity": "A", "since": 1.0}, {"case": "Y", "activity": "B", "since": 1.5}]
    cases = [{"case": "X", "since": 1.0}, {"case": "Y", "since": 1.5}]
    for late_cases, now, pair in (("last", 5.0, 1), ("last", 2.0, 0), ("in turn", 5.0, 0)):
        for between in ("oldest case first", "earliest enabled first"):
            made = scenario(
                arrivals={"process": "replay", "times": [1.0]},
                activities=["A", "B"],
                service=entries,
                flow=flow,
                aims=aims | {"late_cases": late_cases},
                queue_discipline_between_activities=between,
            )
            simulator = ProcessSimulator(made, prior="logged")
            described, *_ = describe(as_state({"time": now, "waiting": tasks, "cases": cases}), Names(simulator))
            read = StateReader(simulator, listed=False).read(described)
            assert [read.choices[name] for name in ("fifo", "logged", "edd")] == [pair] * 3
            assert np.flatnonzero(read.features[:, 1]).tolist() == [pair]


def test_the_comparison_with_a_log_keeps_the_order_of_the_log():
    draw = np.random.default_rng(0)
    times, allowances = np.sort(draw.uniform(0.0, 150.0, 50)), draw.uniform(1.0, 40.0, 50)
    events = []
    for late_cases in ("last", "in turn"):
        parameters, sizes = build_parameters(shop(times, allowances, late_cases))
        events.append(play_logged(as_logged_record(parameters), parameters, sizes, 1))
    for field in ("case", "node", "start"):
        np.testing.assert_array_equal(getattr(events[0], field), getattr(events[1], field))


def test_the_key_is_part_of_a_digest_only_if_it_is_given():
    made = shop([0.0], [1.0], "in turn")
    assert "late_cases" not in scenario_content(made)["aims"]
    last = with_aims(made, AimSettings(late_cases="last"))
    assert last == shop([0.0], [1.0])
    assert with_aims(last, AimSettings(late_cases="in turn")) == made
    digests = [ProcessSimulator(each).description()["scenario_sha256"] for each in (made, last)]
    assert digests[0] != digests[1]


def test_a_run_says_when_late_cases_are_served():
    hint = "LATE_CASES = 'last' serves them after all others."
    for late_cases, objective, hinted in (
        ("in turn", {"late": 1.0}, True),
        ("in turn", {"late": 1.0, "tardiness": 1.0}, False),
        ("in turn", {"cycle_time": 1.0}, False),
        ("last", {"late": 1.0}, False),
    ):
        aims = {"objective": objective, "due": {"after": 3.0}, "late_cases": late_cases}
        notes = with_hooks(shop([0.0], [1.0], aims=aims)).hooks.notes
        assert any(note.endswith(hint) for note in notes) == hinted
        assert any("serve cases last" in note for note in notes) == (late_cases == "last")


def test_late_cases_without_due_dates_are_refused_in_a_sentence():
    with pytest.raises(UserError, match="Late cases come last, but the process has neither a target nor due dates"):
        shop([0.0], [1.0], aims={"late_cases": "last"})
