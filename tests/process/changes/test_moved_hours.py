"""Working hours that begin and end earlier or later, as a change in words."""

import pytest

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.load import find_scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

DESK = find_scenario("loan_desk")


def hours(scenario, name):
    return [(shift.from_, shift.to) for shift in scenario.working_hours[name]]


def test_a_group_comes_and_goes_later():
    result = apply_changes(DESK, "analysts later by 2 hours")
    before, after = (hours(s, "Kim (analyst)") for s in (DESK, result.scenario))
    assert [(int(a[:2]) + 2, int(b[:2]) + 2) for a, b in before] == [(int(a[:2]), int(b[:2])) for a, b in after]
    assert hours(result.scenario, "Ada (clerk)") == hours(DESK, "Ada (clerk)")
    (said,) = result.sentences
    assert said.endswith("come and go 2 hours later")
    assert apply_changes(result.scenario, "analysts earlier by 2h").scenario.working_hours == DESK.working_hours


def test_rosters_move_too():
    content = scenario_content(DESK)
    del content["working_hours"]["Kim (analyst)"]
    content["rosters"] = {"Kim (analyst)": [{"days": ["Monday"], "p": 0.5, "hours": ["09:00-12:00", "13:00-17:00"]}]}
    moved = apply_changes(parse_scenario(content, "test"), "Kim earlier by 1h").scenario
    assert moved.rosters["Kim (analyst)"][0].hours == ["08:00-11:00", "12:00-16:00"]
    assert moved.rosters["Kim (analyst)"][0].p == 0.5


def test_hours_stay_within_the_day_and_must_exist():
    with pytest.raises(UserError, match="would work past midnight"):
        apply_changes(DESK, "Kim later by 12 hours")
    content = scenario_content(DESK)
    del content["working_hours"]["Kim (analyst)"]
    with pytest.raises(UserError, match="'Kim \\(analyst\\)': there are no working hours to move"):
        apply_changes(parse_scenario(content, "test"), "Kim later by 2h")
