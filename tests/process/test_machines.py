"""Resources that are systems: found by the hours in which they work, and nobody in the mined scenario."""

from datetime import datetime, timedelta

import numpy as np

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.mining.machines import split_jobs, tireless, without_machines
from longstride.process.mining.mine_scenario import mine_scenario

MONDAY = datetime(2024, 3, 4)


def log_of(tmp_path, rows):
    """Read rows of (activity, resource, start, hours), times in hours since the Monday; a case is a day."""
    lines = ["case_id,activity,resource,start_time,end_time"]
    for activity, resource, start, hours in rows:
        begin = MONDAY + timedelta(hours=start)
        lines.append(f"{int(start // 24)},{activity},{resource},{begin},{begin + timedelta(hours=hours)}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_event_log(path)


def days(activity, resource, hours, length=0.05, count=14):
    return [(activity, resource, 24 * day + hour, length) for day in range(count) for hour in hours]


def test_a_system_is_nobody_and_a_nurse_on_nights_is_a_person(tmp_path):
    rows = days("Check", "SYS", range(24)) + days("Decide", "Ann", [9.5, 14.5], 1.0)
    rows += days("Watch", "Nora", [0, 1, 2, 3, 4, 5, 22, 23], 0.5) + days("Watch", "Bob", [10, 12], 9.5)
    rows += days("Decide", "SYS", [3.2], 0.2)
    log = log_of(tmp_path, rows)
    assert [log.resources[r] for r in np.flatnonzero(tireless(log))] == ["SYS"]
    mined = mine_scenario(log, name="t", calibrate=False)
    assert [entry.activity for entry in mined.scenario.automatic] == ["Check"]
    assert sorted(mined.scenario.resources) == ["Ann", "Bob", "Nora"]
    assert any(note.startswith("Not a person: SYS, with records in at least 20 hours") for note in mined.notes)


def test_few_days_prove_nothing_and_resources_that_all_never_rest_are_teams(tmp_path):
    short = log_of(tmp_path, days("Check", "SYS", range(24), count=4) + days("Decide", "Ann", [9]))
    assert not tireless(short).any()
    teams = log_of(tmp_path, days("Check", "North", range(24)) + days("Check", "South", range(24)))
    assert tireless(teams).all()
    same, alone, notes = without_machines(teams)
    assert same is teams and not alone.any() and notes == []


def test_a_person_who_changes_jobs_is_two_people(tmp_path):
    rows = days("Check", "Ann", [9.5, 11.5, 14.5], count=30)
    rows += [
        ("Decide", "Ann", hour + 24 * 30, length) for _, _, hour, length in days("Check", "Ann", [9, 11, 14], count=30)
    ]
    rows += days("Check", "Bob", [10, 12], count=60) + days("Decide", "Bob", [13.5], count=60)
    log = log_of(tmp_path, rows)
    split, notes = split_jobs(log)
    assert set(split.resources) == {"Ann", "Bob", "Ann before 2024-04-03"}
    of = {name: set(split.activity[split.resource == r]) for r, name in enumerate(split.resources)}
    check, decide = (log.activities.index(name) for name in ("Check", "Decide"))
    assert of == {"Ann": {decide}, "Bob": {check, decide}, "Ann before 2024-04-03": {check}}
    assert notes[0].startswith("Another job: Ann did other activities until a certain day")
    mined = mine_scenario(log, name="t", calibrate=False).scenario
    away = {entry.person: (entry.from_, entry.to) for entry in mined.absences}
    assert away["Ann"] == (0.0, 24.0 * 30) and away["Ann before 2024-04-03"][0] == 24.0 * 30
    assert "Bob" not in away
