"""Pauses, own hours, overtime, batches and gaps that generated logs have are mined back; none are found without."""

import numpy as np
import pytest
from helpers.generated_logs import log_of
from oracles.process_play import WEEKDAYS, scenario, service

from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.service_times import service_mean
from longstride.process.mining.arrivals.mine_arrivals import gaps
from longstride.process.mining.batches import find_batches
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.rosters import mine_rosters
from longstride.process.mining.working_hours import find_open_hours, worked_time

HOURS = {"full": [(9, 17)], "lunch": [(9, 12), (13, 17)]}


def played(made, seed=3):
    """Return the log of an episode, by its finished events."""
    parameters, sizes = build_parameters(made)
    events = play_logged(as_logged_record(parameters), parameters, sizes, seed)
    done = events.end < made.horizon.value
    columns = parameters.node_target[events.node], events.resource, events.start, events.end
    return log_of(np.unique(events.case[done], return_inverse=True)[1], *(column[done] for column in columns))


def office(pause, hours, part_time=(), horizon=12 * 168.0, mean=2.0):
    """Return three people who do one activity in ``mean`` hours; some of them only from Monday to Wednesday."""
    people = ["R", "S", "T"]
    return scenario(
        horizon={"value": horizon},
        arrivals={"process": "weekly", "rates": ([0.0] * 8 + [1.1] * 8 + [0.0] * 8) * 5 + [0.0] * 48},
        resources=people,
        service=[{**service("A", r, "exponential", mean=mean), "observations": 1} for r in people],
        working_hours={
            r: [
                {"days": WEEKDAYS[:3] if r in part_time else WEEKDAYS, "from": f"{a:02d}:00", "to": f"{b:02d}:00"}
                for a, b in HOURS[hours]
            ]
            for r in people
        },
        at_end_of_duty="pause" if pause else "finish",
    )


def mean_service(mined):
    return np.mean([service_mean(entry) for entry in mined.scenario.service])


def test_an_hour_in_which_work_rests_is_closed():
    log = played(office(True, "lunch"))
    open_hours = find_open_hours(log).reshape(7, 24)
    assert not open_hours[:, 12].any() and open_hours[:5, [9, 10, 11, 13, 14, 15, 16]].all()
    true = played(office(True, "full"))
    assert find_open_hours(true).reshape(7, 24)[:5, 9:17].all()


def test_service_that_rests_at_noon_and_overnight_has_its_true_length_and_rosters_have_the_break():
    mined = mine_scenario(played(office(True, "lunch", horizon=40 * 168.0)), name="t", calibrate=False)
    assert mean_service(mined) == pytest.approx(2.0, rel=0.06)
    assert mined.scenario.at_end_of_duty == "pause"
    hours = {h for plans in mined.scenario.rosters.values() for plan in plans if plan.p > 0.5 for h in plan.hours}
    assert hours == {"09:00-12:00", "13:00-17:00"}


def test_service_that_rests_on_the_days_off_of_a_part_timer_has_its_true_length():
    log = played(office(True, "full", part_time="T", horizon=40 * 168.0))
    work, theirs = worked_time(log), log.resource == 2
    assert work.hours[theirs].mean() == pytest.approx(2.0, rel=0.1)
    own = work.own_hours[2].reshape(7, 24)
    assert own[:3, 9:17].all() and not own[3:].any() and work.own_hours[0].reshape(7, 24)[:5, 9:17].all()


def test_a_record_that_fills_a_shift_shows_no_rest():
    days = 24.0 * np.array([d for d in range(70) if d % 7 < 5])
    log = log_of(np.arange(50), [0] * 50, [0] * 50, days + 6, days + 14)
    assert find_open_hours(log).reshape(7, 24)[:5, 6:14].all()
    assert worked_time(log).hours == pytest.approx(np.full(50, 8.0))


def test_hours_without_an_end_by_chance_are_no_rest():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        day, hour = rng.integers(0, 20, 600), rng.uniform(9, 15, 600)
        start = 24.0 * (day + day // 5 * 2) + hour
        log = log_of(np.arange(600), [0] * 600, rng.integers(0, 12, 600), start, start + rng.exponential(2.0, 600))
        work = worked_time(log)
        assert (work.own_hours == work.open_hours).all()


def test_overtime_is_work_where_tasks_do_not_rest():
    log = played(office(False, "full", horizon=40 * 168.0))
    work = worked_time(log)
    assert (log.end > log.start // 86400 * 86400 + 20 * 3600.0).any()  # some end late in the evening
    np.testing.assert_allclose(work.hours, (log.end - log.start) / 3600.0, rtol=1e-6)


def test_a_break_without_starts_is_no_duty_where_tasks_do_not_rest():
    log = played(office(False, "lunch", horizon=40 * 168.0))
    plans = mine_rosters(log, worked_time(log), False, np.ones(len(log), np.bool_)).plans
    usual = {h for of_person in plans.values() for plan in of_person if plan["p"] > 0.5 for h in plan["hours"]}
    assert usual == {"09:00-12:00", "13:00-17:00"}


def test_people_without_work_at_the_end_of_a_log_are_not_absent_then():
    # A case each hour for ten weeks; one long case ends four weeks later, with a task each Wednesday.
    start = np.array([168.0 * w + 24 * d + h for w in range(10) for d in range(5) for h in range(9, 17)])
    late = np.array([168.0 * w + 48 + 10 for w in range(10, 14)])
    case = np.append(np.arange(len(start)), np.zeros(4, int))
    begin = np.append(start, late)
    log = log_of(case, np.zeros(len(begin)), np.zeros(len(begin)), begin, begin + 0.9)
    plans = mine_rosters(log, worked_time(log), False, np.ones(len(log), np.bool_)).plans
    assert min(sum(plan["p"] for plan in plans["b0"] if plan["days"] == [day]) for day in WEEKDAYS) > 0.95


@pytest.mark.parametrize("draw", ["exponential", "pareto"])
def test_gaps_have_the_mean_and_no_more_variance_than_the_log(draw):
    rng = np.random.default_rng(5)
    between = rng.exponential(1.0, 2000) if draw == "exponential" else rng.pareto(2.5, 2000)
    values = np.array(gaps(np.cumsum(between), np.ones(168)))
    sample = np.interp(rng.random(200_000), np.linspace(0, 1, len(values)), values)
    between = between[1:] / between[1:].mean()
    assert sample.mean() == pytest.approx(1.0, abs=0.01)
    assert 0.6 * between.var() < sample.var() < 1.02 * between.var()


def depot(size, longest):
    """Return two drivers who take tasks together, and two clerks who then do them one by one."""
    people = {"D": ["d1", "d2"], "C": ["c1", "c2"]}
    return scenario(
        horizon={"value": 26 * 168.0},
        arrivals={"process": "weekly", "rates": ([0.0] * 8 + [1.6] * 8 + [0.0] * 8) * 5 + [0.0] * 48},
        activities=["D", "C"],
        resources=[*people["D"], *people["C"]],
        service=[
            {**service(a, r, "lognormal", mean=mean, cv=0.5), "observations": 1}
            for a, mean in (("D", 2.0), ("C", 0.45))
            for r in people[a]
        ],
        flow={"seq": [{"task": "C"}, {"task": "D"}, {"task": "C"}]},
        working_hours={
            r: [{"days": WEEKDAYS, "from": "08:00", "to": "16:00"}] for names in people.values() for r in names
        },
        batches=[{"activity": "D", "size": size, "longest": longest}] if size > 1 else [],
        delays=[] if size > 1 else [{"activity": "C", "distribution": "constant", "mean": 1e-6}],
    )


@pytest.mark.slow
def test_batches_are_mined_back_with_their_size_longest_time_and_service():
    log = played(depot(5, 4.0))
    mined = mine_scenario(log, name="t")
    (batch,) = mined.scenario.batches
    assert (batch.activity, batch.size) == ("a0", 5) and batch.longest == pytest.approx(4.0, rel=0.05)
    assert mean_service(mined) == pytest.approx((2.0 + 0.45) / 2, rel=0.05)
    assert any(note.startswith("Batches: a person does 5 tasks of a0 at a time, or fewer") for note in mined.notes)
    first, last = log.case_times()
    parameters, sizes = build_parameters(mined.scenario)
    record = as_logged_record(parameters)
    cycles = []
    for seed in range(5):
        events = play_logged(record, parameters, sizes, seed)
        begin, end = np.full(events.case.max() + 1, np.inf), np.zeros(events.case.max() + 1)
        np.minimum.at(begin, events.case, events.start)
        np.maximum.at(end, events.case, events.end)
        cycles.append((end - begin)[end < 1e8].mean())
    assert np.mean(cycles) == pytest.approx((last - first).mean() / 3600.0, rel=0.12)


def test_single_tasks_are_no_batches_even_if_some_begin_and_end_together():
    log = played(depot(1, None))
    assert (find_batches(log).size == 1).all() and not find_batches(log).notes(log)
    same = log_of(np.arange(60), [0] * 60, [0] * 60, np.arange(60) // 3 * 3.0, np.arange(60) // 3 * 3.0 + 1)
    assert find_batches(same).size.tolist() == [3]
    assert np.flatnonzero(find_batches(same).begun(same)).tolist() == list(range(0, 60, 3))
    few = log_of(np.arange(30), [0] * 30, [0] * 30, np.arange(30) // 3 * 3.0, np.arange(30) // 3 * 3.0 + 1)
    assert find_batches(few).size.tolist() == [1]
