"""Large honest logs: what is sparse is as the tables say, and nothing takes memory for pairs that never occur."""

import time
from pathlib import Path

import numpy as np
import pytest
from helpers.generated_logs import log_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dense_pairs, slow_case_order

from longstride.errors import UserError
from longstride.process.event_logs.grouping import pairs_of, rows_by
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.pair_lifecycles import pair_lifecycles
from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.service_times import table_mean
from longstride.process.mining import case_order
from longstride.process.mining.case_order import order_cases
from longstride.process.mining.data_warnings import data_warnings
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.mine_services import choose_pairs, mine_services
from longstride.process.mining.rosters import day_masks
from longstride.process.mining.service_means import credible_means
from longstride.process.mining.working_hours import CLOSED_GAP, without_short_gaps, worked_time
from longstride.process.scenario.scenario import check_scenario
from longstride.process.scenario_file import load_scenario

LOAN_DESK = Path(__file__).resolve().parents[3] / "src/core/longstride/process/scenarios/loan_desk.json"

# Times on a grid, so that events often begin together or end where others begin, and some last for a trifle.
_EVENT = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-1, 4), st.integers(0, 30), st.integers(0, 80))


@st.composite
def logs(draw, most=40):
    """Return small logs with many overlaps, and at least one name of a person."""
    rows = draw(st.lists(_EVENT, min_size=2, max_size=most))
    case, activity, resource, start, length = (np.array(column) for column in zip(*rows, strict=True))
    resource[0] = max(resource[0], 0)
    return log_of(case, activity, resource, start / 2, start / 2 + length / 20)


@settings(max_examples=150, deadline=None)
@given(logs())
def test_the_order_of_a_case_is_that_of_every_pair_and_every_path(log):
    cases = order_cases(log)
    assert cases.after == slow_case_order.after(log, cases.order, cases.first)


@settings(max_examples=100, deadline=None)
@given(logs(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_who_can_do_what_is_that_of_the_whole_table(log, automatic):
    automatic = np.array(automatic[: len(log.activities)])
    named = log.resource >= 0
    if not named[~automatic[log.activity]].any():
        return  # nobody is left; a scenario of such a log is refused
    kept, least = dense_pairs.choose_pairs(log, automatic)
    pairs, notes = choose_pairs(log, automatic)
    np.testing.assert_array_equal(np.argwhere(kept), np.stack([pairs.activity, pairs.resource], 1))
    np.testing.assert_array_equal(pairs.events, dense_pairs.pair_counts(log)[kept])
    assert f"seen at least {least} time" in notes[0]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-1, 6), max_size=50))
def test_rows_by_a_value_are_those_of_a_look_at_each_row(column):
    column = np.array(column, np.int64)
    for value, rows in enumerate(rows_by(column, 7)):
        np.testing.assert_array_equal(rows, np.flatnonzero(column == value))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-2, 1e3), min_size=7, max_size=90))
def test_a_person_with_few_records_has_the_shape_of_the_activity_and_an_own_mean(hours):
    hours, people = np.array(hours), np.arange(len(hours)) % 7
    log, short = (log_of(hours * 0, hours * 0, people, hours * 0, 3600.0 * h) for h in (hours, np.ones(len(hours))))
    # A log of decades has a table of all its hours; the hours at work are given anyway.
    services, _ = mine_services(log, worked_time(short)._replace(hours=hours), choose_pairs(log)[0])
    for service, mean in zip(services, credible_means(hours, people, 7), strict=True):
        mined, expected = np.array(service["quantiles"]), np.quantile(hours, np.linspace(0.0, 1.0, 41))
        assert table_mean(mined) == pytest.approx(mean, rel=1e-4)
        # All but the last quantile, which is set for the mean, have the proportions of NumPy's.
        np.testing.assert_allclose(mined[:-1] / mined[0], expected[:-1] / expected[0], rtol=1e-4)


def test_the_times_of_an_activity_are_sorted_once_however_many_people_do_it(monkeypatch):
    at, quantile, calls = np.arange(3000), np.quantile, []
    log = log_of(at // 10, at // 10, at % 7, at * 60.0, at * 60.0 + 50.0)
    work = worked_time(log)
    monkeypatch.setattr(np, "quantile", lambda *given: calls.append(given) or quantile(*given))
    services, _ = mine_services(log, work, choose_pairs(log)[0])
    assert len(services) == 300 * 7 and len(calls) == 300


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), min_size=1, max_size=30))
def test_days_have_the_hours_of_their_records_and_short_gaps_between(records):
    start = 3600.0 * np.array([begin for begin, _ in records])
    masks = day_masks(start, start + 1800.0 * np.array([length for _, length in records]), np.ones(168, bool))
    for day in masks[:, 1:].astype(bool):
        np.testing.assert_array_equal(day, without_short_gaps(day, CLOSED_GAP))
    begun = {(int(s // 86_400), int(s // 3600) % 24) for s in start}
    assert all(masks[masks[:, 0] == day, 1 + hour].all() for day, hour in begun)
    assert set(masks[:, 0].tolist()) >= {day for day, _ in begun}


def test_a_person_who_is_fast_on_few_records_is_found_without_a_table():
    rng = np.random.default_rng(0)
    activity, resource = rng.integers(0, 5, 900), rng.integers(-1, 40, 900)
    length = np.where(resource % 7 == 3, 0.01, 1.0) * rng.uniform(0.5, 2.0, 900)
    log = log_of(rng.integers(0, 90, 900), activity, resource, np.arange(900), np.arange(900) + length)
    expected = np.argwhere(dense_pairs.fast_on_few(log, log.end - log.start))
    (sentence,) = [line for line in data_warnings(log) if "ten times as fast" in line]
    named = [f"{log.resources[r]} ({log.activities[a]}, " for a, r in expected]
    assert len(named) > 3 and all(name in sentence for name in named[:3])
    assert f"and {len(named) - 3} more" in sentence


def test_a_case_of_60000_events_that_overlap_is_ordered():
    # A table of its pairs of events has 3.6 billion places of 8 bytes, and a cube of them is never done.
    count = 60_000
    begin = np.arange(count, dtype=float)
    log = log_of(
        np.zeros(count), np.arange(count) % 7, np.zeros(count), begin, begin + np.where(begin % 10 == 5, 2, 0.9)
    )
    after = order_cases(log).after
    assert after[:5] == [[], [0], [1], [2], [3]]
    assert sum(map(len, after)) < 2 * count and all(after[1:])


def test_100000_activities_and_people_take_no_table():
    # A table of all activities and people would take 80 GB.
    count = 100_000
    names = np.arange(count)
    log = log_of(names // 2, names, names, names.astype(float), names + 0.5 + 0.6 * (names % 2 == 0))
    pairs, _ = choose_pairs(log)
    assert len(pairs.activity) == count
    assert len(pairs_of(log.activity, log.resource, count).events) == count
    assert len(order_cases(log).after) == count
    assert not [line for line in data_warnings(log) if "ten times as fast" in line]


class _Name(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        _Name.compared += self is not other
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_a_scenario_are_compared_a_few_times_each():
    """Each pair names an activity and a person; a look through all names for each would be a million comparisons."""
    small, count = load_scenario(LOAN_DESK), 700
    activities, people = ([_Name(f"{kind}{i}") for i in range(count)] for kind in "ap")
    one = small.service[0]
    service = [
        one.model_copy(update={"activity": _Name(f"a{i}"), "resource": _Name(f"p{i * 3 % count}")})
        for i in range(count)
    ]
    names = {"activities": activities, "resources": people, "service": service, "working_hours": {}}
    scenario = small.model_copy(update={**names, "flow": {"seq": [{"task": str(name)} for name in activities]}})
    _Name.compared = 0
    check_scenario(scenario)
    build_parameters(scenario)
    assert _Name.compared < 40 * count


def test_a_case_of_too_many_events_at_once_is_refused_with_its_name():
    count = 100_001
    begin = np.arange(count, dtype=float)
    log = log_of(np.zeros(count), np.zeros(count), np.zeros(count), begin, begin + 5)
    with pytest.raises(UserError, match=r"case c0 has 100,001 events, some of which overlap; .*--log-columns case="):
        order_cases(log)


def test_thousands_at_once_after_thousands_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(case_order, "MOST_LINKS", 10_000)
    half = 150
    begin = np.repeat([0.0, 10.0], half)
    log = log_of(np.zeros(2 * half), np.zeros(2 * half), np.zeros(2 * half), begin, begin + 5)
    with pytest.raises(UserError, match=r"case c0: its events wait for more than 10,000 others in all"):
        order_cases(log)


def test_everyone_for_thousands_of_activities_without_a_name_is_refused_before_it_is_made():
    people, unnamed = 2_000, 2_000
    activity = np.concatenate([np.zeros(people), 1 + np.arange(unnamed)])
    resource = np.concatenate([np.arange(people), np.full(unnamed, -1)])
    begin = np.arange(people + unnamed, dtype=float)
    log = log_of(np.arange(people + unnamed), activity, resource, begin, begin + 1)
    with pytest.raises(UserError, match=r"2,000 activities name no person, so each of 2,000 people .* 4,002,000 pairs"):
        choose_pairs(log)


def test_a_case_of_most_events_is_named_and_refused_before_it_takes_all_memory():
    ids = np.arange(12_000)
    case, start = np.where(ids < 8_000, 0, ids - 7_999), ids / 60
    (sentence,) = [
        line for line in data_warnings(log_of(case, ids % 3, ids % 2, start, start + 1)) if "default" in line
    ]
    assert "case 'c0' holds 8,000 of 12,000 events, so it is probably a default id and no case" in sentence
    with pytest.raises(UserError, match="'c0' holds 8,000 of 12,000 events"):
        mine_scenario(log_of(case, ids % 3, ids % 2, start, start + 1), name="t")


def test_thousands_of_open_starts_are_paired_in_seconds():
    half = 20_000
    words = Coded(["start", "complete"], np.repeat([0, 1], half).astype(np.int32))
    same = Coded(["x"], np.zeros(2 * half, np.int32))
    people = Coded([f"p{i}" for i in range(7)], (np.arange(2 * half) % 7).astype(np.int32))
    texts = {"case": same, "activity": same, "resource": people, "transition": words}
    begun = time.process_time()
    pairs = pair_lifecycles(texts, np.arange(2 * half, dtype=float), np.zeros(2 * half, np.bool_))
    assert len(pairs.start_row) == half and time.process_time() - begun < 10  # a scan of all open starts takes minutes
