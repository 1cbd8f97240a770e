"""Dates far from all others do not count for rates, and a warning names their cases."""

import re
from datetime import datetime, timedelta

import pytest

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.mining.mine_scenario import mine_scenario

BEGIN = datetime(2025, 1, 6, 9)


def read(tmp_path, rows):
    lines = [f"{case},Do,Ann,{start},{start + timedelta(minutes=20)}" for case, start in rows]
    (tmp_path / "log.csv").write_text("\n".join(["case,activity,resource,start,end", *lines]))
    return read_event_log(tmp_path / "log.csv")


def january(every=1):
    return [(f"c{i}", BEGIN + timedelta(hours=12 * i, minutes=7 * i % 60)) for i in range(0, 56, every)]


@pytest.mark.parametrize(
    ("far", "words"),
    [
        (
            [("old", datetime(2019, 1, 7, 9))],
            "from 2019-01-07 to 2025-01-06, .* 1 of 57 events lies before it, of case old",
        ),
        (
            [("new", datetime(2031, 1, 6, 9))],
            "from 2025-02-02 to 2031-01-06, .* 1 of 57 events lies after it, of case new",
        ),
        ([("a", datetime(2009, 1, 5)), ("b", datetime(2019, 1, 7))], "2 of 58 events lie before it, of cases a, b"),
    ],
    ids=["old", "new", "two"],
)
def test_a_far_date_is_named_and_changes_no_rate(tmp_path, far, words):
    log = read(tmp_path, [*january(), *far])
    assert any(re.search(words, note) for note in log.notes)
    mined, usual = (mine_scenario(one, name="t").scenario for one in (log, read(tmp_path, january())))
    assert mined.horizon == usual.horizon and mined.begins == usual.begins == "2025-01-06"
    assert sum(mined.arrivals.rates) == pytest.approx(sum(usual.arrivals.rates) * (56 + len(far)) / 56, rel=0.02)


def test_two_periods_do_not_overlap_and_a_pause_of_weeks_is_normal(tmp_path):
    later = [(f"d{case}", start + timedelta(weeks=52)) for case, start in january()]
    log = read(tmp_path, [*january(), *later])
    assert "56 of 112 events lie before it" in log.notes[0]
    assert log.case_times()[1][:56].max() <= log.case_times()[0][56:].min() <= 36 * 86_400
    assert not read(tmp_path, january(every=28)).notes


def test_an_event_that_lasts_for_years_is_named(tmp_path):
    lines = [f"c{i},Do,Ann,2025-01-{i + 6:02}T09:{i:02},2025-01-{i + 6:02}T10:{2 * i:02}" for i in range(20)]
    lines[3] = lines[3].replace("2025", "2019", 1)
    (tmp_path / "log.csv").write_text("\n".join(["case,activity,resource,start,end", *lines]))
    assert "an event of case c3 lasts for all that time" in read_event_log(tmp_path / "log.csv").notes[0]
