"""Changing shifts and days without work: against a search over stretches, and logs with and without."""

import math

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.rosters import mine_rosters, share_without_work
from longstride.process.mining.shifts import arcs, changes_shifts, in_shifts, long_absences, weeks_of_rota
from longstride.process.mining.working_hours import worked_time

DAYS = 120


def starts(begins, per_day, seed=0, length=8):
    """Return the starts, in seconds, of records at random hours of shifts that begin at one of some hours each day."""
    rng = np.random.default_rng(seed)
    begin = rng.choice(begins, DAYS)
    days = np.repeat(np.arange(DAYS), rng.poisson(per_day, DAYS))
    hours = np.floor(rng.uniform(0, length, len(days)))
    return 3600.0 * np.sort(24 * days + begin[days] + hours)


@pytest.mark.parametrize("per_day", [2, 4, 12])
def test_early_and_late_shifts_are_told_from_a_day(per_day):
    assert changes_shifts(starts([6, 14], per_day))
    assert changes_shifts(starts([6, 14, 22], per_day))
    assert not changes_shifts(starts([8], per_day))
    assert not changes_shifts(starts([0], per_day, length=24))


def test_few_days_show_no_shifts():
    early_and_late = starts([6, 14], 4)
    assert not changes_shifts(early_and_late[early_and_late < 15 * 24 * 3600.0])


def test_the_shortest_stretch_around_the_hours_of_a_day():
    seen = np.random.default_rng(1).random((300, 24)) < 0.15
    seen = seen[seen.any(1)]
    first, length = arcs(seen)
    for day, begin, hours in zip(seen, first, length, strict=True):
        turned = [np.flatnonzero(np.roll(day, -b)).max() + 1 for b in range(24) if day[b]]
        assert hours == min(turned)
        assert day[(begin + np.arange(hours)) % 24].sum() == day.sum()


def test_a_day_has_the_shift_in_which_its_hours_lie():
    full = np.zeros((40, 24), np.bool_)
    full[:20, 6:14] = full[20:, 14:22] = True
    part = np.zeros((2, 24), np.bool_)
    part[0, 8:10] = part[1, 19:21] = True
    shifts = in_shifts(np.concatenate([full, part]))
    np.testing.assert_array_equal(shifts[:40], full)
    np.testing.assert_array_equal(shifts[40:], full[[0, 20]])


def test_a_night_is_one_shift():
    night = np.zeros((30, 24), np.bool_)
    night[:, [22, 23, 0, 1, 2, 3, 4, 5]] = True
    np.testing.assert_array_equal(in_shifts(night), night)


@pytest.mark.parametrize("mean", [0.5, 1.5, 4.0])
def test_the_share_of_days_without_work_is_that_of_a_poisson_number(mean):
    counts = np.random.default_rng(2).poisson(mean, 20_000)
    start = np.repeat(24 * 3600.0 * np.arange(len(counts)), counts)
    assert share_without_work(start) == pytest.approx(math.exp(-mean), abs=0.02)


def test_rosters_of_changing_shifts_have_the_hours_of_one_shift():
    early_and_late, day = (starts(begins, 6, seed) / 3600.0 for seed, begins in ((3, [6, 14]), (4, [8])))
    start = np.concatenate([early_and_late, day])
    who = np.repeat([0, 1], [len(early_and_late), len(day)])
    log = log_of(np.arange(len(start)), np.zeros(len(start)), who, start, start + 0.9)
    found = mine_rosters(log, worked_time(log), False, np.ones(len(log), np.bool_))
    rosters = found.plans
    assert found.in_turn == ["b0"] and not found.rotas and not found.absences
    for name, longest in (("b0", 8.5), ("b1", 8.0)):
        p = np.array([plan["p"] for plan in rosters[name]])
        hours = [sum(int(h[6:8]) - int(h[:2]) for h in plan["hours"]) for plan in rosters[name]]
        assert p.sum() > 6.8 and 7.5 < np.average(hours, weights=p) <= longest
    hours = {h for plan in rosters["b0"] if plan["p"] > 0.2 for h in plan["hours"]}
    assert hours == {"06:00-14:00", "14:00-22:00"}


def by_week(hours_of_week, weeks, seed):
    """Return the starts of five tasks a day, Monday to Friday, at random hours of (begin, end) by the week's number."""
    rng, found = np.random.default_rng(seed), []
    for week in range(weeks):
        begin, end = hours_of_week(week)
        days = np.repeat(168 * week + 24 * np.arange(5), 5)
        found.append(np.sort(days + rng.uniform(begin, end, 25)))
    return 3600.0 * np.concatenate(found)


@pytest.mark.parametrize(
    ("hours_of_week", "weeks"),
    [
        (lambda week: (9, 17), 1),
        (lambda week: (6, 14) if week % 2 else (12, 20), 2),
        (lambda week: (6 + 4 * (week % 3), 12 + 4 * (week % 3)), 3),
        (lambda week: (6, 14) if np.random.default_rng(week).random() < 0.5 else (12, 20), 1),
    ],
)
def test_a_rota_is_found_where_weeks_repeat_in_turn(hours_of_week, weeks):
    assert weeks_of_rota(by_week(hours_of_week, 26, 1)) == weeks


def test_the_weeks_of_a_rota_have_their_own_hours():
    start = by_week(lambda week: (6, 14) if week % 2 else (12, 20), 26, 2) / 3600.0
    log = log_of(np.arange(len(start)), np.zeros(len(start)), np.zeros(len(start)), start, start + 0.01)
    found = mine_rosters(log, worked_time(log), False, np.ones(len(log), np.bool_))
    assert found.rotas == {"b0": 2}
    for place, hours in enumerate(("12:00-20:00", "06:00-14:00")):
        plans = [plan for plan in found.plans["b0"] if plan["week"] == place]
        assert {plan["of"] for plan in plans} == {2} and {h for plan in plans for h in plan["hours"]} == {hours}
        assert {plan["days"][0] for plan in plans} == {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"}


def test_a_person_who_comes_later_or_leaves_is_absent_and_there_at_other_times():
    weekdays = np.array([day for day in range(182) if day % 7 < 5])
    rare = np.random.default_rng(3).choice(weekdays, 12, replace=False)
    assert long_absences(weekdays, weekdays) == []
    assert long_absences(weekdays[weekdays >= 91], weekdays) == [(0, 90)]
    left = long_absences(weekdays[weekdays < 91], weekdays)
    assert len(left) == 1 and left[0][0] == 89 and left[0][1] > 1000  # from the Saturday on
    assert long_absences(weekdays[(weekdays < 70) | (weekdays >= 98)], weekdays) == [(68, 97)]
    assert long_absences(weekdays[(weekdays < 70) | (weekdays >= 77)], weekdays) == []  # a week is no long absence
    assert long_absences(np.sort(rare), weekdays) == []
