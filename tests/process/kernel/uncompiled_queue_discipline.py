"""Order of service by age of the task or of the case: against a slow reference, hand-counted times, and in states."""

import heapq

import numpy as np
import pytest
from oracles.process_play import scenario, service

from longstride.errors import UserError
from longstride.process.kernel import dynamics
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import as_state
from longstride.process.snapshots.state_reader import StateReader
from longstride.simulators.simulator import new_state

HOURS = {"A": 1.0, "B": 0.4, "C": 2.3}
PATHS = ["ABC", "BAB", "CA", "AACB", "B"]
TASK, CASE = "earliest enabled first", "oldest case first"
RULES = [(TASK, CASE), (TASK, TASK), (CASE, CASE), (CASE, TASK)]


def shop(times, rules, priorities=(0,), people="RS", paths=PATHS, **changes):
    """Return cases of some paths and priorities, equally frequent, that people serve who can all do everything."""
    cases = [
        {"tasks": [{"task": a} for a in path]} | ({"priority": p} if p else {}) for path in paths for p in priorities
    ]
    keys = ("queue_discipline_within_activity", "queue_discipline_between_activities")
    data = {
        "horizon": {"value": 1000.0},
        "arrivals": {"process": "replay", "times": list(times)},
        "activities": list(HOURS),
        "resources": list(people),
        "service": [{**service(a, r, "constant", mean=HOURS[a]), "observations": 1} for a in HOURS for r in people],
        "flow": {"cases": cases},
    }
    return scenario(**{**data, **dict(zip(keys, rules, strict=True)), **changes})


def played(made, seed):
    """Return case, activity and start of the events of an episode, and the path and priority of each case."""
    parameters, sizes = build_parameters(made)
    events = play_logged(as_logged_record(parameters), parameters, sizes, seed)
    activity = parameters.node_target[events.node]
    order = np.lexsort((events.start, events.case))
    cases = np.split(order, np.flatnonzero(np.diff(events.case[order])) + 1)
    paths = ["".join("ABC"[activity[i]] for i in rows) for rows in cases]
    priority = parameters.node_priority if parameters.has_priorities else np.zeros(len(parameters.node_kind))
    ranks = [int(priority[events.node[rows[0]]]) for rows in cases]
    return list(zip(events.case.tolist(), activity.tolist(), events.start.tolist(), strict=True)), paths, ranks


def reference(times, paths, ranks, people, rules):
    """Return case, activity and start of all tasks, in the order of their starts."""
    within, between = rules
    coming, free, waiting, found = [(t, c, 0) for c, t in enumerate(times)], [0.0] * people, [], []
    while coming or waiting:
        now = max(free[0], min([coming[0][0]] if not waiting else [], default=0.0))
        while coming and coming[0][0] <= now:
            waiting.append(heapq.heappop(coming))
        queues = {}
        for task in waiting:
            queues.setdefault(paths[task[1]][task[2]], []).append(task)
        heads = {
            a: min(queue, key=lambda task: (-ranks[task[1]], task[1] if within == CASE else task[0], task[0]))
            for a, queue in queues.items()
        }
        if between == TASK:
            a = min(heads, key=lambda a: (-ranks[heads[a][1]], heads[a][0]))
        else:
            a = min(heads, key=lambda a: (-ranks[heads[a][1]], min(task[1] for task in queues[a])))
        _, c, k = heads[a]
        waiting.remove(heads[a])
        end = now + HOURS[a]
        heapq.heapreplace(free, end)
        found.append((c, "ABC".index(a), now))
        if k + 1 < len(paths[c]):
            heapq.heappush(coming, (end, c, k + 1))
    return found


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("priorities", [(0,), (0, 2)])
@pytest.mark.parametrize("people", ["R", "RS"])
def test_tasks_are_served_as_in_a_slow_reference(rules, priorities, people):
    for seed in range(3):
        times = np.sort(np.random.default_rng(seed).uniform(0.0, 150.0 / len(people), 50))
        found, paths, ranks = played(shop(times, rules, priorities, people), seed)
        expected = reference(times, paths, ranks, len(people), rules)
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected])


def test_the_rules_differ_in_what_they_serve():
    times = np.sort(np.random.default_rng(0).uniform(0.0, 100.0, 50))
    assert len({tuple(played(shop(times, rules), 0)[0]) for rules in RULES}) == len(RULES)


@pytest.mark.parametrize("rules", RULES)
def test_the_heuristic_of_the_simulator_serves_the_same_tasks(rules):
    times = np.sort(np.random.default_rng(3).uniform(0.0, 150.0, 50))
    made = shop(times, rules, people="R")
    simulator, rng = ProcessSimulator(made), np.random.default_rng(1)
    states, p = new_state(simulator), simulator.parameters
    state, found, mask = states[0], [], np.zeros(simulator.action_space.n, np.bool_)
    state.seed = np.uint64(np.random.default_rng(1).integers(2**53))
    dynamics.clear(state, p)
    dynamics.run_to_step(state, p)
    while not simulator.truncated(state, p):
        mask[:] = False
        simulator.action_mask(state, p, mask)
        mask[-1] = True
        pair = simulator.heuristics["logged"](state, p, mask, rng)
        a = p.pair_activity[pair]
        found.append((int(state.slot_case[state.queue_head[a]]), int(a), float(state.time)))
        simulator.step(state, p, pair, rng)
    assert found == played(made, 1)[0]


@pytest.mark.parametrize(("rules", "chosen"), [((TASK, CASE), "X"), ((TASK, TASK), "Y"), ((CASE, CASE), "X")])
@pytest.mark.parametrize("other", ["A", "B"])
def test_a_described_state_follows_the_rules_and_the_start_logged_marks_the_same_task(rules, chosen, other):
    """Case X is older, and its task at A has waited for less time than that of case Y, at A or B."""
    simulator = ProcessSimulator(shop([1.0], rules, people="R"), prior="logged")
    tasks = [{"case": "X", "activity": "A", "since": 5.0}, {"case": "Y", "activity": other, "since": 4.0}]
    cases = [{"case": "X", "since": 0.0}, {"case": "Y", "since": 3.0}]
    state = as_state({"time": 6.0, "waiting": tasks, "cases": cases})
    read = StateReader(simulator, listed=False).read(describe(state, Names(simulator))[0])
    pair = read.choices["logged"]
    assert np.flatnonzero(read.features[:, 1]).tolist() == [pair]
    if other == "B":
        assert pair == "AB".index({"X": "A", "Y": "B"}[chosen])
    else:  # the head is that of the queue's own rule
        assert pair == 0
        assert read.state["slot_case"][read.state["queue_head"][0]] == (rules[0] != CASE)


def test_a_scenario_without_the_rules_has_the_digest_of_earlier_versions():
    digest = [ProcessSimulator(made).description()["scenario_sha256"] for made in (scenario(), shop([1.0], RULES[1]))]
    assert digest[0] == "bc9b70669d6b13e4a19d79ee7aa70fff225310a191cbce6f4e2e9bf0b45e8ffb"
    assert digest[1] != ProcessSimulator(shop([1.0], RULES[0])).description()["scenario_sha256"]


def test_an_unknown_rule_is_refused_in_a_sentence():
    with pytest.raises(UserError, match=r"queue_discipline_between_activities: .*'earliest enabled first'"):
        shop([1.0], (TASK, "newest first"))
