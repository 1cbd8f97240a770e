"""Changes in words: what each does to a scenario, and the sentences about those that are none."""

import pytest

from longstride.errors import UserError
from longstride.process.changes.apply import EXAMPLES, apply_changes
from longstride.process.changes.people import find_people, group_of, people_at_work, typical
from longstride.process.load import find_scenario
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

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
    many = apply_changes(DESK, "people +1000 clerk")
    assert len(many.scenario.resources) == len({*many.scenario.resources}) == 1020
    assert many.sentences == [
        "1000 more clerks: 'clerk 5', 'clerk 6', 'clerk 7' and 997 more, with the skills, times and working hours of "
        "'Dan (clerk)'"
    ]
    (said,) = apply_changes(DESK, "people +2 like Kim").sentences
    assert said.startswith("2 more people like Kim (analyst): 'Kim (analyst) 2', 'Kim (analyst) 3', with")


def test_fewer_people_stay_in_the_file_without_hours_where_time_is_real():
    result = apply_changes(DESK, "people -1 kim")
    assert result.scenario.resources == DESK.resources
    assert result.scenario.working_hours["Kim (analyst)"] == []
    assert result.sentences == ["one fewer analyst: 'Kim (analyst)' is never on duty"]
    twice = changed("people -2 clerk")
    assert people_at_work(twice) == 18
    assert people_at_work(changed("people -2 clerk", twice)) == 16
    with pytest.raises(UserError, match="3 people is not from 1 to 2"):  # two of the four have gone before
        apply_changes(twice, "people -3 clerk")
    with pytest.raises(UserError, match="no person of this name is ever on duty"):
        apply_changes(DESK, "people -1 Kim; people +1 Kim")
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
    slower = changed("times +50% All").service
    assert [s.mean for s in slower] == pytest.approx([1.5 * s.mean for s in DESK.service])
    assert changed("arrivals +\t10%") == changed("arrivals +10%").model_copy(
        update={"name": "loan_desk, arrivals +\t10%"}
    )


def test_automatic_activities_have_no_service_times():
    content = scenario_content(ABSTRACT)
    flow = {"seq": [{"task": "A"}, {"task": "Print"}]}
    automatic = [{"activity": "Print", "distribution": "constant", "mean": 1.0}]
    printing = parse_scenario({**content, "activities": ["A", "Print"], "flow": flow, "automatic": automatic}, "test")
    assert apply_changes(printing, "times -50% everything").sentences == [
        "every activity that needs a person takes 50 % less time for every person"
    ]
    with pytest.raises(UserError, match="'Print' has no service times, because it needs no person"):
        apply_changes(printing, "times -50% print")


def test_days_off_absences_and_holidays():
    off = changed("kim off friday, mondays").working_hours["Kim (analyst)"]
    assert [shift.days for shift in off] == [["Tuesday", "Wednesday", "Thursday"]]
    always = changed("R 1 off fri", parse_scenario({**scenario_content(ABSTRACT), "time_unit": "hours"}, "test"))
    assert sum(b - a for a, b in always.weekly_hours({"R 1"})) == 6 * 24
    (absence,) = changed("Kim absent from 2026-03-02 to 2026-03-13", DATED).absences
    assert (absence.person, absence.from_, absence.to) == ("Kim (analyst)", "2026-03-02", "2026-03-13")
    (absence,) = changed("kim absent day 8 to 12").absences
    assert (absence.from_, absence.to) == (7 * 1440.0, 12 * 1440.0)
    assert changed("holiday 2026-04-06; holiday day 3", DATED).holidays == ["2026-04-06", "2026-01-07"]
    assert changed("holiday 2026-04-06 to 2026-04-07", DATED).holidays == ["2026-04-06", "2026-04-07"]
    assert changed("holiday day 8 to 10").holidays == [7 * 1440.0, 8 * 1440.0, 9 * 1440.0]
    assert changed("kim absent day 181 to 999").absences[0].to == 182 * 1440.0
    assert apply_changes(DESK, "kim off friday and mondays, fri").sentences == [
        "'Kim (analyst)' is off on Fridays and Mondays"
    ]
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
        ("people -1 irs (analyst)", "did you mean Iris \\(analyst\\)"),
        ("people +0 analyst", "0 people is not from 1"),
        ("people -9 analyst", "9 people is not from 1 to 5"),
        ("people -3 manager", "no resource that can do 'Approve loan' is ever on duty"),
        ("more people", "is not understood; changes are like: people \\+1 analyst"),
        ("people +99999999999 analyst", "is not understood"),
        ("arrivals -100%", "nothing would be left"),
        ("arrivals +0%", "nothing would change"),
        ("times -10% approve it", "is not an activity"),
        ("times -10% app", "may be Check application, Appraise property, Approve loan; name one"),
        ("kim off someday", "'someday' is not a day of the week"),
        ("kim off 5", "'5' is not a day of the week"),
        ("kim off ,", "'' is not a day of the week"),
        ("kim absent in march", "neither dates like"),
        ("kim absent day 0", "neither dates like"),
        ("kim absent day 12 to 8", "ends before it begins"),
        ("holiday day 999", "outside of an episode, which has 182 days"),
        ("holiday day 99999999999999999999", "neither dates like"),
        ("holiday 2026-04-06", "does not give the date of time 0; name days"),
        ("kim learns assess", "can do it already"),
        (" ; ", "is empty; changes are like"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(UserError, match=message):
        apply_changes(DESK, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("holiday 2026-02-30", "'2026-02-30' is not a date"),
        ("kim absent 1999-01-04 to 2026-01-04", "outside of an episode, which has 182 days, from 2026-01-05 on"),
    ],
)
def test_dates_are_days_of_the_episode(text, message):
    with pytest.raises(UserError, match=message):
        apply_changes(DATED, text)


def test_an_activity_may_be_called_like_a_change():
    activities = ["Sign off loan", "Book absent people"]
    service = [{**s, "activity": a} for s in scenario_content(ABSTRACT)["service"][:1] for a in activities]
    service += [{**service[1], "resource": "R 2"}]
    named = {"activities": activities, "service": service, "flow": {"seq": [{"task": a} for a in activities]}}
    desk = parse_scenario({**scenario_content(ABSTRACT), **named}, "test")
    assert services(changed("R 2 learns Sign off loan", desk), "R 2")["Sign off loan"] == 1.0


def test_days_need_real_time():
    with pytest.raises(UserError, match="days need a time_unit of seconds, minutes, hours or days"):
        apply_changes(ABSTRACT, "holiday day 3")


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


def test_the_typical_person_of_a_group_is_no_part_timer():
    content = scenario_content(DESK)
    analysts = [name for name in content["resources"] if group_of(name) == "analyst"]
    usual = typical(DESK, analysts)
    content["rosters"] = {usual: [{"days": ["Monday"], "p": 1.0, "hours": ["09:00-12:00"]}]}
    del content["working_hours"][usual]
    assert typical(parse_scenario(content, "test"), analysts) != usual
