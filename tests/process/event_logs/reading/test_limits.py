"""Each limit is a setting; a log beyond it is refused with the setting's name, and one within it is read."""

import gc
import gzip

import pytest
from helpers import hostile_logs as hostile
from helpers.log_forms import csv_text, ocel_json

from longstride.config import Config
from longstride.errors import UserError
from longstride.process.event_logs.reading.limits import Guard, LogLimits
from longstride.training.assembly.run_settings import load_configured

CSV, DATABASE = csv_text(hostile.ROWS).encode(), hostile.database()
SETTINGS = {
    "bytes of CSV": (CSV, {"log_max_bytes": len(CSV) - 1}, {"log_max_bytes": len(CSV)}),
    "bytes of gzip": (gzip.compress(CSV), {"log_max_bytes": len(CSV) - 1}, {"log_max_bytes": len(CSV)}),
    "bytes of SQLite": (DATABASE, {"log_max_bytes": len(DATABASE) - 1}, {"log_max_bytes": len(DATABASE)}),
    "bytes of a workbook": (hostile.workbook(), {"log_max_bytes": 9_000}, {"log_max_bytes": 100_000}),
    "bytes of Parquet": (hostile.parquet(), {"log_max_bytes": 500}, {"log_max_bytes": 100_000}),
    "memory": (ocel_json(hostile.ROWS).encode(), {"log_max_memory": 2_000_000}, {}),
    "rows of CSV": (CSV, {"log_max_rows": 23}, {"log_max_rows": 24}),
    "rows of a workbook": (hostile.workbook(), {"log_max_rows": 23}, {"log_max_rows": 24}),
    "rows of Parquet": (hostile.parquet(), {"log_max_rows": 23}, {"log_max_rows": 24}),
    "rows of XES": (hostile.xes(), {"log_max_rows": 23}, {"log_max_rows": 24}),
    "columns of CSV": (CSV, {"log_max_columns": 4}, {"log_max_columns": 5}),
    "columns of a workbook": (hostile.workbook(), {"log_max_columns": 4}, {"log_max_columns": 5}),
    "columns of Parquet": (hostile.parquet(), {"log_max_columns": 4}, {"log_max_columns": 5}),
    "sheets": (hostile.many_sheets(3, full=True), {"log_max_sheets": 2}, {"log_max_sheets": 3}),
    "nesting of JSON": (
        hostile.json_with("[" * 20 + "]" * 20),
        {"log_max_nesting": 20},
        {"log_max_nesting": 21},
    ),
    "nesting of XES": (
        hostile.xes(inside="<x>" * 20 + "</x>" * 20),
        {"log_max_nesting": 20},
        {"log_max_nesting": 21},
    ),
}


@pytest.mark.parametrize(("content", "below", "enough"), SETTINGS.values(), ids=SETTINGS)
def test_each_limit_is_a_setting(tmp_path, content, below, enough):
    (tmp_path / "log").write_bytes(content)
    ((name, value),) = below.items()
    with pytest.raises(UserError) as caught:
        load_configured(Config(event_log=str(tmp_path / "log"), **below))
    assert f"({name.upper()} is {value:,}); raise that setting if the log is genuine." in str(caught.value)
    assert len(load_configured(Config(event_log=str(tmp_path / "log"), **enough)).simulator.hooks.log) == 24


def test_text_in_strings_is_no_nesting(tmp_path):
    (tmp_path / "log").write_bytes(hostile.json_with('"' + "[" * 500 + '\\\\\\" {{{"'))
    assert len(load_configured(Config(event_log=str(tmp_path / "log"))).simulator.hooks.log) == 24


def test_the_time_without_a_row(monkeypatch):
    """With a clock that is set, since machines differ in speed."""
    from longstride.process.event_logs.reading import limits

    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    guard = Guard(LogLimits(max_seconds=60), "log")
    now[0] = 159.0
    guard.count_rows(1)
    now[0] = 218.0
    guard.count_rows(0)
    now[0] = 220.0
    with pytest.raises(UserError, match=r"no new row was found for 60 s \(LOG_MAX_SECONDS is 60\)"):
        guard.count_rows(0)
    assert not Guard(LogLimits(max_seconds=0), "log").is_late()


def test_memory_that_grows():
    gc.collect()  # what other tests left must not be freed meanwhile
    guard = Guard(LogLimits(max_memory=50_000_000), "log")
    guard.check()
    taken = b"x" * 400_000_000
    with pytest.raises(UserError, match=r"it takes more than 50 MB of memory \(LOG_MAX_MEMORY is 50,000,000\)"):
        guard.check()
    assert taken


def test_a_state_of_a_log_keeps_to_the_limits(tmp_path):
    """A packed log as state is read unpacked, and refused beyond the limit of its bytes."""
    from longstride.process.event_logs.reading.decode import read_log

    (tmp_path / "log").write_bytes(hostile.blanks('{"time": ', 1_000_000))
    assert len(read_log(tmp_path / "log", Guard(LogLimits(), "log"))) == 1_000_009
    with pytest.raises(UserError, match="LOG_MAX_BYTES is 1,000"):
        read_log(tmp_path / "log", Guard(LogLimits(max_bytes=1000), "log"))
