"""States from logs of open cases: by hand, written from a state, and likely tasks by slow enumeration."""

import csv
from collections import Counter
from datetime import datetime, timedelta
from itertools import product

import pytest
from oracles.process_play import office, rework, scenario, service

from longstride.errors import UserError
from longstride.process.event_logs.open_events import read_open_events
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.scenario.routing import build_routing
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.from_log import state_of_log
from longstride.process.snapshots.likely_tasks import LikelyTasks
from longstride.process.snapshots.names import Names

MONDAY = datetime(2026, 11, 23)
SERVICES = [
    service("check", "ann", "constant", mean=1.0),
    service("check", "bob", "constant", mean=2.0),
    service("talk", "bob", "constant", mean=1.0),
    service("pay", "ann", "constant", mean=0.5),
]
CHAIN = {
    "start": [{"p": 1.0, "activity": "check"}],
    "next": {
        "check": [{"p": 0.7, "activity": "talk"}, {"p": 0.3, "activity": "pay"}],
        "talk": [{"p": 1.0, "activity": "pay"}],
        "pay": [{"p": 1.0, "activity": None}],
    },
}


def desk(flow=CHAIN, **changes):
    hours = [{"days": ["Monday"], "from": "08:00", "to": "16:00"}]
    parts = {"activities": ["check", "talk", "pay"], "resources": ["ann", "bob"], "service": SERVICES, "flow": flow}
    return ProcessSimulator(scenario(**(parts | {"working_hours": {"ann": hours, "bob": hours}} | changes)))


def read(tmp_path, simulator, lines, at=None, on_shift=None, **options):
    file = tmp_path / "log.csv"
    file.write_text("\n".join(lines) + "\n")
    return state_of_log(read_open_events(file, {}, LogReading(**options), at), simulator, Names(simulator), on_shift)


def tasks(listed):
    return [tuple(task.model_dump(exclude={"place"}).values()) for task in listed]


WHOLE = [
    "case,activity,resource,start,end",
    "a,check,ann,2026-11-23 08:00,2026-11-23 09:00",
    "b,check,bob,2026-11-23 08:30,2026-11-23 10:30",
    "b,talk,bob,2026-11-23 10:30,",
    "c,check,ann,2026-11-23 09:00,2026-11-23 10:00",
    "c,pay,ann,2026-11-23 10:00,2026-11-23 10:30",
    "d,check,ann,2026-11-23 10:30,2026-11-23 11:15",
    "e,check,,,",
]


def test_what_has_started_and_not_ended(tmp_path):
    state, notes = read(tmp_path, desk(), WHOLE, "2026-11-23T11:00:00")
    assert state.time == 11.0
    assert tasks(state.in_work) == [("b", "talk", 10.5, "bob"), ("d", "check", 10.5, "ann")]
    assert tasks(state.waiting) == [("e", "check", 11.0), ("a", "talk", 9.0)]
    assert [(case.case, case.since) for case in state.cases] == [("a", 8.0), ("b", 8.5), ("d", 10.5), ("e", 11.0)]
    assert state.on_shift == ["ann", "bob"]
    assert notes[0] == (
        "1 case: the next task is inferred from the scenario's flow; for 1 the most likely is used (70% sure or more)."
    )
    assert notes[1].startswith("1 case: assumed to be over")
    assert notes[2] == "1 waiting task: the log has no time of the case, so the wait begins now."


def test_the_last_time_of_the_log_is_the_present(tmp_path):
    state, _ = read(tmp_path, desk(), WHOLE, on_shift=["ann"])
    assert state.time == 11.25
    assert tasks(state.in_work) == [("b", "talk", 10.5, "bob")]
    assert tasks(state.waiting) == [("e", "check", 11.25), ("a", "talk", 9.0), ("d", "talk", 11.25)]
    assert state.on_shift == ["ann"]
    early, _ = read(tmp_path, desk(), WHOLE, "2026-11-23 08:15")
    assert (tasks(early.in_work), early.time) == ([("a", "check", 8.0, "ann")], 8.25)


def test_repeated_rows_count_once(tmp_path):
    state, _ = read(tmp_path, desk(), [*WHOLE, *WHOLE[1:5], WHOLE[-1]], "2026-11-23T11:00:00")
    notes = read_open_events(tmp_path / "log.csv", {}, LogReading(), None).notes
    assert state == read(tmp_path, desk(), WHOLE, "2026-11-23T11:00:00").state
    assert notes[0] == "5 rows repeat another one and are left out (--keep-duplicates keeps duplicates)."
    kept = read(tmp_path, desk(), [*WHOLE, WHOLE[-1]], "2026-11-23T11:00:00", keep_duplicates=True).state
    assert [task.case for task in kept.waiting] == ["e", "e", "a"]


def test_transitions_that_repeat_count_once_and_instances_differ(tmp_path):
    lines = ["case,activity,resource,time,lifecycle", "a,check,ann,2026-11-23 08:00,start"]
    lines += [lines[-1], "a,check,ann,2026-11-23 09:00,complete", "b,talk,bob,2026-11-23 09:30,start"]
    state, _ = read(tmp_path, desk(), [*lines, lines[-1]])
    assert tasks(state.in_work) == [("b", "talk", 9.5, "bob")]
    twice = ["case,activity,resource,start,end,activity_instance_id"]
    twice += [f"a,check,ann,2026-11-23 08:00,2026-11-23 09:00,{i}" for i in (1, 2)]
    (tmp_path / "log.csv").write_text("\n".join(twice))
    events = read_open_events(tmp_path / "log.csv", {}, LogReading(), None)
    assert (len(events.done["a"]), events.notes) == (2, [])


def test_what_ends_at_one_time_was_done_in_the_order_of_its_starts(tmp_path):
    lines = [*WHOLE[:2], "a,pay,ann,2026-11-23 09:45,2026-11-23 10:00"]
    lines += ["a,talk,bob,2026-11-23 09:30,2026-11-23 10:00"]
    state, notes = read(tmp_path, desk(), lines)
    assert state.waiting == []
    assert notes[0].startswith("1 case: assumed to be over")


def test_a_case_with_two_tasks_in_work_waits_once(tmp_path):
    flow = {"and": [{"task": name} for name in ("check", "talk", "pay")]}
    lines = ["case,activity,resource,start,end", "a,check,ann,2026-11-23 08:00,", "a,talk,bob,2026-11-23 08:15,"]
    state, _ = read(tmp_path, desk(flow), lines, "2026-11-23 09:00")
    assert tasks(state.waiting) == [("a", "pay", 8.0)]


def test_of_a_person_the_newest_task_is_in_work_and_a_system_needs_nobody(tmp_path):
    world = {
        "activities": ["check", "talk", "pay", "post"],
        "automatic": [{"activity": "post", "distribution": "constant", "mean": 0.1}],
    }
    flow = {"seq": [{"task": "check"}, {"task": "post"}]}
    lines = ["case,activity,resource,start,end", "a,check,ann,2026-11-23 08:00,", "b,check,ann,2026-11-23 08:30,"]
    lines += ["c,check,bob,2026-11-23 08:00,2026-11-23 08:10", "c,post,SYS,2026-11-23 08:20,"]
    state, notes = read(tmp_path, desk(flow, **world), lines, "2026-11-23 09:00")
    assert tasks(state.in_work) == [("b", "check", 8.5, "ann")]
    assert (tasks(state.waiting), tasks(state.resting)) == ([("a", "check", 8.0)], [("c", "post")])
    assert "1 task in work: treated as not begun, because the person has begun another one since." in notes
    assert not any("does not know" in note for note in notes)


def test_a_case_in_an_unknown_activity_waits_for_nothing_and_unknown_completed_ones_are_named(tmp_path):
    lines = [WHOLE[0], "a,tea,ann,2026-11-23 08:00,", "b,tea,bob,2026-11-23 08:00,2026-11-23 08:10"]
    state, notes = read(tmp_path, desk(), lines, "2026-11-23 09:00")
    assert tasks(state.waiting) == [("b", "check", pytest.approx(8 + 1 / 6))]
    assert state.on_shift == ["bob"]
    assert "1 case: completed activities that the scenario does not have are ignored." in notes
    assert any("are left out (tea by ann)" in note for note in notes)


def test_a_date_of_another_century_is_not_the_present(tmp_path):
    lines = [*WHOLE, "f,check,ann,2226-11-23 10:00,"]
    with pytest.raises(UserError, match=r"line 9 has a date of another century .*leave it out with --skip-bad-rows"):
        read(tmp_path, desk(), lines)
    state, _ = read(tmp_path, desk(), lines, skip_bad_rows=True)
    assert state.time == 11.25
    notes = read_open_events(tmp_path / "log.csv", {}, LogReading(skip_bad_rows=True), None).notes
    assert notes[0].startswith("1 of 8 rows is bad and left out (--skip-bad-rows); the first: line 9 has a date")


@pytest.mark.parametrize(("at", "said"), [("2026-11-30 10:00", False), ("2036-11-23 10:00", True)])
def test_a_present_long_after_the_last_event_is_doubted(tmp_path, at, said):
    (tmp_path / "log.csv").write_text("\n".join(WHOLE))
    notes = read_open_events(tmp_path / "log.csv", {}, LogReading(), at).notes
    expected = "The last event before 2036-11-23 10:00 is 3,653 days older: is --at right?"
    assert any(note.startswith(expected) for note in notes) == said
    assert any("is --at right" in note for note in notes) == said


def test_rows_for_transitions_with_offsets(tmp_path):
    lines = [
        "case,activity,resource,timestamp,lifecycle",
        "a,check,,2026-11-23T08:00:00+01:00,schedule",
        "a,check,ann,2026-11-23T08:30:00+01:00,start",
        "b,check,,2026-11-23T08:15:00+01:00,schedule",
        "a,check,ann,2026-11-23T09:30:00+01:00,complete",
        "a,talk,,2026-11-23T09:45:00+01:00,schedule",
        "b,check,bob,2026-11-23T09:50:00+01:00,start",
        "c,check,,2026-11-23T09:55:00+01:00,schedule",
    ]
    state, notes = read(tmp_path, desk(), lines, "2026-11-23T09:00:00Z")
    assert state.time == 10.0
    assert tasks(state.in_work) == [("b", "check", pytest.approx(9 + 5 / 6), "bob")]
    assert tasks(state.waiting) == [("a", "talk", 9.75), ("c", "check", pytest.approx(9 + 11 / 12))]
    assert [case.case for case in state.cases] == ["a", "b", "c"]
    assert len(notes) == 1
    before, _ = read(tmp_path, desk(), lines, "2026-11-23T08:20")
    assert tasks(before.waiting) == [("a", "check", 8.0), ("b", "check", 8.25)]


def test_delays_and_automatic_tasks_rest(tmp_path):
    """After 08:00 to 09:00 a case needs talk; its delay has a median of two hours, of which one is closed."""
    clock = [1.0] * 168
    clock[10] = 0.0
    world = {
        "delays": [{"activity": "talk", "distribution": "uniform", "low": 1.0, "high": 3.0}],
        "automatic": [{"activity": "post", "distribution": "constant", "mean": 0.1}],
        "delay_clock": clock,
        "activities": ["check", "talk", "pay", "post"],
    }
    flow = {"seq": [{"task": "check"}, {"and": [{"task": "talk"}, {"task": "post"}]}, {"task": "pay"}]}
    lines = [*WHOLE[:2], "z,check,bob,2026-11-23 12:00,2026-11-23 12:30"]
    resting, _ = read(tmp_path, desk(flow, **world), lines, "2026-11-23 11:59")
    assert sorted(tasks(resting.resting)) == [("a", "post"), ("a", "talk")]
    waiting, _ = read(tmp_path, desk(flow, **world), lines, "2026-11-23 12:01")
    assert (tasks(waiting.waiting), tasks(waiting.resting)) == ([("a", "talk", 12.0)], [("a", "post")])


def test_places_of_tasks_in_branches(tmp_path):
    """Of two checks, the one in work is that of its branch, so that the other branch is the one that waits."""
    flow = {"and": [{"seq": [{"task": "check"}, {"task": "talk"}]}, {"seq": [{"task": "talk"}, {"task": "check"}]}]}
    lines = ["case,activity,resource,start,end", "a,talk,bob,2026-11-23 08:00,2026-11-23 09:00"]
    lines += ["a,check,ann,2026-11-23 08:30,2026-11-23 09:30", "a,check,bob,2026-11-23 09:45,"]
    state, _ = read(tmp_path, desk(flow), lines, "2026-11-23 10:00")
    assert [(task.activity, task.place) for task in state.in_work] == [("check", 1)]
    assert [(task.activity, task.place) for task in state.waiting] == [("talk", 0)]


def test_strangers_and_ways_that_the_flow_does_not_have(tmp_path):
    lines = [
        "case,activity,resource,start,end",
        "a,talk,bob,2026-11-23 08:00,2026-11-23 09:00",
        "b,check,eve,2026-11-23 08:30,",
        "c,talk,ann,2026-11-23 08:45,",
        "d,dance,bob,2026-11-23 08:50,2026-11-23 08:55",
    ]
    state, notes = read(tmp_path, desk(), lines, "2026-11-23 09:30")
    assert (state.in_work, tasks(state.waiting)) == (
        [],
        [("a", "pay", 9.0), ("d", "check", pytest.approx(8 + 11 / 12))],
    )
    assert state.on_shift == ["bob"]
    assert any("1 case: on a path that the scenario's flow does not have" in note for note in notes)
    assert any("check by eve, talk by ann" in note for note in notes)


@pytest.mark.parametrize(
    ("lines", "at", "sentence"),
    [
        (WHOLE, "noon", "--at: 'noon' is not an ISO 8601 date and time like 2026-11-23T10:15:00."),
        (WHOLE[:-1], "2020-01-01", "nothing has happened by 2020-01-01T00:00:00; name a later --at."),
        (WHOLE, "2026-11-23T09:00+01:00", "has a UTC offset, but the times of"),
        ([*WHOLE, "f,check,ann,2026-11-23 10:00,2026-11-23 09:00"], None, "line 9 ends before it starts"),
        ([*WHOLE, "f,check,ann,later,"], None, "line 9 has no readable start time"),
        (WHOLE[:1], None, "holds no event"),
    ],
)
def test_logs_that_are_refused(tmp_path, lines, at, sentence):
    with pytest.raises(UserError, match=sentence.replace(".", "\\.").replace("'", ".")):
        read(tmp_path, desk(), lines, at)


def test_unknown_people_on_shift_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"--on-shift\[0\]: the scenario has no person 'anne'; did you mean ann\?"):
        read(tmp_path, desk(), WHOLE, on_shift=["anne"])


def test_a_written_state_is_read_again(tmp_path):
    """Every task of a state as rows of transitions: schedule for what waits, start for what is in work."""
    simulator = desk()
    waiting = [(f"w{i}", ["check", "talk", "pay"][i % 3], 8.0 + i / 60) for i in range(12)]
    in_work = [("x", "check", "ann", 8.9), ("y", "talk", "bob", 9.1)]
    rows = [(case, activity, "", since, "schedule") for case, activity, since in waiting]
    rows += [(case, activity, person, since, "start") for case, activity, person, since in in_work]
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["case", "activity", "resource", "time", "lifecycle"])
        for case, activity, person, since, transition in rows[::-1]:
            writer.writerow([case, activity, person, (MONDAY + timedelta(hours=since)).isoformat(), transition])
    events = read_open_events(file, {}, LogReading(), "2026-11-23T10:00")
    state, _ = state_of_log(events, simulator, Names(simulator))
    found = [(case, activity, pytest.approx(since, abs=1e-6)) for case, activity, since in tasks(state.waiting)]
    assert found == waiting
    assert [(t.case, t.activity, t.person) for t in state.in_work] == [row[:3] for row in in_work]


def enumerate_tree(flow):
    """Yield (probability, branches) of a flow tree, branches a set of orders that an enumeration of all may take."""
    kind, content = next(iter(flow.items()))
    if kind == "task":
        yield 1.0, [(content,)]
    elif kind == "xor":
        for choice in content:
            for p, orders in enumerate_tree(choice["branch"]):
                yield p * choice["p"], orders
    elif kind == "seq":
        for parts in product(*(list(enumerate_tree(part)) for part in content)):
            p = 1.0
            for q, _ in parts:
                p *= q
            yield p, [tuple(a for order in orders for a in order) for orders in product(*(o for _, o in parts))]
    else:
        for parts in product(*(list(enumerate_tree(part)) for part in content)):
            p = 1.0
            for q, _ in parts:
                p *= q
            yield p, [m for orders in product(*(o for _, o in parts)) for m in merges(list(orders))]


def merges(orders):
    """Return all orders in which branches may run side by side."""
    if not any(orders):
        return [()]
    found = []
    for i, order in enumerate(orders):
        if order:
            rest = [o[1:] if j == i else o for j, o in enumerate(orders)]
            found += [(order[0], *more) for more in merges(rest)]
    return found


def test_likely_tasks_are_those_of_an_enumeration():
    """A task may come next after some events if and only if some way of the flow begins with these events and it."""
    flow, names = office().flow, office().activities
    likely, target = LikelyTasks(routing := build_routing(flow, names)), routing.target
    ways = [order for _, orders in enumerate_tree(flow) for order in orders]
    prefixes = {tuple(way[:k]) for way in ways for k in range(len(way) + 1)}
    assert len(prefixes) == 50
    for prefix in prefixes:
        markings = likely.after(tuple(names.index(a) for a in prefix))
        assert sum(markings.values()) == pytest.approx(1.0)
        found = {names[target[node]] for marking in markings for node in marking.tasks}
        assert found == {way[len(prefix)] for way in ways if way[: len(prefix)] == prefix and len(way) > len(prefix)}
        over = any(not marking.tasks for marking in markings)
        assert over == any(way == prefix for way in ways)
    assert likely.after((2, 2, 2, 2, 2)) == {}


def test_the_probabilities_of_a_chain_and_of_a_choice():
    chain = rework()
    likely = LikelyTasks(routing := build_routing(chain.flow, chain.activities))
    after_b = {tuple(routing.target[n] for n in m.tasks): p for m, p in likely.after((0, 1)).items()}
    assert after_b == {(0,): pytest.approx(0.2), (1,): pytest.approx(0.3), (): pytest.approx(0.5)}
    assert likely.after_one(1) == likely.after((0, 1))
    both = {"seq": [{"task": "A"}, {"task": "B"}]}
    either = {"xor": [{"p": 0.2, "branch": both}, {"p": 0.8, "branch": {"task": "B"}}]}
    tree = LikelyTasks(routing := build_routing({"and": [either, {"task": "A"}]}, ["A", "B"]))
    begun = {tuple(sorted(routing.target[n] for n in m.tasks)): p for m, p in tree.after(()).items()}
    assert begun == {(0, 0): pytest.approx(0.2), (0, 1): pytest.approx(0.8)}
    after_a = Counter()
    for marking, p in tree.after((0,)).items():
        after_a[tuple(sorted(routing.target[n] for n in marking.tasks))] += p
    # Of 0.2, each of the two A's is equally likely to be the one that is done: B comes next beside the other A, or not.
    assert after_a == {(0, 1): pytest.approx(0.1), (0,): pytest.approx(0.1), (1,): pytest.approx(0.8)}


def test_the_cases_of_a_list_are_told_apart_by_their_events():
    cases = [
        {"weight": 1, "tasks": [{"task": "A"}, {"task": "B"}]},
        {"weight": 3, "tasks": [{"task": "A"}, {"task": "A", "delay": 2.0}, {"task": "B", "after": [0, 1]}]},
    ]
    likely = LikelyTasks(routing := build_routing({"cases": cases}, ["A", "B"]))
    after = {tuple(routing.target[n] for n in m.tasks): p for m, p in likely.after((0,)).items()}
    assert after == {(1,): pytest.approx(0.25), (0,): pytest.approx(0.75)}
    busy = likely.in_work(likely.after((0,)), [0])
    assert [(m.tasks, len(m.busy), p) for m, p in busy.items()] == [((), 1, pytest.approx(1.0))]
    assert likely.in_work(likely.after((0, 0)), [0]) == {}


def test_a_case_may_have_thousands_of_events():
    loop = rework()
    likely = LikelyTasks(build_routing(loop.flow, loop.activities))
    assert likely.after((0, 1) * 2_000) == likely.after((0, 1))
