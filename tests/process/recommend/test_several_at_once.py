"""Recommendations for people who do several tasks at once: their names, their tasks in work, their probabilities."""

import pytest

pytest.importorskip("pydantic")

from helpers.played_states import some_policy
from oracles.process_play import scenario, service

from longstride.errors import UserError
from longstride.process.event_logs.open_events import read_open_events
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.recommend.recommender import Recommender
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.from_log import state_of_log

WAITING = [{"case": "x", "activity": "A", "since": 9.0}]
LOG = """case,activity,resource,start,end
a,A,R,2026-11-23 08:00,
b,A,R,2026-11-23 08:30,
c,A,R,2026-11-23 08:45,
d,A,R,2026-11-23 07:00,
e,A,S,2026-11-23 08:50,
"""


@pytest.fixture(scope="module")
def recommender():
    people = [service("A", name, "constant", mean=2.0) for name in ("R", "S")]
    made = scenario(time_unit="hours", resources=["R", "S"], service=people, at_once={"R": 3})
    simulator = ProcessSimulator(made)
    return Recommender(simulator, some_policy(simulator))


def in_work(*people):
    return [{"case": f"{i}", "activity": "A", "since": 8.0, "person": name} for i, name in enumerate(people)]


def advice(recommender, people):
    return recommender.recommend({"time": 9.5, "waiting": WAITING, "in_work": in_work(*people), "on_shift": ["R", "S"]})


def test_a_person_is_one_line_until_all_tasks_are_taken(recommender):
    for people in ([], ["R"], ["R", "R"]):
        answer = advice(recommender, people)
        assert sorted(each["person"] for each in answer["assignments"]) == ["R", "S"]
        assert sum(each["probability"] for each in answer["assignments"]) <= 1.0
        assert answer["recommended"]["person"] in ("R", "S")
        assert all((each["others"], each["free_others"]) == (1, 1) for each in answer["assignments"])
    [left] = advice(recommender, ["R", "R", "R"])["assignments"]
    assert (left["person"], left["free_others"]) == ("S", 0)
    assert left["alternatives"] == [{"person": "R", "service_time": 2.0, "status": "busy"}]


def test_more_tasks_than_the_scenario_allows_are_refused(recommender):
    with pytest.raises(UserError, match=r"in_work\[3\]: R has more than 3 tasks in work, the most in the scenario"):
        advice(recommender, ["R"] * 4)
    with pytest.raises(UserError, match=r"in_work\[1\]: S has two tasks in work"):
        advice(recommender, ["S", "S"])


def test_the_newest_open_tasks_of_a_log_are_in_work(recommender, tmp_path):
    file = tmp_path / "open.csv"
    file.write_text(LOG)
    events = read_open_events(file, {}, LogReading(), "2026-11-23T09:30")
    found = state_of_log(events, recommender.simulator, recommender.names)
    assert [(task.case, task.person) for task in found.state.in_work] == [
        ("a", "R"),
        ("b", "R"),
        ("c", "R"),
        ("e", "S"),
    ]
    assert found.state.on_shift == ["R", "S"]
    assert any("1 task in work: treated as not begun" in note for note in found.notes)
    assert recommender.recommend(found.state)["assignments"] == []
