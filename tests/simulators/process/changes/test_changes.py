"""Changes in words: what each does to a scenario, and the sentences about those that are none."""

import pytest

from core.errors import UserError
from core.simulators.loading import find_scenario
from core.simulators.process.changes.apply import EXAMPLES, apply_changes
from core.simulators.process.changes.people import find_people, group_of, people_at_work, typical
from core.simulators.process.scenario import Scenario
from core.simulators.process.scenario_file import parse_scenario, scenario_content

DESK = find_scenario("loan_desk")
DATED = parse_scenario({**scenario_content(DESK), "begins": "2026-01-05"}, "test")
ABSTRACT = parse_scenario(
    {
        **{"schema": "resource-allocation-scenario/1", "name": "queue", "horizon": {"value": 100.0}},
        **{"arrivals": {"process": "poisson", "rate": 0.5}, "activities": ["A"], "resources": ["R 1", "R 2"]},
        "service": [
            {"activity": "A", "resource": f"R {i}", "distribution": "constant", "mean": float(i)} for i in (1, 2)
        ],
        "flow": {"task": "A"},
    },
    "test",
)


def changed(text: str, scenario: Scenario = DESK) -> Scenario:
    return apply_changes(scenario, text).scenario


def services(scenario, name):
    return {s.activity: s.mean for s in scenario.service if s.resource == name}


def test_one_more_analyst_is_like_the_analyst_of_middle_speed():
    result = apply_changes(DESK, "people +1 analyst")
    assert result.scenario.resources == [*DESK.resources, "analyst 6"]  # last: the others keep their numbers
    assert services(result.scenario, "analyst 6") == services(DESK, "Iris (analyst)")
    assert result.scenario.working_hours["analyst 6"] == DESK.working_hours["Iris (analyst)"]
    assert result.sentences == [
        "one more analyst: 'analyst 6', with the skills, times and working hours of 'Iris (analyst)'"
    ]
    assert changed("people +2 analysts").resources[-2:] == ["analyst 6", "analyst 7"]
    assert changed("people +1 Kim").resources[-1] == "Kim (analyst) 2"
    assert people_at_work(changed("people +3 clerk")) == 23


def test_fewer_people_stay_in_the_file_without_hours_where_time_is_real():
    result = apply_changes(DESK, "people -1 kim")
    assert result.scenario.resources == DESK.resources
    assert result.scenario.working_hours["Kim (analyst)"] == []
    assert result.sentences == ["one analyst less: 'Kim (analyst)' is never on duty"]
    twice = changed("people -2 clerk")
    assert people_at_work(twice) == 18
    gone = changed("people -1 R 2", ABSTRACT)
    assert (gone.resources, len(gone.service)) == (["R 1"], 1)


def test_rates_and_times_are_multiplied():
    more = changed("arrivals +10%")
    assert more.arrivals.rates == pytest.approx([1.1 * rate for rate in DESK.arrivals.rates])
    assert changed("arrivals -50 %", ABSTRACT).arrivals.rate == 0.25
    faster = changed("times -20% risk")
    for before, after in zip(DESK.service, faster.service, strict=True):
        factor = 0.8 if before.activity == "Assess risk" else 1.0
        assert (after.mean, after.cv) == (pytest.approx(factor * before.mean), before.cv)
    slower = changed("times +50% all").service
    assert [s.mean for s in slower] == pytest.approx([1.5 * s.mean for s in DESK.service])


def test_days_off_absences_and_holidays():
    off = changed("kim off friday, mondays").working_hours["Kim (analyst)"]
    assert [shift.days for shift in off] == [["Tuesday", "Wednesday", "Thursday"]]
    always = changed("R 1 off fri", parse_scenario({**scenario_content(ABSTRACT), "time_unit": "hours"}, "test"))
    assert sum(b - a for a, b in always.weekly_hours({"R 1"})) == 6 * 24
    (absence,) = changed("Kim absent from 2026-03-02 to 2026-03-13", DATED).absences
    assert (absence.person, absence.from_, absence.to) == ("Kim (analyst)", "2026-03-02", "2026-03-13")
    (absence,) = changed("kim absent day 8 to 12").absences
    assert (absence.from_, absence.to) == (7 * 1440.0, 12 * 1440.0)
    assert changed("holiday 2026-04-06; holiday day 3", DATED).holidays == ["2026-04-06", 2 * 1440.0]
    assert len(changed("analysts absent day 1").absences) == 5


def test_somebody_learns_an_activity():
    taught = changed("kim learns approve")
    assert services(taught, "Kim (analyst)")["Approve loan"] == services(DESK, "Rosa (manager)")["Approve loan"]


def test_changes_follow_each_other_and_name_the_scenario():
    result = apply_changes(DESK, "people +1 analyst; analyst 6 off friday ;arrivals -5%")
    assert result.scenario.name == "loan_desk, people +1 analyst; analyst 6 off friday ;arrivals -5%"
    assert len(result.sentences) == 3
    assert "Friday" not in result.scenario.working_hours["analyst 6"][0].days


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_works(example):
    assert changed(example, DATED) != DATED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("people +1 analist", "did you mean analyst"),
        ("people +0 analyst", "0 people is not from 1"),
        ("people -9 analyst", "9 people is not from 1 to 5"),
        ("people -3 manager", "nobody who can do 'Approve loan' is ever on duty"),
        ("more people", "is not understood; changes are like: people \\+1 analyst"),
        ("arrivals -100%", "less than nothing is left"),
        ("times -10% approve it", "is not one activity"),
        ("times -10% a", "is not one activity"),
        ("kim off someday", "'someday' is not a day of the week"),
        ("kim absent in march", "neither dates like"),
        ("kim absent day 0", "neither dates like"),
        ("holiday 2026-04-06", "does not say which date time 0 is"),
        ("kim learns assess", "can do it already"),
        (" ; ", "says nothing"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(UserError, match=message):
        apply_changes(DESK, text)


def test_replayed_arrivals_have_no_rate():
    replayed = {**scenario_content(ABSTRACT), "arrivals": {"process": "replay", "times": [1.0, 2.0]}}
    with pytest.raises(UserError, match="LOG_ARRIVALS = weekly"):
        apply_changes(parse_scenario(replayed, "test"), "arrivals +5%")


def test_people_are_found_by_name_group_and_word():
    assert find_people(DESK, "Kim (analyst)") == find_people(DESK, "kim") == ["Kim (analyst)"]
    assert len(find_people(DESK, "Clerks")) == 4
    assert [group_of(name) for name in ("Kim (analyst)", "analyst 2", "User_17", "10909", "Ann")] == [
        *("analyst", "analyst", "User", "10909", "Ann")
    ]
    assert typical(ABSTRACT, ["R 1", "R 2"]) == "R 1"
