"""Logs with suspensions, with other words for transitions, and with dates without hours."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from helpers.log_forms import completions_csv, csv_text, events, lifecycle_csv

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.open_events import read_open_events
from longstride.process.event_logs.reading.options import LogReading, parse_log_columns
from longstride.process.kernel.service_times import table_mean
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.working_hours import worked_time
from longstride.process.scenario_file import scenario_content

ROWS = events()
PAIRS = lifecycle_csv(ROWS)
MONDAY = datetime(2025, 1, 6, 9)
HEADER = "case_id,activity,resource,lifecycle,timestamp\n"


def read(tmp_path, text, columns="", name="log.csv", **reading):
    (tmp_path / name).write_bytes(text.encode())
    return read_event_log(tmp_path / name, parse_log_columns(columns) if columns else None, LogReading(**reading))


def suspended(moments, day=MONDAY, count=60):
    """Return rows of cases, one a day, with moments (word, minutes, person), and a second task of Bob in 20 minutes."""
    rows = []
    for i in range(count):
        begin = day + timedelta(days=i + 2 * (i // 5))
        rows += [(f"c{i}", "Assess", who, word, begin + timedelta(minutes=m)) for word, m, who in moments]
        rows += [
            (f"c{i}", "Check", "Bob", word, begin + timedelta(minutes=m))
            for word, m in (("start", 60), ("complete", 80))
        ]
    return rows


def pairs_csv(rows):
    return HEADER + "".join(f"{c},{a},{who},{word},{time.isoformat()}\n" for c, a, who, word, time in rows)


ASSESS = (("start", 0, "Ann"), ("suspend", 10, "Ann"), ("resume", 190, "Ann"), ("complete", 200, "Ann"))
SUSPENDED = {
    "once": ASSESS,
    "other words": (("Started", 0, "Ann"), ("PAUSED", 10, "Ann"), ("unpause", 190, "Ann"), ("done", 200, "Ann")),
    "twice": (*ASSESS[:1], ("suspend", 5, "Ann"), ("resume", 50, "Ann"), ("suspend", 55, "Ann"), *ASSESS[2:]),
    "never resumed": (*ASSESS[:1], ("suspend", 20, "Ann"), *ASSESS[3:]),
    "aborted before": (("start", -90, "Ann"), ("ate_abort", -80, "Ann"), *ASSESS),
    "of another person": (*ASSESS[:2], ("resume", 190, "Bob"), ("complete", 200, "Bob")),
}


@pytest.mark.parametrize("form", SUSPENDED)
def test_suspended_time_is_no_work(tmp_path, form):
    log = read(tmp_path, pairs_csv(suspended(SUSPENDED[form])))
    assess = log.activity == log.activities.index("Assess")
    np.testing.assert_allclose((log.end - log.start)[assess], 200 * 60)
    np.testing.assert_allclose(worked_time(log).hours, 20 / 60)
    assert any("60 of 120 events were suspended, for 82% of all time" in note for note in log.notes)
    assert any("60 events (33%) were aborted" in note for note in log.notes) == (form == "aborted before")


def test_a_suspended_task_leaves_its_person_free(tmp_path):
    """Ann works on another case while one is suspended; the suspension is a delay, so cycle times stay."""
    rows = suspended(ASSESS)
    rows += [(f"d{case[1:]}", *row) for case, *row in suspended(ASSESS, MONDAY + timedelta(minutes=20))]
    log = read(tmp_path, pairs_csv(rows))
    mined = scenario_content(mine_scenario(log, name="log", calibrate=False).scenario)
    services = [s for s in mined["service"] if s["activity"] == "Assess"]
    assert [s["resource"] for s in services] == ["Ann"]
    assert table_mean(np.array(services[0]["quantiles"])) == pytest.approx(20 / 60, abs=1e-4)
    assert mined["waiting"]["cycle"] == pytest.approx(200 / 60, abs=1e-4)


def test_a_suspended_task_waits(tmp_path):
    (tmp_path / "log.csv").write_text(pairs_csv(suspended(ASSESS)))
    for minutes, in_work, waiting in ((5, 1, 0), (30, 0, 1), (195, 1, 0)):
        at = (MONDAY + timedelta(minutes=minutes)).isoformat()
        found = read_open_events(tmp_path / "log.csv", {}, LogReading(), at)
        assert (len(found.in_work), len(found.waiting)) == (in_work, waiting)


def test_a_log_of_suspensions_in_xes(tmp_path):
    events_of: dict[str, str] = {}
    for case, activity, who, word, time in suspended(ASSESS):
        texts = {"concept:name": activity, "org:resource": who, "lifecycle:transition": word}
        inner = "".join(f'<string key="{key}" value="{value}"/>' for key, value in texts.items())
        inner += f'<date key="time:timestamp" value="{time.isoformat()}Z"/>'
        events_of[case] = events_of.get(case, "") + f"<event>{inner}</event>"
    traces = "".join(
        f'<trace><string key="concept:name" value="{case}"/>{inner}</trace>' for case, inner in events_of.items()
    )
    log = read(tmp_path, f"<log>{traces}</log>", name="log.xes")
    np.testing.assert_allclose(worked_time(log).hours, 20 / 60)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("S", "C"),
        ("begonnen", "erledigt"),
        ("begin", "end"),
        ("STARTED", "Completed"),
        (" Start", ""),
        ("start", "nan"),
    ],
)
def test_words_of_transitions(tmp_path, start, end):
    log = read(tmp_path, PAIRS.replace(",start,", f",{start},").replace(",COMPLETE,", f",{end},"))
    expected = read(tmp_path, PAIRS)
    np.testing.assert_array_equal([log.start, log.end], [expected.start, expected.end])
    assert log.notes == (
        (f"Transitions are read: 'S' as start, 'C' as complete; {REMEDY} changes that.",) * (start == "S")
    )


REMEDY = "--log-columns started=...,completed=..."


def test_unknown_words_of_transitions_are_named(tmp_path):
    text = PAIRS.replace(",start,", ",foo,").replace(",COMPLETE,", ",bar,")
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert "'lifecycle:transition' of transitions holds 'foo' (24 rows), 'bar' (24 rows), and none is known " in str(
        caught.value
    )
    assert f"name them with {REMEDY}" in str(caught.value)
    assert read(tmp_path, text, "started=foo,completed=bar").notes == ()
    with pytest.raises(UserError, match=r"no transition 'fo' for --log-columns started=.*; did you mean foo"):
        read(tmp_path, text, "started=fo")
    half = read(tmp_path, PAIRS.replace(",start,", ",foo,"))
    assert "24 of 48 rows (50%) have unknown transitions and are ignored: 'foo' (24 rows)" in half.notes[0]


DATED = [(c, a, r, s, s + timedelta(days=int(c[1:]) % 2)) for c, a, r, s, _ in events(40)]
DATES = {
    "completions": (completions_csv([(*row[:4], row[4].date()) for row in DATED]), {}),
    "both": (csv_text(DATED, "%Y-%m-%d"), {}),
    "format": (csv_text(DATED, "%d_%m_%y"), {"time_format": "%d_%m_%y"}),
    "another zone": (csv_text(DATED, "%Y-%m-%dT00:00:00+01:00"), {"time_zone": "America/New_York"}),
    "last second": (csv_text(DATED, "%Y-%m-%dT23:59:59"), {}),
}


@pytest.mark.parametrize("form", DATES)
def test_dates_give_no_hours_of_work(tmp_path, form):
    text, reading = DATES[form]
    log = read(tmp_path, text, **reading)
    (note,) = [note for note in log.notes if "hours of work and service times below a day are unknown" in note]
    assert note.startswith("Warning: 100% of 80 end times are at ")
    ends = [log.monday + timedelta(seconds=float(t) - 1) for t in log.clock_end]
    assert [end.date() for end in ends] == [row[4].date() for row in DATED]
    mined = scenario_content(mine_scenario(log, name="log", calibrate=False).scenario)
    plans = [plan["hours"] for roster in mined["rosters"].values() for plan in roster]
    assert plans and all(hours == ["00:00-24:00"] for hours in plans)
    means = [table_mean(np.array(service["quantiles"])) for service in mined["service"]]
    assert min(means) > 5, "two or three events share a day"


def test_starts_without_hours_are_estimated_on_their_dates(tmp_path):
    rows = [(c, a, r, s.date() if a == "Sign" else s, e) for c, a, r, s, e in events(40)]
    log = read(tmp_path, csv_text(rows, lambda time: time.isoformat()))
    assert any(note.startswith("Warning: 50% of 80 start times are at 00:00") for note in log.notes)
    sign = log.activity == log.activities.index("Sign")
    np.testing.assert_array_equal(log.start[sign], log.end[~sign], "after the check of the case")
    mixed = [(c, a, r, s, e if a == "Check" else (e + timedelta(days=1)).date()) for c, a, r, s, e in events(40)]
    log = read(tmp_path, csv_text(mixed, lambda time: time.isoformat()))
    assert any(note.startswith("Warning: 50% of 80 end times are at 00:00") for note in log.notes)
