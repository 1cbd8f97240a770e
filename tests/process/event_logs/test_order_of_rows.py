"""Rows in any order give the same events, and rows without a partner become events if nothing repeats them."""

import random
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.pair_lifecycles import pair_lifecycles
from longstride.process.mining.mine_scenario import mine_scenario

BEGIN = datetime(2025, 1, 6, 8)
ROW = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from("XY"),
    st.sampled_from(["Ann", "Bob", ""]),
    st.sampled_from(["start", "complete", "suspend", "resume", "abort"]),
    st.integers(0, 3),
)


def pairs_of(rows):
    columns = []
    for texts in zip(*(row[:4] for row in rows), strict=True):
        values = list(dict.fromkeys(texts))
        columns.append(Coded(values, np.array([values.index(text) for text in texts], np.int32)))
    texts = dict(zip(("case", "activity", "resource", "transition"), columns, strict=True))
    return pair_lifecycles(texts, np.array([row[4] for row in rows], float), np.zeros(len(rows), np.bool_))


def read(tmp_path, rows):
    """Read rows of (case, activity, resource, transition, minute)."""
    lines = [f"{c},{a},{who},{what},{BEGIN + timedelta(minutes=t)}" for c, a, who, what, t in rows]
    (tmp_path / "log.csv").write_text("\n".join(["case,activity,resource,lifecycle,timestamp", *lines]))
    return read_event_log(tmp_path / "log.csv")


def events_of(log):
    columns = (log.case, log.activity, log.start / 60, log.end / 60)
    begin = float(columns[2].min())
    return [
        (log.cases[c], log.activities[a], round(s - begin), round(e - begin))
        for c, a, s, e in zip(*columns, strict=True)
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.randoms())
def test_pairs_do_not_depend_on_the_order_of_the_rows(rows, shuffle):
    def content(rows):
        pairs = pairs_of(rows)
        events = [(rows[first], rows[last]) for first, last in zip(pairs.start_row, pairs.end_row, strict=True)]
        pauses = sorted((events[i], rows[first], rows[last]) for i, first, last in pairs.pauses)
        return sorted(events), pauses, sorted(rows[i] for i in pairs.unfinished), pairs.never_resumed, pairs.stray

    assert content(shuffle.sample(rows, len(rows))) == content(rows)


def test_a_suspension_of_no_time_is_over_in_any_order_of_its_rows():
    rows = [
        ("a", "X", "Ann", what, time) for what, time in zip(("start", "suspend", "complete"), range(3), strict=True)
    ]
    rows.insert(2, ("a", "X", "Ann", "resume", 1))
    for some in (rows, rows[::-1]):
        pairs = pairs_of(some)
        assert pairs.stray == pairs.never_resumed == 0
        assert [(some[first][4], some[last][4]) for _, first, last in pairs.pauses] == [(1, 1)]


def rows_of_cases(count=40):
    """Return rows of cases with a task, an activity of no time at its end, and two tasks that begin together."""
    draw, rows = random.Random(1), []
    for i in range(count):
        who, at = draw.choice(["Ann", "Bob"]), 30 * i
        for activity, begin, end in (("Do", 0, 20), ("Note", 20, 20), ("Sign", 21, 25), ("Pay", 21, 29)):
            rows += [(f"c{i}", activity, who, "start", at + begin), (f"c{i}", activity, who, "complete", at + end)]
    return sorted(rows, key=lambda row: row[4])


def test_the_scenario_does_not_depend_on_the_order_of_the_rows(tmp_path):
    rows = rows_of_cases()
    oldest_first = read(tmp_path, rows)
    expected = repr(mine_scenario(oldest_first, name="t").scenario)
    assert len(oldest_first) == 160
    for other in (rows[::-1], random.Random(2).sample(rows, len(rows)), sorted(rows)):
        log = read(tmp_path, other)
        assert events_of(log) == events_of(oldest_first) and log.notes == oldest_first.notes
        assert repr(mine_scenario(log, name="t").scenario) == expected


@pytest.mark.parametrize("newest_first", [False, True])
def test_events_of_one_moment_keep_the_order_of_the_file(tmp_path, newest_first):
    rows = [("a", "Z", "Ann", "complete", 0), ("a", "Y", "Ann", "complete", 0), ("a", "X", "Ann", "complete", 0)]
    rows += [("a", "Do", "Ann", "start", 1), ("a", "Do", "Ann", "complete", 9)]
    log = read(tmp_path, rows[::-1] if newest_first else rows)
    assert [log.activities[a] for a in log.activity] == ["Z", "Y", "X", "Do"]


def test_rows_without_a_partner_count_unless_they_repeat_an_event(tmp_path):
    pairs = [
        (f"c{i}", "Do", "Ann", what, 100 * i + m) for i in range(5) for what, m in (("start", 0), ("complete", 10))
    ]
    half = [(f"c{i}", "Submit", "Ann", "complete", 100 * i) for i in range(2)]  # never has a start
    half += [
        ("c0", "Call", "Bob", "start", 30),
        ("d", "Do", "Ann", "complete", 500),
    ]  # no completion; a start is missing
    half += [("c1", "Do", "Ann", "complete", 115), ("c2", "Do", "Ann", "start", 215)]  # repeated; not done yet
    log = read(tmp_path, [*pairs, *half])
    expected = [(f"c{i}", "Do", 100 * i, 100 * i + 10) for i in range(5)]
    expected += [("c0", "Submit", 0, 0), ("c1", "Submit", 100, 100), ("c0", "Call", 30, 30), ("d", "Do", 490, 500)]
    assert sorted(events_of(log)) == sorted(expected)
    assert log.notes == (
        "2 completions of activities that never have a start are kept as events that take no time (of Submit).",
        "1 completion without a start is kept with an estimated start (of Do).",
        "1 start of an activity that never has a completion is kept as an event that takes no time (of Call).",
        "1 completion without a start is left out (of Do).",
        "1 start without a completion is left out.",
    )
    mostly = read(tmp_path, [*pairs[:2], *((f"c{i}", "Submit", "Bob", "complete", 10 + 7 * i) for i in range(9))])
    assert mostly.starts_estimated and ("c3", "Submit", 24, 31) in events_of(mostly)
