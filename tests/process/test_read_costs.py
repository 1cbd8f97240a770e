"""Costs of people and tasks in files."""

import pytest
from oracles.process_play import office, scenario, service

from longstride.errors import UserError
from longstride.process.load import make_process
from longstride.process.read_aims import AimSettings, with_aims
from longstride.process.scenario.aims import Costs


def test_costs_come_from_a_file(tmp_path):
    file = tmp_path / "costs.csv"
    file.write_text("name,cost\nday,55\nB,7.5\n")
    made = with_aims(with_aims(office(), AimSettings(cost="30")), AimSettings(cost=str(file)))
    assert made.aims.costs == Costs(everyone=30.0, per_hour={"day": 55.0}, per_task={"B": 7.5})
    file.write_text("name,cost\neveryone,12\nday,55\n")
    assert with_aims(office(), AimSettings(cost=str(file))).aims.costs == Costs(everyone=12.0, per_hour={"day": 55.0})
    file.write_text("name,cost\nday,55\nnigth,7.5\n")
    with pytest.raises(UserError) as error:
        with_aims(office(), AimSettings(cost=str(file)))
    assert str(error.value) == (
        f"{file}, line 3: 'nigth' is neither a person nor an activity of the process; did you mean night?"
    )
    file.write_text("person;cost\nday;55\n")
    with pytest.raises(UserError, match="line 2: expected the columns name and cost"):
        with_aims(office(), AimSettings(cost=str(file)))


def test_the_cost_of_an_activity_is_that_of_its_parts_unless_they_have_their_own(tmp_path):
    parts = ["A · first aid", "A · plain", "A · plain · x", "B"]
    flows = [{"name": n, "p": 0.5, "flow": {"task": f"A · {n}"}} for n in ("first aid", "plain")]
    flow = {"classes": [*flows[:1], {**flows[1], "flow": {"seq": [{"task": name} for name in parts[1:]]}}]}
    made = scenario(
        activities=parts, resources=["day"], service=[service(a, "day", "constant", mean=1.0) for a in parts], flow=flow
    )
    file = tmp_path / "costs.csv"
    file.write_text("name,cost\nA · plain,3\nA,7\n", encoding="utf-8")
    assert with_aims(made, AimSettings(cost=str(file))).aims.costs == Costs(
        per_task={"A · first aid": 7.0, "A · plain": 3.0}
    )
    file.write_text("name,cost\nC,7\n", encoding="utf-8")
    with pytest.raises(UserError, match="'C' is neither a person nor an activity of the process"):
        with_aims(made, AimSettings(cost=str(file)))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no row with a cost; expected the columns name and cost."),
        (b"name,cost\n", "has no row with a cost; expected the columns name and cost."),
        (b"name,cost\nday,3\nB,1\nday,4\n", "line 4: 'day' has two rows; keep one of them."),
        ("name;cost\nZoë;3\n".encode("cp1252"), "a file that is not UTF-8; save it as CSV UTF-8."),
    ],
)
def test_files_of_costs_that_cannot_be_meant_are_refused(tmp_path, content, sentence):
    file = tmp_path / "costs.csv"
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        with_aims(office(), AimSettings(cost=str(file)))
    assert str(error.value).endswith(sentence)


def test_costs_may_name_people_whom_mining_leaves_out(tmp_path):
    hours = [f"2026-03-0{day}T{hour:02}" for day in range(2, 7) for hour in range(9, 17)]
    rows = [f"{case},A,Ann,{hour}:00,{hour}:30" for case, hour in enumerate(hours)]
    log, costs = tmp_path / "log.csv", tmp_path / "costs.csv"
    rare = "rare,A,Rare,2026-03-04T16:00,2026-03-04T16:30"
    log.write_text("\n".join(["case,activity,resource,start,end", *rows, rare]))
    costs.write_text("name,cost\neveryone,20\nAnn,30\nRare,90\n")
    made = make_process(event_log=str(log), cost=str(costs)).scenario
    assert made.resources == ["Ann"]
    assert made.aims.costs == Costs(everyone=20.0, per_hour={"Ann": 30.0})
    costs.write_text("name,cost\nRaer,90\n")
    with pytest.raises(UserError, match="'Raer' is neither a person nor an activity of the process"):
        make_process(event_log=str(log), cost=str(costs))


@pytest.mark.parametrize("text", ["name;cost\nday;55,5\n", "\ufeffname\tcost\nday\t55.5\n", 'name,cost\n"day",55.5\n'])
def test_costs_of_spreadsheets_are_read(tmp_path, text):
    file = tmp_path / "costs.csv"
    file.write_text(text, encoding="utf-8")
    assert with_aims(office(), AimSettings(cost=str(file))).aims.costs == Costs(per_hour={"day": 55.5})


@pytest.mark.parametrize("amount", ["nan", "inf", "-3", "many", ""])
@pytest.mark.parametrize("name", ["everyone", "day", "B"])
def test_a_cost_that_is_no_amount_is_refused(tmp_path, name, amount):
    file = tmp_path / "costs.csv"
    file.write_text(f"name,cost\n{name},{amount}\n")
    with pytest.raises(UserError, match=f"line 2: the cost is {amount!r}; expected an amount, 0 or more"):
        with_aims(office(), AimSettings(cost=str(file)))
