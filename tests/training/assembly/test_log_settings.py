"""Each setting of event logs reaches the reader, and what it leaves out reaches the user."""

import csv

import pytest

pytest.importorskip("pydantic")

from helpers.log_forms import csv_text, events, ocel_json

from longstride.config import Config
from longstride.errors import UserError
from longstride.process.event_logs.refused_rows import write_refused_rows
from longstride.training.assembly.run_settings import load_configured

ROWS = events()


def loaded(tmp_path, text, **settings):
    (tmp_path / "log").write_text(text, encoding="utf-8")
    return load_configured(Config(event_log=str(tmp_path / "log"), **settings))


def test_each_setting_reaches_the_reader(tmp_path):
    days = csv_text(ROWS, "%y%m%d %H:%M:%S")
    with pytest.raises(UserError, match="--time-format names one"):
        loaded(tmp_path, days)
    log = loaded(tmp_path, days, time_format="%y%m%d %H:%M:%S", time_zone="Asia/Kolkata").simulator.hooks.log
    assert len(log) == 24 and (log.clock_start == log.start).all()
    twice = csv_text(ROWS[:3] + ROWS)
    dropped, kept = (loaded(tmp_path, twice, keep_duplicates=keep) for keep in (False, True))
    assert (len(dropped.simulator.hooks.log), len(kept.simulator.hooks.log)) == (24, 27)
    assert any("3 of 27 events are duplicates" in note for note in dropped.notes)
    assert loaded(tmp_path, ocel_json(ROWS, ("i",)), object_type="orders").simulator.hooks.log.cases[0] == "c0"


def test_data_warnings_are_printed(tmp_path):
    text = csv_text([(c, a, f"customer {c}" if a == "Sign" else r, s, e) for c, a, r, s, e in events(24)])
    assert any(
        note.startswith("Warning: 24 of 27 people occur in one case only") for note in loaded(tmp_path, text).notes
    )


def test_bad_rows_are_listed_with_reasons(tmp_path):
    text = csv_text(ROWS) + 'x,"Sign, at last",Ann,soon,later\nx\n'
    log = loaded(tmp_path, text, skip_bad_rows=True).simulator.hooks.log
    assert len(log) == 24
    write_refused_rows(log.refused, log.unit, tmp_path / "refused_rows.csv")
    with (tmp_path / "refused_rows.csv").open(encoding="utf-8", newline="") as file:
        header, first, second = csv.reader(file)
    assert header == ["line", "reason", "cells"]
    assert first[0] == "26" and "'soon' is not an ISO 8601" in first[1]
    assert first[2] == "x | Sign, at last | Ann | soon | later"
    assert second == ["27", "has 1 fields, but the header has 5", "x"]
    with pytest.raises(UserError, match="Cannot write"):
        write_refused_rows(log.refused, log.unit, tmp_path / "none" / "refused_rows.csv")
