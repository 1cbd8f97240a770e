"""Resources that are systems: found by the hours in which they work, and nobody in the mined scenario."""

from datetime import datetime, timedelta

import numpy as np

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.mining.machines import tireless, without_machines
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
