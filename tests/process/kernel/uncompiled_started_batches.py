"""Batches that a policy begins: against a slow reference, hand-counted times, and batches that begin when full."""

import math

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, play, scenario, service
from oracles.slow_batches import CHECK, CROSS, NEEDS, PAIRS, River

from longstride.errors import UserError
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.read_aims import with_batch_start
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import as_state
from longstride.process.snapshots.state_reader import StateReader
from longstride.simulators.simulator import metrics_of, new_state

ACTIVITIES = ["Cross", "Check"]


def river(times, size=3, longest=5.0, start="policy", horizon=400.0, **changes):
    """Return the scenario of the reference."""
    batch = {"activity": "Cross", "size": size, "start": start} | ({} if longest is None else {"longest": longest})
    data = {
        "horizon": {"value": horizon},
        "arrivals": {"process": "replay", "times": [float(t) for t in times]},
        "activities": ACTIVITIES,
        "resources": ["ferry", "clerk"],
        "service": [service(ACTIVITIES[a], person, "constant", mean=mean) for (a, person), mean in NEEDS.items()],
        "flow": {"seq": [{"task": "Cross"}, {"task": "Check"}]},
        "batches": [batch],
    }
    return scenario(**{**data, **changes})


def arrivals(seed, count=150):
    return np.sort(np.random.default_rng(seed).uniform(0.0, 300.0, count))


def column(simulator, part, name):
    """Return the place of a figure by its name."""
    return list(simulator.labels[part]).index(name)


def require_same_view(simulator, state, slow, mask):
    """Compare what a policy sees of the batches with the reference."""
    p, waiting = simulator.parameters, slow.waiting[CROSS]
    seen = np.zeros(simulator.observation_size, np.float32)
    simulator.observe(state, p, seen)
    share = column(simulator, "observation", "share of a batch of Cross that gathers")
    age = column(simulator, "observation", "log(1 + age of the oldest in mean service times) of Cross")
    assert seen[share] == pytest.approx(slow.gathers() / slow.size)
    oldest = (slow.now - waiting[0][1]) / np.mean(list(NEEDS.values())) if waiting else 0.0
    assert seen[age] == pytest.approx(math.log1p(oldest), abs=1e-6)
    features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
    simulator.action_features(state, p, mask, features)
    rows, ids = np.full((len(mask), simulator.description_size), np.float32(np.nan)), np.zeros(len(mask), np.int32)
    count = simulator.describe_actions(state, p, ids, rows)
    rate = sum(t < slow.horizon for t in slow.times) / slow.horizon / 2  # tasks that arrive for one of the two people
    for row, pair in enumerate(ids[: count - 1]):
        tasks = min(len(waiting), slow.size)
        missing = 1.0 - tasks / slow.size if PAIRS[pair][0] == CROSS else 0.0
        expected = rate * NEEDS[PAIRS[pair]]
        enough = min(expected * (1.0 + 0.75 * (expected / slow.size) ** 2), slow.size)
        few = min(max(1.0 + 2.0 * math.log(enough / tasks), 0.0), 3.0) if missing else 0.0
        assert rows[row, -2:] == pytest.approx([few, missing], abs=1e-6)
        assert features[pair, -2:] == pytest.approx([few, missing], abs=1e-6)
    assert not rows[count - 1, -2:].any() and not features[-1].any()


@pytest.mark.parametrize("seed", range(4))
def test_episodes_of_random_decisions_are_those_of_a_slow_reference(seed):
    times = arrivals(seed)
    made = river(times, size=[2, 3, 5, 8][seed], horizon=[280.0, 400.0][seed % 2])
    simulator, rng = ProcessSimulator(made), np.random.default_rng(seed)
    slow, states = River(times, made.batches[0].size, 5.0, made.horizon.value), new_state(simulator)
    state, p, steps = states[0], simulator.parameters, 0
    simulator.reset(state, p, rng)
    while not simulator.truncated(state, p):
        mask = np.ones(len(PAIRS) + 1, np.bool_)
        simulator.action_mask(state, p, mask)
        assert np.flatnonzero(mask)[:-1].tolist() == slow.feasible()
        assert state.time == pytest.approx(slow.now, abs=1e-9)
        assert state.waiting + state.waiting_more == sum(map(len, slow.waiting.values()))
        require_same_view(simulator, state, slow, mask)
        action = int(rng.choice([*slow.feasible(), len(PAIRS)]))
        reward, _ = simulator.step(state, p, action, rng)
        assert -reward / p.reward_scale == pytest.approx(slow.step(action), abs=1e-9)
        steps += 1
    assert slow.ended and steps > 200
    done = {i: t for i, t in enumerate(state.completion_time[: state.arrived]) if t >= 0.0}
    assert done == pytest.approx(slow.done, abs=1e-9)


def described(slow):
    """Return a state of the reference in names, and whether nobody works on several cases, of which it has only one."""
    lists = {"waiting": [], "in_work": []}
    for activity in (CROSS, CHECK):
        lists["waiting"] += [
            {"case": f"{case:03}", "activity": ACTIVITIES[activity], "since": since}
            for case, since in slow.waiting[activity]
        ]
    for person, (_, activity, cases) in slow.work.items():
        since = slow.began[cases[0], activity]
        task = {"case": f"{cases[0]:03}", "activity": ACTIVITIES[activity], "person": person, "since": since}
        lists["in_work"].append(task)
    known = {task["case"] for task in [*lists["waiting"], *lists["in_work"]]}
    opened = [{"case": case, "since": slow.times[int(case)]} for case in sorted(known)]
    state = as_state({"time": slow.now, "on_shift": ["ferry", "clerk"], "cases": opened, **lists})
    return state, all(len(cases) == 1 for _, _, cases in slow.work.values())


@pytest.mark.parametrize("listed", [False, True])
def test_a_described_state_looks_as_in_the_simulator(listed):
    times = arrivals(8, 120)
    simulator, rng = ProcessSimulator(river(times, size=4)), np.random.default_rng(8)
    slow, states, reader = River(times, 4, 5.0, 400.0), new_state(simulator), StateReader(simulator, listed)
    state, p, compared, names = states[0], simulator.parameters, 0, Names(simulator)
    size = simulator.summary_size if listed else simulator.observation_size
    simulator.reset(state, p, rng)
    while not simulator.truncated(state, p):
        shown, is_whole = described(slow)
        if is_whole and slow.waiting[CROSS]:
            read, seen = reader.read(describe(shown, names)[0]), np.zeros(size, np.float32)
            (simulator.summarise if listed else simulator.observe)(state, p, seen)
            np.testing.assert_allclose(read.observation, seen, rtol=1e-5, atol=1e-6)
            assert read.feasible == len(slow.feasible())
            compared += 1
        action = int(rng.choice([*slow.feasible(), len(PAIRS)]))
        simulator.step(state, p, action, rng)
        slow.step(action)
    assert compared > 30


def decide(which, limit=0):
    """Return a policy: ``which`` heuristic of a simulator, or with a limit the ferry from so many tasks on."""

    def act(simulator, state, mask, rng):
        if limit == 0:
            return simulator.heuristics[which](state, simulator.parameters, mask, rng)
        tasks = state.waiting + state.waiting_more
        return 0 if mask[0] and tasks >= limit else len(mask) - 1

    return act


def ferry(times, start="policy", **changes):
    """Return a ferry alone, whose crossing ends a case."""
    alone = {
        "activities": ["Cross"],
        "resources": ["ferry"],
        "service": [{**service("Cross", "ferry", "constant", mean=2.0), "observations": 3}],
        "flow": {"task": "Cross"},
    }
    return river(times, start=start, **{**alone, **changes})


def ends(made, act):
    """Return the simulator's state and metrics after an episode of a policy."""
    simulator, rng = ProcessSimulator(made), np.random.default_rng(0)
    states = new_state(simulator)
    state, p = states[0], simulator.parameters
    simulator.reset(state, p, rng)
    while not simulator.truncated(state, p):
        mask = np.ones(simulator.action_space.n, np.bool_)
        simulator.action_mask(state, p, mask)
        simulator.step(state, p, act(simulator, state, mask, rng), rng)
    return state, metrics_of(simulator, states)


TIMES = [1, 2, 3, 4, 10, 20, 21, 22.5, 23]


@pytest.mark.parametrize(
    ("act", "begins"),
    [
        (decide("fifo"), [1, 3, 5, 5, 10, 20, 22, 24, 24]),
        (decide("full_batches"), [3, 3, 3, 20, 20, 20, 23, 23, 23]),
        (decide("ready_batches"), [3, 3, 3, 9, 15, 22.5, 22.5, 22.5, 28]),
        (decide("logged"), [3, 3, 3, 9, 15, 22.5, 22.5, 22.5, 28]),
        (decide("", limit=2), [2, 2, 4, 4, 20, 20, 22.5, 22.5]),
    ],
    ids=["at once", "full", "ready", "logged", "from two on"],
)
def test_rules_begin_batches_at_hand_counted_times(act, begins):
    state, metrics = ends(ferry(TIMES), act)
    expected = np.array(begins) + 2.0
    np.testing.assert_allclose(state.completion_time[: len(expected)], expected)
    assert (state.completion_time[len(expected) : len(TIMES)] < 0.0).all()
    assert metrics["mean_world_time"] == 0.0  # who gathers waits for the policy
    waits = metrics["mean_people_time"] + metrics["mean_work_time"]
    assert waits == pytest.approx(metrics["mean_cycle_time"])


@pytest.mark.parametrize("seed", range(3))
def test_batches_that_a_policy_begins_when_full_end_as_those_that_begin_by_themselves(seed):
    times = arrivals(seed, 100)
    by_policy, _ = ends(ferry(times, longest=None), decide("full_batches"))
    by_itself, metrics = ends(ferry(times, "ready", longest=None), decide("fifo"))
    assert by_policy.completion_time.tobytes() == by_itself.completion_time.tobytes()
    assert metrics["mean_world_time"] > 0.0


def test_waiting_and_cost_count_each_task_of_a_batch():
    aims = {"objective": {"waiting": 1, "cost": 1}, "costs": {"per_task": {"Cross": 7}}}
    state, metrics = ends(ferry(TIMES, aims=aims), decide("ready_batches"))
    began = np.array([3, 3, 3, 9, 15, 22.5, 22.5, 22.5, 28])
    assert metrics["mean_waiting_time"] == pytest.approx((began - TIMES).mean())
    assert metrics["cost_per_case"] == pytest.approx(7.0)
    assert state.waiting == state.waiting_more == state.gathered.sum() == 0


def test_every_case_ends_and_the_parts_of_its_time_add_up():
    for which in (FIFO, RANDOM):
        (episode,) = play(ProcessSimulator(river(arrivals(5))), which, 1)
        metrics = episode.metrics
        assert metrics["cases_finished"] == 150 and episode.state.resting == 0
        parts = [metrics[f"mean_{part}_time"] for part in ("world", "people", "work")]
        assert sum(parts) == pytest.approx(metrics["mean_cycle_time"]) and parts[0] == 0.0


def test_the_logged_habits_begin_batches_as_in_the_log():
    """So the base of a scenario is the same, whoever begins its batches in the simulator."""
    starts = []
    for start in ("ready", "policy"):
        parameters, sizes = build_parameters(river(arrivals(1), start=start))
        starts.append(play_logged(as_logged_record(parameters), parameters, sizes, 1).start.tobytes())
    assert starts[0] == starts[1]


def test_the_setting_changes_the_start_of_all_batches_and_nothing_else():
    made = river(TIMES, start="ready")
    assert with_batch_start(made, "policy") == river(TIMES)
    assert scenario_content(with_batch_start(river(TIMES), "ready")) == scenario_content(made)
    assert "start" not in scenario_content(made)["batches"][0]
    assert ProcessSimulator(made).description() != ProcessSimulator(river(TIMES)).description()
    assert {"full_batches", "ready_batches"} <= ProcessSimulator(river(TIMES)).heuristics.keys()
    assert "ready_batches" not in ProcessSimulator(river(TIMES, longest=None)).heuristics
    assert not {"full_batches", "ready_batches"} & ProcessSimulator(made).heuristics.keys()
    with pytest.raises(UserError, match="BATCH_START is 'policy', but test has no batches; leave it out"):
        with_batch_start(scenario(), "policy")
    with pytest.raises(UserError, match=r"batches\.0\.start: Input should be 'ready' or 'policy'"):
        parse_scenario({**scenario_content(made), "batches": [{"activity": "Cross", "size": 2, "start": "x"}]}, "x")


def test_the_rule_of_thumb_waits_for_the_tasks_of_one_crossing():
    """Postpone has logit -9, as a pair that lacks 1: one whose tasks are just enough."""
    simulator = ProcessSimulator(ferry(np.arange(1, 320, 1.25)))
    expected = 2.0 * 256 / 400
    assert simulator.parameters.pair_enough.tolist() == pytest.approx([expected * (1 + 0.75 * (expected / 3) ** 2)])
    assert simulator.initial_feature_weights[-2:].tolist() == [-9.0, 0.0]
    assert simulator.initial_description_weights[-2:].tolist() == [-9.0, 0.0]
    assert ProcessSimulator(ferry(TIMES), "fifo").initial_feature_weights[-2:].tolist() == [0.0, 0.0]
    assert ProcessSimulator(ferry(TIMES, "ready")).action_feature_size == 2
    assert ProcessSimulator(ferry(TIMES, "ready")).description_size == 20
