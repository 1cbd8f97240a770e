"""Classes of cases from the attributes of a log, against a generated log whose classes are known."""

import csv
from itertools import groupby
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np
import pytest
from oracles.two_class_log import ALLOWANCE, ASSESSED, GOLD, MEANS, REVIEWED, write_log

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.open_events import read_open_events
from longstride.process.event_logs.reading.attributes import read_attributes
from longstride.process.event_logs.reading.formats.xes_table import FIELDS
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.event_logs.resample import cases_of
from longstride.process.load import make_process, read_classified_log
from longstride.process.mining.classes.evidence import ROUTING, SERVICE, facts_of, find_evidence
from longstride.process.mining.classes.groups import class_of, groups_of
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.options import ProcessOptions
from longstride.process.read_aims import AimSettings, with_aims
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.classes_of_log import in_classes
from longstride.process.snapshots.from_log import state_of_log
from longstride.process.snapshots.names import Names


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("two classes") / "log.csv"
    write_log(path, 1500, seed=1)
    return path


def mined(log) -> Scenario:
    return mine_scenario(log, name="mined", calibrate=False).scenario


def test_only_the_attribute_that_matters_shows_evidence_and_only_of_what_differs(tmp_path):
    for seed in range(6):
        path = tmp_path / f"{seed}.csv"
        write_log(path, 600, seed)
        log = read_event_log(path)
        facts, found = facts_of(log), {}
        for attribute in read_attributes(path, {}, LogReading()):
            groups = groups_of(attribute.name, [attribute.values.get(name, "") for name in log.cases])
            if groups is not None:
                of = find_evidence(facts, groups)
                found[attribute.name] = [(f.aspect, log.activities[f.activity] if f.activity >= 0 else "") for f in of]
        assert found == {"segment": [(ROUTING, ""), (SERVICE, "Assess")], "colour": [], "amount": []}


def test_auto_finds_the_class_and_the_mined_process_has_its_parameters(file):
    log = read_classified_log(ProcessOptions(event_log=str(file), classes="auto"))
    made = mined(log)
    classes = {part["name"]: part for part in made.flow["classes"]}
    assert classes["gold"]["p"] == pytest.approx(GOLD, abs=0.04)
    assert set(made.activities) == {
        *(f"{a} · {name}" for a in ("Check", "Assess", "Decide") for name in ("gold", "plain")),
        "Review",  # only gold cases have it
    }
    simulator = ProcessSimulator(made)
    p, names = simulator.parameters, made.activities
    for name, means in MEANS.items():
        for number, of in enumerate(("plain", "gold")):
            part = f"{name} · {of}" if f"{name} · {of}" in names else name
            own = p.pair_mean[p.pair_activity == names.index(part)]
            assert own == pytest.approx(means[number if name != "Review" else 0], rel=0.08)
    check = [p.pair_mean[p.pair_activity == names.index(f"Check · {of}")] for of in ("plain", "gold")]
    assert check[0].tolist() == check[1].tolist()  # nothing shows a difference, so they share their times
    visits = {
        of: sum(len([t for t in case["tasks"] if t["task"] == task]) for case in classes[of]["flow"]["cases"])
        / len(classes[of]["flow"]["cases"])
        for of, task in (("plain", "Assess · plain"), ("gold", "Review"))
    }
    assert visits == {"plain": pytest.approx(ASSESSED, abs=0.05), "gold": pytest.approx(REVIEWED, abs=0.06)}
    assert p.pair_habit.sum() == len(log)


def test_the_notes_say_what_depends_on_the_class_and_by_how_much(file):
    notes = " ".join(read_classified_log(ProcessOptions(event_log=str(file), classes="auto")).classes.notes)
    assert "Classes of cases by 'segment': plain (69 %), gold (31 %)." in notes
    assert "Routing depends on 'segment'" in notes
    assert "service of Assess" in notes
    assert "Check" not in notes


def test_a_named_column_without_meaning_makes_queues_but_shares_all_service_times(file):
    log = read_classified_log(ProcessOptions(event_log=str(file), classes="Colour"))
    assert set(log.classes.names) == {"blue", "green", "red"}
    assert log.classes.pooled == {"Check", "Assess", "Review", "Decide"}
    assert "Neither routing nor times are shown to depend on 'colour'" in " ".join(log.classes.notes)
    assert len(mined(log).activities) == 12


def test_numbers_become_three_ranges_and_rare_categories_one_class():
    numbers = groups_of("amount", [str(i) for i in range(300)])
    assert numbers.names[0].startswith("amount ")
    assert np.bincount(numbers.of_case).tolist() == [100, 100, 100]
    few = groups_of("kind", ["a"] * 50 + ["b"] * 40 + ["c"] * 3 + ["d"] * 2 + [""] * 30)
    assert few.names == ("a", "b", "none", "other")
    assert np.bincount(few.of_case).tolist() == [50, 40, 30, 5]
    assert groups_of("same", ["x"] * 9) is None


def test_due_dates_of_a_column_are_those_of_each_class_and_weights_have_words(file):
    made = make_process(
        event_log=str(file), classes="segment", due="column promised", class_weights="gold=3", log_tolerance=0.5
    ).scenario
    for name, allowance in ALLOWANCE.items():
        quantiles = made.aims.due.by_class[name].quantiles
        assert quantiles[0] > 0.5 * allowance - 3.0
        assert quantiles[-1] == pytest.approx(allowance, abs=0.01)
    assert made.aims.class_weights == {"gold": 3.0}
    own = with_aims(made, AimSettings(due="gold=1 day, other=5 days")).aims.due
    assert (own.by_class["gold"].after, own.of_all.after) == (24.0, 120.0)
    assert with_aims(made, AimSettings(class_weights="gold=3, other=2")).aims.class_weights == {
        "gold": 3.0,
        "plain": 2.0,
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"classes": "x"}, "has no column 'x' for CLASSES"),
        ({"classes": "segment", "due": "silver=1 day, other=2 days"}, "the flow has no class 'silver'"),
        ({"classes": "segment", "class_weights": "gold=0"}, "expected a number above 0 for 'gold'"),
        ({"classes": "segment", "class_weights": "gold"}, "expected a value for each class"),
        ({"class_weights": "gold=3"}, "but the flow has none"),
        ({"due": "gold=soon, other=2 days"}, "DUE is 'soon'; expected '1 day' for each class"),
    ],
)
def test_other_words_are_refused_in_a_sentence(tmp_path, given, sentence):
    path = tmp_path / "log.csv"
    write_log(path, 60, seed=2)
    with pytest.raises(UserError) as error:
        make_process(event_log=str(path), **given)
    assert sentence in str(error.value)


def test_classes_need_a_log_with_columns():
    with pytest.raises(UserError, match="CLASSES is 'x', but there is no EVENT_LOG"):
        make_process(classes="x")


def test_a_resampled_log_keeps_the_classes_of_its_cases(file):
    log = read_classified_log(ProcessOptions(event_log=str(file), classes="segment"))
    taken = np.array([5, 0, 5, 9])
    again = cases_of(log, taken, np.zeros(4))
    assert again.classes.of_case.tolist() == log.classes.of_case[taken].tolist()


@pytest.fixture(scope="module")
def as_xes(file):
    """Return the same log as XES: classes as attributes of traces, the colour as one of events."""
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    log = Element("log")
    for case, of_case in groupby(rows, key=lambda row: row["case"]):
        trace, events = SubElement(log, "trace"), list(of_case)
        for key, value in (("concept:name", case), ("segment", events[0]["segment"]), ("amount", events[0]["amount"])):
            SubElement(trace, "string", key=key, value=value)
        for row in events:
            event = SubElement(trace, "event")
            for field in ("activity", "resource", "start", "end"):
                SubElement(event, "string", key=FIELDS[field], value=row[field])
            SubElement(event, "string", key="colour", value=row["colour"])
    path = file.with_suffix(".xes")
    ElementTree(log).write(path)
    return path


def test_attributes_of_xes_are_those_of_the_same_log_as_csv(file, as_xes):
    found = {a.name.removeprefix("case:"): a for a in read_attributes(as_xes, {}, LogReading())}
    assert [*found] == ["segment", "amount", "colour"]
    for other in read_attributes(file, {}, LogReading()):
        if other.name in found:
            assert found[other.name].values == other.values
    for wanted in ("segment", "case:Segment", "auto"):
        log = read_classified_log(ProcessOptions(event_log=str(as_xes), classes=wanted))
        assert (
            log.classes.of_case.tolist()
            == read_classified_log(ProcessOptions(event_log=str(file), classes="segment")).classes.of_case.tolist()
        )
        assert "'case:segment'" in log.classes.notes[0]
    with pytest.raises(UserError, match=r"no column 'segmet' for CLASSES; did you mean case:segment\?"):
        read_classified_log(ProcessOptions(event_log=str(as_xes), classes="segmet"))


@pytest.mark.parametrize(
    "values",
    [
        [str(x) for x in range(-300, 700, 7)],
        [f"{x / 8}" for x in range(200)],
        [*["gold"] * 40, *["plain"] * 80, "rare", "odd", *[""] * 30],
        [*["gold"] * 40, *["plain"] * 80],
    ],
)
def test_a_value_has_the_class_that_it_had_when_the_log_was_mined(values):
    groups = groups_of("size (m)", values)
    for value, of in zip(values, groups.of_case.tolist(), strict=True):
        assert class_of(value, "size (m)", groups.names) == groups.names[of]
    assert (
        class_of("1e9", "size (m)", groups.names)
        == {4: groups.names[-1], 3: groups.names[-1], 2: ""}[len(groups.names)]
    )


@pytest.mark.parametrize("kind", ["csv", "xes"])
def test_open_cases_of_a_log_are_in_the_queues_of_their_classes(file, as_xes, kind):
    """Without classes, the names of a log's activities would be unknown, and each open case would begin anew."""
    made = ProcessSimulator(mined(read_classified_log(ProcessOptions(event_log=str(file), classes="segment"))))
    path, names = file if kind == "csv" else as_xes, Names(made)
    whole = read_event_log(file)
    events = read_open_events(path, {}, LogReading(), "2026-01-21T10:30:00")
    with pytest.raises(UserError, match=r"split by class \(.*\), so a log needs .*: --classes COLUMN"):
        in_classes(events, path, {}, LogReading(), "", names)
    split = in_classes(events, path, {}, LogReading(), "segment", names)
    segment = {a.name: a.values for a in read_attributes(file, {}, LogReading())}["segment"]
    seen = set()
    for case, done in split.done.items():
        for (name, age), (before, since) in zip(done, events.done[case], strict=True):
            assert (name, age) == (before if before == "Review" else f"{before} · {segment[case]}", since)
            seen.add(name)
    assert len(seen) == 7
    state, notes = state_of_log(split, made, names)
    assert not any("does not have" in note for note in notes)
    first, last = whole.case_times()
    now = (events.now - whole.monday.replace(tzinfo=None)).total_seconds()
    running = {whole.cases[c] for c in np.flatnonzero((first <= now) & (now < last))}
    assert {task.case for task in state.in_work} <= running
    assert all(task.activity.endswith((segment[task.case], "Review")) for task in state.in_work)
    assert in_classes(events, path, {}, LogReading(), "", Names(ProcessSimulator(mined(whole)))) is events
