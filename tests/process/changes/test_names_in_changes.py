"""Names of people and activities may hold any character and any word of a change."""

import json

import pytest

from longstride.process.changes.apply import apply_changes
from longstride.process.load import find_scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

DESK = find_scenario("loan_desk")
NAMES = (
    "O'Neil; Bob (clerk)",
    "Neil, Bob: 50% = x",
    '"Bob" learns all',
    "like Bob",
    "people +1 clerk",
    '\'t Hooft; "x"',
    "off",
    "12",
    " Bob ",
)


def with_name(old, new):
    return parse_scenario(json.loads(json.dumps(scenario_content(DESK)).replace(json.dumps(old), json.dumps(new))), "t")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["{}", '"{}"', "{}; arrivals +10%"])
def test_a_person_of_any_name_can_leave(name, form):
    if '"' in name and form[0] == '"':
        pytest.skip("a quoted name has other quotes")
    changed = apply_changes(with_name("Ben (clerk)", name), f"people -1 {form.format(name)}")
    assert changed.scenario.working_hours[name] == [] and len(changed.sentences) == 1 + ("arrivals" in form)


@pytest.mark.parametrize("name", NAMES)
def test_an_activity_of_any_name_can_be_learned_and_take_longer(name):
    activity = DESK.activities[0]
    scenario = with_name(activity, name)
    (able, *_), everyone = ([e.resource for e in scenario.service if e.activity == name] for _ in range(2))
    other = next(person for person in scenario.resources if person not in everyone)
    changed = apply_changes(scenario, f"{other} learns {name}; times +100% {name}").scenario
    before, after = (
        next(e for e in of.service if (e.activity, e.resource) == (name, able)) for of in (scenario, changed)
    )
    assert after.mean == pytest.approx(2 * before.mean)
    assert any((e.activity, e.resource) == (name, other) for e in changed.service)
