"""Changing shifts and days without work: against a search over stretches, and logs with and without."""

import math

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.rosters import mine_rosters, share_without_work
from longstride.process.mining.shifts import arcs, changes_shifts, in_shifts

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
    rosters, in_turn = mine_rosters(
        log, np.ones((len(log.resources), 168), np.bool_), False, np.ones(len(log), np.bool_)
    )
    assert in_turn == ["b0"]
    for name, longest in (("b0", 8.5), ("b1", 8.0)):
        p = np.array([plan["p"] for plan in rosters[name]])
        hours = [sum(int(h[6:8]) - int(h[:2]) for h in plan["hours"]) for plan in rosters[name]]
        assert p.sum() > 6.8 and 7.5 < np.average(hours, weights=p) <= longest
    hours = {h for plan in rosters["b0"] if plan["p"] > 0.2 for h in plan["hours"]}
    assert hours == {"06:00-14:00", "14:00-22:00"}
