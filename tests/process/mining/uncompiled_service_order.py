"""Order of service by a column, where the generator of the log knows it."""

import csv
import heapq
from datetime import timedelta

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.event_logs.case_classes import CaseColumn
from longstride.process.event_logs.reading.attributes import Attribute
from longstride.process.event_logs.resample import resample_weeks
from longstride.process.load import read_classified_log
from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays.priorities import find_priorities
from longstride.process.mining.delays.service_order import find_order, with_column
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.options import ProcessOptions
from longstride.process.resamples.simulated_log import simulated_log

CASES = 700


def shop(key, hours=None, cases=CASES, seed=5):
    """Return a log of cases that two people serve around the clock, and then two others, the least key first.

    Each case has an event at its arrival (a0), by nobody. ``key`` returns the key of a case, a task (0 or 1) and the
    time from which it waits; ``hours`` are the mean hours of the tasks of each case.
    """
    rng, hours = np.random.default_rng(seed), np.ones(cases) if hours is None else hours
    at = np.cumsum(rng.exponential(0.6, cases))
    rows = [(c, 0, -1, at[c], at[c]) for c in range(cases)]
    for task in (0, 1):
        coming, free, waiting, ends = list(np.argsort(at, kind="stable")), [0.0, 0.0], [], np.zeros(cases)
        while coming or waiting:
            person = int(np.argmin(free))
            now = free[person] if waiting else max(free[person], at[coming[0]])
            while coming and at[coming[0]] <= now:
                c = coming.pop(0)
                heapq.heappush(waiting, (key(c, task, at[c]), at[c], c))
            c = heapq.heappop(waiting)[2]
            free[person] = ends[c] = now + hours[c] * rng.exponential(1.0)
            rows.append((c, task + 1, 2 * task + person, now, ends[c]))
        at = ends
    return log_of(*np.array(sorted(rows, key=lambda row: row[3])).T)


def in_turn(c, task, at):
    return at


def column(log, values, name="amount", is_constant=True):
    texts = ["" if value is None else str(value) for value in values]
    return Attribute(name, dict(zip(log.cases, texts, strict=True)), is_constant)


def chosen(log, *attributes):
    """Return the log with the column that mining takes from some attributes, and the order by it."""
    log = with_column(log, lambda: attributes)
    return log, find_order(log, order_cases(log)) if log.column else None


AMOUNTS = np.random.default_rng(1).lognormal(size=CASES)
OTHER = np.random.default_rng(2).lognormal(size=CASES)


@pytest.mark.parametrize("largest", [True, False])
def test_the_order_of_a_column_is_found_beside_one_that_does_not_matter(largest):
    log = shop(lambda c, task, at: -AMOUNTS[c] if largest else AMOUNTS[c])
    log, order = chosen(log, column(log, OTHER, "other"), column(log, AMOUNTS))
    assert log.column.name == "amount"
    np.testing.assert_array_equal(log.column.of_case, AMOUNTS)
    assert (order.largest, order.activities) == (largest, [1, 2])
    assert order.right == order.choices > 300
    assert 0.2 < order.in_turn / order.choices < 0.8


def test_equal_values_are_served_by_age_and_cases_without_a_value_last():
    levels = np.random.default_rng(3).integers(0, 4, CASES).astype(float)
    levels[::40] = np.nan
    log = shop(lambda c, task, at: -np.nan_to_num(levels[c], nan=-1.0))
    log, order = chosen(log, column(log, [None if np.isnan(level) else level for level in levels]))
    assert order.largest
    assert order.right == order.choices
    mined = mine_scenario(log, name="shop", calibrate=False).scenario
    assert [case.get("value") for case in mined.flow["cases"]] == [None if np.isnan(v) else v for v in levels]


def test_an_order_of_one_activity_is_found_for_that_one_only():
    log = shop(lambda c, task, at: -AMOUNTS[c] if task == 1 else at)
    log, order = chosen(log, column(log, AMOUNTS))
    assert (order.largest, order.activities) == (True, [2])


def test_nothing_is_found_in_the_order_of_waiting_by_chance_or_in_other_columns():
    fifo, chance = shop(in_turn), shop(lambda c, task, at: np.random.default_rng([c, task]).random())
    for log in (fifo, chance):
        first, last = log.case_times()
        for values in (AMOUNTS, np.arange(CASES), (last - first), ["gold", "plain"] * (CASES // 2)):
            found = with_column(log, lambda log=log, values=values: [column(log, values)])
            assert found.column is None
            assert not found.notes
    by_amount = shop(lambda c, task, at: -AMOUNTS[c])
    assert chosen(by_amount, column(by_amount, OTHER))[1] is None
    assert chosen(by_amount, column(by_amount, AMOUNTS, is_constant=False))[1] is None
    few = [amount if c % 2 else None for c, amount in enumerate(AMOUNTS)]
    assert chosen(by_amount, column(by_amount, few))[1] is None


def test_a_due_date_and_the_newest_first_are_named_but_no_case_gets_them():
    allowance = np.random.default_rng(4).choice([4.0, 24.0, 72.0], CASES)
    due = np.cumsum(np.random.default_rng(5).exponential(0.6, CASES)) + allowance
    for key, is_date in ((lambda c, task, at: due[c], True), (lambda c, task, at: -c, False)):
        log = shop(key)
        dates = [f"{log.monday + timedelta(hours=hours):%Y-%m-%d %H:%M:%S}" for hours in due]
        found = with_column(log, lambda log=log, d=dates: [column(log, d, "due"), column(log, range(CASES), "number")])
        assert found.column is None
        assert f"follow {'due' if is_date else 'number'!r}" in found.notes[-1]
        assert "It grows with time" in found.notes[-1]
        assert mine_scenario(found, name="shop", calibrate=False).scenario.case_values is None


def test_two_classes_are_priorities_or_a_column_but_not_both():
    urgent = np.random.default_rng(6).random(1500) < 0.25
    log = shop(lambda c, task, at: not urgent[c], cases=1500)
    number = np.random.default_rng(7).random(1500)
    without = with_column(log, lambda: [column(log, number), column(log, np.where(urgent, "yes", "no"), "urgent")])
    assert without.column is None
    assert find_priorities(without, order_cases(without))[0].any()
    mined = mine_scenario(with_column(log, lambda: [column(log, 1.0 * urgent, "flag")]), name="s", calibrate=False)
    assert (mined.scenario.case_values.column, mined.scenario.case_values.first) == ("flag", "largest")
    assert not any("priority" in case for case in mined.scenario.flow["cases"])
    assert sum(note.startswith("Order of service") for note in mined.notes) == 1


def test_a_mined_scenario_has_order_values_and_work_and_says_so():
    log = shop(lambda c, task, at: -AMOUNTS[c], 0.8 * AMOUNTS / AMOUNTS.mean())
    log, order = chosen(log, column(log, AMOUNTS))
    mined = mine_scenario(log, name="shop", calibrate=False)
    values = mined.scenario.case_values
    assert (values.column, values.first, values.activities) == ("amount", "largest", list(log.activities[1:]))
    assert [case["value"] for case in mined.scenario.flow["cases"]] == pytest.approx(AMOUNTS.tolist())
    place = np.argsort(np.argsort(AMOUNTS)) / (CASES - 1)
    for name in log.activities[1:]:
        expected = np.interp(place, np.linspace(0.0, 1.0, 11), values.work[name])
        assert expected.mean() == pytest.approx(1.0, abs=0.02)
        for part in np.array_split(np.argsort(AMOUNTS), 5):
            assert expected[part].mean() == pytest.approx(AMOUNTS[part].mean() / AMOUNTS.mean(), rel=0.25, abs=0.05)
    notes = " ".join(mined.notes)
    assert f"the one with the largest 'amount' comes first. People chose so 100% of {order.choices:,} times" in notes
    assert "The time of work depends on 'amount'" in notes


def test_work_that_does_not_depend_on_the_column_has_no_factors():
    log = shop(lambda c, task, at: -AMOUNTS[c])
    log, _ = chosen(log, column(log, AMOUNTS))
    assert mine_scenario(log, name="shop", calibrate=False).scenario.case_values.work == {}


def test_resampled_and_simulated_logs_have_the_column_and_show_the_order_again():
    log = shop(lambda c, task, at: -AMOUNTS[c])
    log, _ = chosen(log, column(log, AMOUNTS))
    again = resample_weeks(log, np.random.default_rng(0))
    of = [log.cases.index(name.rsplit(" (", 1)[0]) for name in again.cases]
    np.testing.assert_array_equal(again.column.of_case, AMOUNTS[of])
    scenario = mine_scenario(log, name="shop", calibrate=False).scenario
    for case in scenario.flow["cases"]:  # without calibration all waiting is external
        for task in case["tasks"]:
            task.pop("delay", None)
    simulated = simulated_log(scenario, log, 1)
    assert np.isin(simulated.column.of_case, AMOUNTS).all()
    for made in (again, simulated):
        found = mine_scenario(made, name="again", calibrate=False).scenario.case_values
        assert (found.column, found.first) == ("amount", "largest")


@pytest.mark.parametrize("classes", ["", "kind"])
def test_a_file_is_mined_with_its_column_also_with_classes(tmp_path, classes):
    log = shop(lambda c, task, at: -AMOUNTS[c])
    with (tmp_path / "log.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["case_id", "activity", "resource", "start_time", "end_time", "kind", "amount", "other"])
        for c, a, r, start, end in zip(log.case, log.activity, log.resource, log.start, log.end, strict=True):
            times = [(log.monday + timedelta(seconds=float(t))).isoformat() for t in (start, end)]
            out.writerow([log.cases[c], log.activities[a], log.resources[r], *times, "pq"[c % 2], AMOUNTS[c], OTHER[c]])
    read = read_classified_log(ProcessOptions(event_log=str(tmp_path / "log.csv"), classes=classes))
    assert read.column.name == "amount"
    values = mine_scenario(read, name="file", calibrate=False).scenario.case_values
    assert (values.first, len(values.activities)) == ("largest", 4 if classes else 2)


def test_a_log_without_the_column_is_as_before():
    log = shop(in_turn)
    assert find_order(log, order_cases(log)) is None
    with_unused = with_column(log, lambda: [CaseColumn("x", AMOUNTS)])  # not read: nobody chose against the waiting
    assert with_unused is log
