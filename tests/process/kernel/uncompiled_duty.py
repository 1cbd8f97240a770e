"""Rosters and pauses by hand and against counting hours."""

import json
import re

import numpy as np
import pytest
from oracles.process_play import FIFO, RANDOM, play, scenario, service

from longstride.errors import UserError
from longstride.process.kernel.duty import duty_stretches
from longstride.process.kernel.parameters import build_parameters
from longstride.process.scenario_file import load_scenario, parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]


def clerk(pause, times, **changes):
    data = {
        "horizon": {"value": 24.0 * 14},
        "arrivals": {"process": "replay", "times": times},
        "service": [service("A", "R", "constant", mean=5.0)],
        "rosters": {"R": [{"days": DAYS, "p": 1.0, "hours": ["09:00-12:00", "13:00-17:00"]}]},
        "at_end_of_duty": "pause" if pause else "finish",
    }
    return scenario(**{**data, **changes})


def completions(made):
    (episode,) = play(ProcessSimulator(made), FIFO, 1)
    return episode


def test_a_task_rests_over_the_break_and_over_night():
    episode = completions(clerk(True, [9.0, 9.5, 24 * 4 + 15.0]))
    # 9-12 and 13-15; 15-17 and 9-12 on Tuesday; Friday 15-17 and Monday 9-12.
    assert episode.state.completion_time[:3].tolist() == [15.0, 36.0, 24 * 7 + 12.0]
    assert episode.state.busy_time.tolist() == [15.0]
    assert episode.metrics["utilisation"] == pytest.approx([15 / 70])


def test_without_pauses_a_roster_is_like_working_hours():
    hours = [{"days": DAYS, "from": a, "to": b} for a, b in (("09:00", "12:00"), ("13:00", "17:00"))]
    times = [9.0, 9.5, 24 * 4 + 15.0]
    by_roster = completions(clerk(False, times))
    by_hours = completions(clerk(False, times, rosters={}, working_hours={"R": hours}))
    assert by_roster.state.completion_time.tolist() == by_hours.state.completion_time.tolist()
    assert by_roster.metrics["utilisation"] == pytest.approx(by_hours.metrics["utilisation"])
    np.testing.assert_array_equal(by_roster.state.change_at, by_hours.state.change_at)
    np.testing.assert_array_equal(by_roster.state.change_after, by_hours.state.change_after)


def test_days_come_as_often_as_the_roster_says_and_are_the_same_for_every_policy():
    plans = [
        {"days": ["Monday"], "p": 0.3, "hours": ["08:00-10:00"]},
        {"days": ["Monday"], "p": 0.5, "hours": ["20:00-24:00"]},
    ]
    made = clerk(False, [1.0], horizon={"value": 168.0 * 400}, rosters={"R": plans})
    first, other = (play(ProcessSimulator(made), which, 1)[0] for which in (FIFO, RANDOM))
    expected = 400 * (0.3 * 2 + 0.5 * 4)
    assert first.state.duty_time[0] == pytest.approx(expected, rel=0.08)
    assert first.state.duty_time[0] == other.state.duty_time[0]


def test_scenarios_with_rosters_are_written_and_read(tmp_path):
    made = clerk(True, [9.0])
    (tmp_path / "a.json").write_text(json.dumps(scenario_content(made)))
    assert load_scenario(tmp_path / "a.json") == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rosters": {"R": [{"days": ["Monday"], "p": 1.0, "hours": ["09:30-12:00"]}]}}, "whole hours"),
        ({"rosters": {"R": [{"days": ["Monday"], "p": 0.7, "hours": ["09:00-12:00"]}] * 2}}, "add up to 1.4"),
        ({"rosters": {"Q": []}}, "not listed"),
        ({"delay_clock": [1.0] * 7}, "168 numbers"),
        ({"delays": [{"activity": "B", "distribution": "constant", "mean": 1.0}]}, "not listed"),
        ({"flow": {"cases": [{"tasks": [{"task": "A", "delay": -1.0}]}]}}, "not negative"),
        ({"flow": {"cases": [{"tasks": [{"task": "A", "after": [0]}]}]}}, "earlier tasks"),
        ({"flow": {"cases": [{"tasks": [{"task": "B"}]}]}}, "not one of the scenario's activities"),
        ({"flow": {"cases": []}}, "not empty"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    content = {**scenario_content(clerk(False, [9.0])), **changes}
    with pytest.raises(UserError, match=message):
        parse_scenario(content, "test")


def test_plans_of_a_rota_hold_in_their_weeks_only():
    plans = [
        {"days": ["Monday"], "p": 1.0, "hours": ["08:00-10:00"], "week": 0, "of": 2},
        {"days": ["Monday"], "p": 1.0, "hours": ["12:00-16:00"], "week": 1, "of": 2},
        {"days": ["Sunday"], "p": 1.0, "hours": ["12:00-13:00"], "week": 2, "of": 3},
    ]
    made = clerk(False, [1.0], horizon={"value": 168.0 * 12}, rosters={"R": plans})
    (episode,) = play(ProcessSimulator(made), FIFO, 1)
    assert episode.state.duty_time[0] == 6 * 2 + 6 * 4 + 4
    stretches = duty_stretches(episode.state, build_parameters(made)[0], 0, 21)
    assert stretches == [(8, 10), (168 + 12, 168 + 16), (336 + 8, 336 + 10), (336 + 144 + 12, 336 + 144 + 13)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"week": 2, "of": 2}, "rosters.R[0].week: 2 is not one of 0 to 1."),
        ({"week": 0, "of": 59}, "rosters: together they repeat after 118 weeks, more than 60."),
        ({"week": 1, "of": 2}, "rosters.R: the probabilities of Monday add up to 1.7, more than 1."),
    ],
)
def test_impossible_rotas_are_refused(changes, said):
    plan = {"days": ["Monday"], "p": 0.7, "hours": ["08:00-10:00"]}
    both = [{**plan, **changes}, {**plan, "p": 1.0 if changes["of"] == 2 else 0.1, "of": 2, "week": 1}]
    with pytest.raises(UserError, match=re.escape(said)):
        clerk(False, [1.0], rosters={"R": both})
