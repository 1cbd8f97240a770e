"""Weeks of a log that are drawn again: whole weeks, each case as it was, and the spread that a formula gives."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.resample import resample_weeks, weeks_of

WEEK = 168.0
WEDNESDAY = datetime(2024, 3, 6)


class Drawn:
    """A generator that draws the given weeks."""

    def __init__(self, *weeks):
        self._weeks = np.array(weeks)

    def integers(self, most, size):
        assert (self._weeks < most).all()
        assert len(self._weeks) == size
        return self._weeks


def log_of(folder, cases):
    """Read a log of cases (hours since a Wednesday, person): Open for one hour, and two hours later Close for two."""
    lines = ["case_id,activity,resource,start_time,end_time"]
    for name, (at, person) in enumerate(cases):
        for activity, begin, end in (("Open", at, at + 1), ("Close", at + 3, at + 5)):
            times = ",".join((WEDNESDAY + timedelta(hours=float(hour))).isoformat() for hour in (begin, end))
            lines.append(f"{name},{activity},{person},{times}")
    (folder / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_event_log(folder / "log.csv")


CASES = [(9, "Ann"), (33, "Bob"), (WEEK + 10, "Cem"), (2 * WEEK + 11, "Ann"), (2 * WEEK + 164, "Ann")]
CASES += [(3 * WEEK + 12, "Dee"), (3 * WEEK + 36, "Dee")]
"""Three whole weeks and two days of a fourth; a case of the third ends in the fourth."""


def test_weeks_begin_with_the_day_of_the_first_arrival(tmp_path):
    week, count = weeks_of(log_of(tmp_path, CASES))
    assert week.tolist() == [0, 0, 1, 2, 2, 3, 3]
    assert count == pytest.approx(3 + 2 / 7)


def test_the_weeks_in_their_order_are_the_log_without_its_part_of_a_week(tmp_path):
    log = log_of(tmp_path, CASES[:5])
    same = resample_weeks(log, Drawn(0, 1, 2))
    for name in ("start", "end", "clock_start", "clock_end", "case", "activity", "resource"):
        np.testing.assert_array_equal(getattr(same, name), getattr(log, name), name)
    assert (same.resources, same.activities) == (log.resources, log.activities)


def test_a_week_comes_with_its_cases_and_at_its_hours(tmp_path):
    log = log_of(tmp_path, CASES)
    drawn = resample_weeks(log, Drawn(2, 0, 0, 1))
    assert drawn.resources == ("Ann", "Bob", "Cem")
    first, last = drawn.case_times()
    begins = [2 * 24 + 11, 2 * 24 + 164, 2 * 24 + WEEK + 9, 2 * 24 + WEEK + 33]
    begins += [2 * 24 + 2 * WEEK + 9, 2 * 24 + 2 * WEEK + 33, 2 * 24 + 3 * WEEK + 10]
    np.testing.assert_allclose(first / 3600, begins)
    np.testing.assert_allclose((last - first) / 3600, 5.0)
    assert len(set(drawn.cases)) == len(drawn.cases) == 7
    assert (np.diff(drawn.start) >= 0).all()


def test_a_part_of_a_week_takes_as_many_days(tmp_path):
    drawn = resample_weeks(log_of(tmp_path, CASES), Drawn(1, 1, 1, 2))
    first, _ = drawn.case_times()
    assert len(first) == 4  # of the two cases of the third week, one arrives on its seventh day
    assert first.max() / 3600 == 2 * 24 + 3 * WEEK + 11


def test_blocks_keep_weeks_together(tmp_path):
    log = log_of(tmp_path, [(week * WEEK + 9, f"P{week}") for week in range(6)] + [(6 * WEEK - 3, "P5")])
    drawn = resample_weeks(log, Drawn(2, 5, 1), block=2)
    first, _ = drawn.case_times()
    of_case = [drawn.resources[drawn.resource[drawn.case == case][0]] for case in np.argsort(first)]
    assert of_case == ["P2", "P3", "P5", "P5", "P0", "P1", "P2"]


def test_suspensions_come_with_their_events(tmp_path):
    rows = ["case_id,activity,resource,timestamp,transition"]
    steps = ((9, "start"), (10, "suspend"), (12, "resume"), (13, "complete"))
    for week in range(3):
        for hour, transition in steps:
            at = WEDNESDAY + timedelta(hours=week * WEEK + hour + week)
            rows.append(f"{week},Work,Ann,{at.isoformat()},{transition}")
    rows += [
        f"9,Work,Ann,{(WEDNESDAY + timedelta(hours=3 * WEEK - 1 + h)).isoformat()},{t}"
        for h, t in ((0, "start"), (0.5, "complete"))
    ]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    log = read_event_log(tmp_path / "log.csv")
    drawn = resample_weeks(log, Drawn(2, 2, 0))
    worked = drawn.stretches()
    hours = (worked.start / 3600 - 48, worked.end / 3600 - 48)
    begins = [11, 14, 11 + WEEK, 14 + WEEK, 2 * WEEK + 9, 2 * WEEK + 12]
    ends = [12, 15, 12 + WEEK, 15 + WEEK, 2 * WEEK + 10, 2 * WEEK + 13]
    short = worked.end - worked.start > 1900  # without the case that fills the third week
    np.testing.assert_allclose(hours[0][short], begins)
    np.testing.assert_allclose(hours[1][short], ends)


def test_the_number_of_cases_spreads_as_independent_weeks_do(tmp_path):
    rng = np.random.default_rng(5)
    counts = rng.poisson(8.0, 12)
    cases = [(week * WEEK + 9 + k, "Ann") for week, count in enumerate(counts) for k in range(count)]
    log = log_of(tmp_path, [*cases, (12 * WEEK - 1, "Ann")])
    counts[-1] += 1
    drawn = [len(resample_weeks(log, np.random.default_rng(seed)).cases) for seed in range(600)]
    assert np.mean(drawn) == pytest.approx(counts.sum(), rel=0.02)
    assert np.var(drawn) == pytest.approx(12 * np.var(counts), rel=0.15)
