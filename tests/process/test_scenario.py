"""Scenario files: every refusal with its sentence, and nothing but sentences."""

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.process_play import BASE, office, rework, scenario, service

from longstride.errors import UserError
from longstride.process.scenario_file import load_scenario, parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator

TASK = {"task": "A"}
EXPONENTIAL = service("A", "R", "exponential", mean=1.0)
NINE_TO_FIVE = {"days": ["Monday"], "from": "09:00", "to": "17:00"}


def weekly(rates: Any) -> dict[str, Any]:
    return {"arrivals": {"process": "weekly", "rates": rates}}


def replay(times: Any) -> dict[str, Any]:
    return {"arrivals": {"process": "replay", "times": times}}


def hours(*shifts: Any) -> dict[str, Any]:
    return {"working_hours": {"R": list(shifts)}}


def xor(*probabilities: Any) -> dict[str, Any]:
    return {"flow": {"xor": [{"p": p, "branch": TASK} for p in probabilities]}}


def markov(start: Any, **following: Any) -> dict[str, Any]:
    return {"flow": {"start": start, "next": following}}


def to(*names: Any) -> list[dict[str, Any]]:
    return [{"p": 1 / len(names), "activity": name} for name in names]


def times(distribution: str, **values: Any) -> dict[str, Any]:
    return {"service": [service("A", "R", distribution, **values)]}


def nested(depth: int) -> dict[str, Any]:
    flow = TASK
    for _ in range(depth):
        flow = {"seq": [flow]}
    return {"flow": flow}


REFUSED = [
    # Keys and kinds of values
    ({"schema": "resource-allocation-scenario/2"}, r"^test: schema: Input should be 'resource-allocation-scenario/1'"),
    ({"horizen": 3}, r"^test: unknown key horizen; did you mean horizon\?$"),
    ({"qqqqqqqq": 3}, r"^test: unknown key qqqqqqqq\.$"),
    ({"arrivals": {"process": "poisson", "rat": 1}}, r"unknown key arrivals\.rat; did you mean rate\?"),
    ({"service": [{**EXPONENTIAL, "meen": 1}]}, r"unknown key service\.0\.meen; did you mean mean\?"),
    (hours({**NINE_TO_FIVE, "form": "09:00"}), r"unknown key working_hours\.R\.0\.form; did you mean from\?"),
    ({"capacity": {"open_case": 1}}, r"unknown key capacity\.open_case; did you mean open_cases\?"),
    ({"horizon": {"valu": 5.0, "value": 5.0}}, r"unknown key horizon\.valu; did you mean value\?"),
    ({"name": 3}, r"name: Input should be a valid string \(it is '3'\)"),
    ({"time_unit": "weeks"}, r"time_unit: Input should be .*'days'"),
    ({"activities": []}, r"activities: .*at least 1 item"),
    ({"resources": []}, r"resources: .*at least 1 item"),
    ({"service": []}, r"service: .*at least 1 item"),
    ({"flow": []}, r"flow: Input should be a valid dictionary"),
    ({"queue_discipline_within_activity": "lifo"}, r"queue_discipline_within_activity: .*'earliest enabled first'"),
    ({"capacity": {"open_cases": 0}}, r"capacity\.open_cases: .*greater than or equal to 1"),
    ({"capacity": {"waiting_tasks": 1.5}}, r"capacity\.waiting_tasks: .*integer"),
    # Horizon and warm-up
    ({"horizon": {"value": 0}}, r"horizon\.value: .*greater than 0"),
    ({"horizon": {"value": -1.0}}, r"horizon\.value: .*greater than 0 \(it is '-1\.0'\)"),
    ({"horizon": {"value": float("inf")}}, r"horizon\.value: .*finite"),
    ({"horizon": {"value": float("nan")}}, r"horizon\.value: "),
    ({"horizon": {"value": 10**400}}, r"horizon\.value: "),
    ({"horizon": {"stop": "cases", "value": 5}}, r"horizon\.stop: Input should be 'time'"),
    ({"warmup": -1}, r"warmup: .*greater than or equal to 0"),
    ({"warmup": 1000.0}, r"warmup: 1000 leaves no time of a horizon of 1000"),
    ({"warmup": 2000.0}, r"warmup: 2000 leaves no time of a horizon of 1000"),
    # Arrivals
    ({"arrivals": {"process": "batch"}}, r"arrivals\.process: Input should be 'poisson', 'weekly' or 'replay'"),
    ({"arrivals": {"process": "poisson"}}, r"poisson arrivals need rate and nothing else, not \[\]"),
    ({"arrivals": {"process": "poisson", "rate": 0}}, r"arrivals\.rate: .*greater than 0"),
    ({"arrivals": {"process": "poisson", "rate": 1, "times": [1]}}, r"nothing else, not \['rate', 'times'\]"),
    ({"arrivals": {"process": "weekly", "rate": 1}}, r"weekly arrivals need rates and nothing else, not \['rate'\]"),
    ({"arrivals": {"process": "replay", "rate": 1}}, r"replay arrivals need times and nothing else, not \['rate'\]"),
    (weekly([1.0] * 24), r"expected 168 rates, one for each hour of the week, not 24"),
    (weekly([1.0] * 167 + [-0.1]), r"rates must not be negative, nor all zero"),
    (weekly([0.0] * 168), r"rates must not be negative, nor all zero"),
    (weekly([float("nan")] * 168), r"arrivals\.rates\.0: "),
    ({**weekly([1.0] * 168), "time_unit": "abstract"}, r"arrivals\.rates: hours of the week need a time_unit of"),
    (replay([]), r"expected at least one time, none of them negative"),
    (replay([-1.0, 2.0]), r"expected at least one time, none of them negative"),
    (replay([3.0, 2.0]), r"the times must not decrease"),
    (replay([float("inf")]), r"arrivals\.times\.0: .*finite"),
    # Activities, resources, service
    ({"activities": ["A", "B", "B"]}, r"activities: 'B' is listed twice"),
    ({"resources": ["R", "S", "R"]}, r"resources: 'R' is listed twice"),
    ({"activities": ["A", "B"]}, r"service: no resource can do 'B'; add a service with this activity"),
    ({"service": [EXPONENTIAL, {**EXPONENTIAL, "activity": "X"}]}, r"service\[1\]\.activity: 'X' is not listed"),
    ({"service": [{**EXPONENTIAL, "resource": "X"}]}, r"service\[0\]\.resource: 'X' is not listed"),
    ({"service": [EXPONENTIAL, EXPONENTIAL]}, r"service\[1\]: 'A' by 'R' is listed twice"),
    (times("gamma", mean=1), r"service\.0\.distribution: Input should be 'exponential'"),
    (times("exponential", mean=-1), r"service\.0\.mean: .*greater than 0"),
    (times("exponential", mean=float("nan")), r"service\.0\.mean: "),
    (times("exponential"), r"service\[0\]: exponential needs \['mean'\], not \[\]"),
    (times("constant", mean=1, cv=1), r"service\[0\]: constant needs \['mean'\], not \['cv', 'mean'\]"),
    (times("lognormal", mean=1), r"service\[0\]: lognormal needs \['cv', 'mean'\], not \['mean'\]"),
    (times("lognormal", mean=1, cv=0), r"service\.0\.cv: .*greater than 0"),
    (times("uniform", mean=1), r"service\[0\]: uniform needs \['high', 'low'\], not \['mean'\]"),
    (times("uniform", low=2, high=1), r"service\[0\]: low 2 is above high 1"),
    (times("uniform", low=-1, high=1), r"service\.0\.low: .*greater than or equal to 0"),
    (times("quantiles", mean=1), r"service\[0\]: quantiles needs \['quantiles'\], not \['mean'\]"),
    (times("quantiles", quantiles=[1]), r"service\.0\.quantiles: .*at least 2 items"),
    (times("quantiles", quantiles=[2, 1]), r"times must not be negative, all zero, or decrease"),
    (times("quantiles", quantiles=[-1, 1]), r"times must not be negative, all zero, or decrease"),
    (times("quantiles", quantiles=[0, 0]), r"times must not be negative, all zero, or decrease"),
    (times("exponential", mean=1, observations=-1), r"service\.0\.observations: .*greater than or equal to 0"),
    # Working hours
    ({"working_hours": {"X": []}}, r"working_hours: 'X' is not listed in the scenario's resources"),
    ({**hours(NINE_TO_FIVE), "time_unit": "abstract"}, r"working_hours: hours of the week need a time_unit of"),
    (hours(), r"working_hours: no resource that can do 'A' is ever on duty"),
    (hours({**NINE_TO_FIVE, "to": "09:00"}), r"working_hours\.R\[0\]: 09:00 to 09:00 is not a stretch of one day"),
    (hours(NINE_TO_FIVE, {**NINE_TO_FIVE, "from": "22:00", "to": "06:00"}), r"working_hours\.R\[1\]: 22:00 to 06:00"),
    (hours({**NINE_TO_FIVE, "to": "24:30"}), r"09:00 to 24:30 is not a stretch of one day"),
    (hours({**NINE_TO_FIVE, "from": "9:00"}), r"working_hours\.R\.0\.from: .*pattern.*'9:00'"),
    (hours({**NINE_TO_FIVE, "from": "08:75"}), r"working_hours\.R\.0\.from: .*pattern.*'08:75'"),
    (hours({**NINE_TO_FIVE, "days": []}), r"working_hours\.R\.0\.days: .*at least 1 item"),
    (hours({**NINE_TO_FIVE, "days": ["Mon"]}), r"working_hours\.R\.0\.days\.0: Input should be 'Monday'"),
    (hours({"days": ["Monday"], "from": "09:00"}), r"working_hours\.R\.0\.to is missing"),
    # Flow trees
    (xor(0.5, 0.4), r"flow\.xor: the probabilities add up to 0\.9, not to 1"),
    (xor(1.5, -0.5), r"flow\.xor\[0\]\.p: expected a probability between 0 and 1, not 1\.5"),
    (xor(float("nan"), 1.0), r"flow\.xor\[0\]\.p: .*not nan"),
    (xor(True), r"flow\.xor\[0\]\.p: .*not True"),
    (xor("1"), r"flow\.xor\[0\]\.p: .*not '1'"),
    ({"flow": {"xor": [{"p": 1.0}]}}, r"flow\.xor\[0\]: expected the keys p and branch, not \{'p': 1\.0\}"),
    ({"flow": {"xor": {}}}, r"flow\.xor: expected a list that is not empty"),
    ({"flow": {"task": "X"}}, r"flow\.task: 'X' is not one of the scenario's activities"),
    ({"flow": {"task": ["A"]}}, r"flow\.task: \['A'\] is not one of"),
    ({"flow": {"seq": [TASK, {"and": [TASK, {"task": "X"}]}]}}, r"flow\.seq\[1\]\.and\[1\]\.task: 'X' is not one of"),
    ({"flow": {"and": []}}, r"flow\.and: expected a list that is not empty, not \[\]"),
    ({"flow": {"loop": TASK}}, r"flow: expected one of task, seq, xor, and"),
    ({"flow": {}}, r"flow: expected one of task, seq, xor, and"),
    ({"flow": {"seq": [TASK], "and": [TASK]}}, r"flow: expected one of task, seq, xor, and"),
    ({"flow": {"seq": [None]}}, r"flow\.seq\[0\]: expected one of task, seq, xor, and .*not None"),
    (nested(60), r"the flow is nested more than 50 deep"),
    ({"batches": [{"activity": "X", "size": 2}]}, r"batches\[0\]\.activity: no person does 'X' in the scenario"),
    ({"batches": [{"activity": "A", "size": 2}] * 2}, r"batches\[0\]: 'A' is listed twice"),
    ({"batches": [{"activity": "A", "size": 1}]}, r"batches\.0\.size: "),
    # Markov flows
    (markov(to("A"), A=to("A")), r"flow: a case can never end; give some activity on every path a way to null"),
    (markov(to("A")), r"flow\.next: the entry for 'A' is missing; null ends the case"),
    (markov(to("X"), A=to(None)), r"flow\.start\[0\]\.activity: 'X' is not one of"),
    (markov(to("A"), A=to(None), X=to(None)), r"flow\.next: 'X' is not one of"),
    (markov(to("A"), A=to("X")), r"flow\.next\.A\[0\]\.activity: 'X' is not one of"),
    (markov(to("A"), A=[{"p": 0.5, "activity": None}]), r"flow\.next\.A: the probabilities add up to 0\.5, not to 1"),
    (markov([], A=to(None)), r"flow\.start: expected a list of choices, not \[\]"),
    ({"flow": {"start": to("A"), "next": []}}, r"flow\.next: expected an object with a list for each activity"),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), REFUSED, ids=[f"{i}-{next(iter(c))}" for i, (c, _) in enumerate(REFUSED)]
)
def test_an_impossible_scenario_is_refused_with_a_sentence(changes, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        scenario(**changes)
    assert str(error.value).startswith("test: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["schema", "name", "horizon", "arrivals", "activities", "resources", "service", "flow"])
def test_a_missing_key_is_named(key):
    with pytest.raises(UserError, match=rf"^test: {key} is missing\.$"):
        parse_scenario({k: v for k, v in BASE.items() if k != key}, "test")


@pytest.mark.parametrize("data", [None, [], "scenario", 3.5])
def test_only_an_object_is_a_scenario(data):
    with pytest.raises(UserError, match=rf"^test: a scenario is a JSON object, not {type(data).__name__}\.$"):
        parse_scenario(data, "test")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"^There is no scenario file .*none\.json\.$"):
        load_scenario(tmp_path / "none.json")


def test_a_folder_is_not_a_scenario_file(tmp_path):
    with pytest.raises(UserError, match=r"^Cannot read the scenario file "):
        load_scenario(tmp_path)


@pytest.mark.parametrize("inside", ["[" * 100_000, "[" * 900 + "]" * 900], ids=["not closed", "closed"])
def test_a_deep_file_is_refused(tmp_path, inside):
    path = tmp_path / "s.json"
    path.write_text(f'{{"name": {inside}}}')
    with pytest.raises(UserError, match=r"s\.json is refused because it nests more than 100 levels deep\.$"):
        load_scenario(path)


def test_a_device_is_no_scenario():
    with pytest.raises(UserError, match="/dev/zero is a device or a pipe"):
        load_scenario(Path("/dev/zero"))


@pytest.mark.parametrize("content", [b"", b"{", b"{'a': 1}", b"1" * 5000], ids=["empty", "open", "quotes", "digits"])
def test_a_file_that_is_not_json_is_refused(tmp_path, content):
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"s\.json is not valid JSON: "):
        load_scenario(path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "s.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"^Cannot read the scenario file "):
        load_scenario(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_json_numbers_that_are_not_finite_are_refused(tmp_path, number):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(BASE).replace("1000.0", number))
    with pytest.raises(UserError, match=r"s\.json: horizon\.value: "):
        load_scenario(path)


def test_a_number_too_long_for_python_is_refused(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(BASE).replace("1000.0", "1" * 5000))
    with pytest.raises(UserError):
        load_scenario(path)


@pytest.mark.parametrize("make", [scenario, office, rework])
def test_what_is_saved_loads_as_the_same_scenario(tmp_path, make):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(scenario_content(make())))
    again = load_scenario(path)
    assert again == make()
    assert ProcessSimulator(again).description() == ProcessSimulator(make()).description()


@pytest.mark.parametrize("rate", ["0.5", True])
def test_a_number_is_a_number(rate):
    with pytest.raises(UserError, match=r"arrivals\.rate: .*valid number"):
        scenario(arrivals={"process": "poisson", "rate": rate})


def test_an_activity_that_no_case_reaches_does_not_matter():
    both = [EXPONENTIAL, {**EXPONENTIAL, "activity": "B"}]
    scenario(activities=["A", "B"], service=both, **markov(to("A"), A=to(None), B=to("B")))


@pytest.mark.parametrize(
    "changes",
    [
        markov(to(None), A=to(None)),
        {"horizon": {"value": 1e13}},
        {"horizon": {"value": 1e300}, "arrivals": {"process": "poisson", "rate": 1e300}},
        {**weekly([1e308] * 168), "horizon": {"value": 1.0}},
        {**weekly([1.0] * 168), "time_unit": "days", "horizon": {"value": 1e308}},
    ],
    ids=["no activity at all", "5e12 cases", "infinitely many cases", "infinitely many a week", "a huge horizon"],
)
def test_a_scenario_that_cannot_be_simulated_is_refused_with_a_sentence(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match=r"^test: (an episode would have|flow: no case ever reaches)"):
            scenario(**changes)


FULL = scenario_content(office())
MARKOV = json.loads(rework().model_dump_json(by_alias=True))

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["A", "R", "day", "task", "weekly", "exponential", "09:00", "24:00", "uniform", 10**400, 1e308]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["task", "xor", "and", "seq", "p", "branch", "x"]), inner, max_size=2),
    ),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a JSON value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(p for key, value in items for p in places(value, (*path, key)))]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_scenarios_raise_user_errors_only(data):
    mutated = copy.deepcopy(data.draw(st.sampled_from([BASE, FULL, MARKOV]), label="scenario"))
    for _ in range(data.draw(st.integers(1, 3), label="mutations")):
        path = data.draw(st.sampled_from([p for p in places(mutated) if p]), label="place")
        parent = mutated
        for key in path[:-1]:
            parent = parent[key]
        change = data.draw(st.sampled_from(["replace", "delete", "copy", "add"]), label="change")
        if change == "replace":
            parent[path[-1]] = data.draw(VALUES, label="value")
        elif change == "delete":
            del parent[path[-1]]
        elif change == "copy" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[path[-1]]))
        elif change == "add" and isinstance(parent, dict):
            parent[data.draw(st.text(max_size=4), label="key")] = data.draw(VALUES, label="value")
        if not places(mutated)[1:]:
            break
    try:
        parsed = parse_scenario(mutated, "test")
    except UserError as error:
        assert str(error).startswith("test: ")
        assert len(str(error)) < 2000
    else:
        assert parsed.horizon.value > parsed.warmup >= 0
