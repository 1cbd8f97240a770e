"""Absences and holidays by hand, and against the weekly hours that they stand for."""

import json
import math

import numpy as np
import pytest
from oracles.process_play import FIFO, LAZY, play, scenario, service

from longstride.errors import UserError
from longstride.process.scenario.calendar import leave_arrays
from longstride.process.scenario_file import load_scenario, parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
NEVER = [24.0 * 999]
"""A holiday after the end, with which people come and go day by day."""


def desk(**changes):
    """Return a desk with two people, one of them always there, in hours; time 0 is 2026-01-05."""
    data = {
        "horizon": {"value": 24.0 * 35},
        "begins": "2026-01-05",
        "resources": ["R", "S"],
        "arrivals": {"process": "poisson", "rate": 0.3},
        "service": [service("A", "R", "exponential", mean=2.0), service("A", "S", "constant", mean=3.0)],
        "working_hours": {"R": [{"days": DAYS, "from": "09:00", "to": "17:00"}]},
    }
    return scenario(**{**data, **changes})


def episode(made, which=FIFO):
    return play(ProcessSimulator(made), which, 1)[0]


@pytest.mark.parametrize("end", ["finish", "pause"])
def test_a_day_off_each_week_is_like_working_hours_without_it(end):
    fridays = [{"person": "R", "from": 24.0 * day, "to": 24.0 * (day + 1)} for day in range(4, 35, 7)]
    absent = episode(desk(absences=fridays, at_end_of_duty=end), LAZY)
    hours = {"R": [{"days": DAYS[:4], "from": "09:00", "to": "17:00"}]}
    other = episode(desk(working_hours=hours, holidays=NEVER, at_end_of_duty=end), LAZY)
    assert absent.state.completion_time.tolist() == other.state.completion_time.tolist()
    assert absent.metrics["utilisation"] == other.metrics["utilisation"]
    assert absent.state.change_at.tolist() == other.state.change_at.tolist()


def test_a_holiday_is_an_absence_of_everybody():
    by_date = episode(desk(holidays=["2026-01-06", "2026-02-02"]))
    days = [(24.0, 48.0), (24.0 * 28, 24.0 * 29)]
    absences = [{"person": name, "from": a, "to": b} for name in ("R", "S") for a, b in days]
    assert by_date.state.completion_time.tolist() == episode(desk(absences=absences)).state.completion_time.tolist()
    assert by_date.state.duty_time[0] + 0.0 == 8 * (25 - 2)


def test_a_task_rests_over_a_holiday_where_tasks_rest():
    made = desk(
        arrivals={"process": "replay", "times": [16.0]},
        resources=["R"],
        service=[service("A", "R", "constant", mean=5.0)],
        holidays=["2026-01-06"],
        at_end_of_duty="pause",
    )
    assert episode(made).state.completion_time[0] == 48.0 + 9.0 + 4.0  # an hour on Monday, four on Wednesday


def test_nobody_looks_ready_in_an_absence_that_is_longer_than_the_lookahead():
    made = desk(absences=[{"person": "R", "from": "2026-01-07", "to": "2026-03-06"}], horizon={"value": 24.0 * 61})
    ended = episode(made)
    assert ended.state.on_duty.tolist() == [0, 1]
    assert ended.state.change_at[0] == 24.0 * 63 + 9.0  # Monday, 2026-03-09
    assert np.all(ended.state.change_at > ended.state.time)


def test_absences_are_whole_days_as_dates_and_merge():
    absences = desk(
        absences=[
            {"person": "R", "from": "2026-01-06", "to": "2026-01-07"},
            {"person": "R", "from": 40.0, "to": 80.0},
            {"person": "R", "from": 5.0, "to": 6.0},
        ],
        holidays=["2026-01-08"],
    )
    found = leave_arrays(absences.absences, absences.holidays, absences.begins, absences.hour, absences.resources)
    assert found["leave_first"].tolist() == [0, 2, 3]
    assert found["leave_begin"].tolist() == [5, 24, 72]
    assert found["leave_end"].tolist() == [6, 96, 96]


def test_an_absence_for_good_and_a_holiday_that_never_comes():
    made = desk(absences=[{"person": "R", "from": 24.0, "to": 1e300}], holidays=[1e300])
    assert episode(made).state.duty_time[0] == 8.0


def test_files_without_leave_keep_their_digest_and_those_with_it_are_read_again(tmp_path):
    plain, dated = (ProcessSimulator(made).description() for made in (desk(begins=None), desk()))
    assert plain["scenario_sha256"] == dated["scenario_sha256"]
    made = desk(holidays=["2026-01-06"], absences=[{"person": "R", "from": 5.0, "to": 6.0}])
    assert ProcessSimulator(made).description()["scenario_sha256"] != plain["scenario_sha256"]
    (tmp_path / "a.json").write_text(json.dumps(scenario_content(made)))
    assert load_scenario(tmp_path / "a.json") == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"begins": "2026-01-06"}, "not the date of a Monday"),
        ({"begins": None, "holidays": ["2026-01-06"]}, "add begins, a Monday"),
        ({"holidays": ["6.1.2026"]}, "holidays.0.: '6.1.2026' is not a date like"),
        ({"absences": [{"person": "Q", "from": 0.0, "to": 1.0}]}, "'Q' is not listed"),
        ({"absences": [{"person": "R", "from": 3.0, "to": 3.0}]}, "not a stretch of time"),
        ({"absences": [{"person": "R", "from": 3.5, "to": 5.0}]}, "not a whole number of hours"),
        ({"time_unit": "abstract", "working_hours": {}, "holidays": [1.0]}, "holidays: hours of the week need"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    content = {**scenario_content(desk()), **changes}
    with pytest.raises(UserError, match=message):
        parse_scenario({key: value for key, value in content.items() if value is not None}, "test")


def test_a_scenario_without_leave_has_no_rows():
    assert math.isnan(scenario(time_unit="abstract").hour)
    assert ProcessSimulator(scenario(time_unit="abstract")).parameters.leave_first.tolist() == [0, 0]
