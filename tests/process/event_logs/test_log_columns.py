"""Due dates and rates in columns of a log: every allowance is known, because the log is made from it."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.event_logs.reading.options import LogReading

BEGIN = datetime(2025, 3, 3, 9)


def write(path: Path, column: str, cell, cases: int = 40, hours: float = 16.0, ends: bool = True) -> Path:
    """Write a log of one task of half an hour a case; ``cell(case, start)`` is that of one more column."""
    lines = [f"case,activity,resource,{'start,' if ends else ''}end,{column}"]
    for case in range(cases):
        start = BEGIN + timedelta(hours=hours * case)
        times = f"{start}," if ends else ""
        lines.append(f"c{case},A,{'XY'[case % 2]},{times}{start + timedelta(minutes=30)},{cell(case, start)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def columns_of(path: Path, **options) -> LogColumns:
    return LogColumns(read_event_log(path), path, {}, LogReading(**options))


def test_allowances_of_very_different_lengths_are_not_drawn_together(tmp_path):
    due = {0: 24.0, 1: 24.0 * 200}
    columns = columns_of(write(tmp_path / "a.csv", "обещано", lambda c, s: s + timedelta(hours=due[c % 2])))
    assert columns.allowances("обещано") == pytest.approx([due[case % 2] for case in range(40)])
    assert columns.notes == []


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%d 00:00:00"])
def test_a_date_without_hours_lasts_until_its_day_ends(tmp_path, form):
    file = write(tmp_path / "a.csv", "promised", lambda c, s: (s + timedelta(days=2)).strftime(form))
    columns = columns_of(file)
    starts = [BEGIN + timedelta(hours=16.0 * case) for case in range(40)]
    expected = [72.0 - start.hour - start.minute / 60 for start in starts]
    assert columns.allowances("promised") == pytest.approx(expected)
    assert columns.notes == ["The due dates in 'promised' have no hours; a case is due when that day ends."]


def test_cases_without_a_date_and_with_the_last_day_of_the_calendar_have_none(tmp_path):
    cells = {0: "", 1: "9999-12-31 00:00:00", 2: "n/a"}
    file = write(tmp_path / "a.csv", "due", lambda c, s: cells.get(c, s + timedelta(hours=5)))
    hours = columns_of(file).allowances("DUE")
    assert np.isnan(hours[:3]).all()
    assert hours[3:] == pytest.approx([5.0] * 37)


def test_the_first_completion_counts_where_starts_are_estimated(tmp_path):
    columns = columns_of(write(tmp_path / "a.csv", "due", lambda c, s: s + timedelta(hours=5), ends=False))
    log = columns.log
    assert log.starts_estimated
    since = (log.end - log.start) / 3600.0  # one event a case
    assert columns.allowances("due") == pytest.approx(4.5 + since)


def test_starts_and_completions_in_rows_of_their_own_have_one_due_date(tmp_path):
    lines = ["case,activity,resource,timestamp,lifecycle,due"]
    for case in range(10):
        start = BEGIN + timedelta(hours=3 * case)
        for row, word in enumerate(("start", "complete") * 2):
            time = start + timedelta(hours=(0, 1, 1, 2)[row])
            lines.append(f"{case},{'AB'[row // 2]},X,{time},{word},{start + timedelta(hours=30 + row)}")
    file = tmp_path / "a.csv"
    file.write_text("\n".join(lines) + "\n")
    assert columns_of(file).allowances("due") == pytest.approx([33.0] * 10)  # the latest


def test_a_due_date_with_an_offset_needs_the_zone_of_the_log(tmp_path):
    file = write(tmp_path / "a.csv", "due", lambda c, s: f"{(s + timedelta(hours=47)).isoformat()}Z")
    with pytest.raises(UserError, match="whose dates have a UTC offset, but the log's times have none; name their"):
        columns_of(file).allowances("due")
    options = {"time_zone": "Europe/Berlin"}  # an hour ahead of UTC, two from 30 March 2025 on
    columns = LogColumns(read_event_log(file, {}, LogReading(**options)), file, {}, LogReading(**options))
    assert columns.allowances("due")[:30] == pytest.approx([48.0] * 30)


@pytest.mark.parametrize("key", ["promised", "case:promised"])
def test_due_dates_of_traces_of_xes_are_not_the_completions(tmp_path, key):
    traces = []
    for case in range(10):
        start = BEGIN + timedelta(hours=3 * case)
        events = (
            f'<event><string key="concept:name" value="A"/><string key="org:resource" value="X"/><date '
            f'key="start_timestamp" value="{start.isoformat()}+01:00"/><date key="time:timestamp" '
            f'value="{(start + timedelta(hours=1)).isoformat()}+01:00"/></event>'
        )
        due = f"{(start + timedelta(hours=49)).isoformat()}+02:00"  # one hour earlier than with +01:00
        traces.append(
            f'<trace><string key="concept:name" value="{case}"/><date key="promised" value="{due}"/>{events}</trace>'
        )
    file = tmp_path / "a.xes"
    file.write_text(f'<log xmlns="http://www.xes-standard.org/">{"".join(traces)}</log>', encoding="utf-8")
    assert columns_of(file).allowances(key) == pytest.approx([48.0] * 10)


@pytest.mark.parametrize(
    ("column", "cell", "sentence"),
    [
        ("paid", lambda c, s: s, "{} has no column 'due' for DUE; it has case, activity, resource, start, end, paid."),
        ("due", lambda c, s: "", "DUE is 'column due', but no case has a date there."),
        (
            "due",
            lambda c, s: s if c else "soon",
            "DUE is 'column due', but line 2 has no date there: 'soon' is not an ISO 8601 date and time like "
            "2024-03-25T14:30:00, nor of another known form (--time-format names one); correct it, or take such cases "
            "as ones without a due date with --skip-bad-rows.",
        ),
    ],
)
def test_columns_without_due_dates_are_refused_in_a_sentence(tmp_path, column, cell, sentence):
    file = write(tmp_path / "a.csv", column, cell)
    with pytest.raises(UserError) as error:
        columns_of(file).allowances("due")
    assert str(error.value) == sentence.format(file)


def test_a_date_that_cannot_be_read_is_none_if_bad_rows_are_skipped(tmp_path):
    file = write(tmp_path / "a.csv", "due", lambda c, s: s + timedelta(hours=1) if c else "soon")
    hours = columns_of(file, skip_bad_rows=True).allowances("due")
    assert np.isnan(hours[0])
    assert hours[1:] == pytest.approx([1.0] * 39)


def test_rates_come_from_a_column_with_one_amount_for_each_person(tmp_path):
    file = write(tmp_path / "a.csv", "rate", lambda c, s: ("40", "62.5", "", "62.50")[c % 4])
    assert columns_of(file).rates("rate", ["X", "Y", "hired"]) == {"X": 40.0, "Y": 62.5}


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (lambda c: 40 + c, "but 'X' has 40 and 42 there; expected one amount an hour for each person, or write a"),
        (lambda c: "40 €", "but '40 €' is not an amount; expected a number, 0 or more."),
        (lambda c: -1, "but '-1' is not an amount; expected a number, 0 or more."),
        (lambda c: "" if c % 2 else 40, "but 'Y' has no amount there; 0 is one, too."),
    ],
)
def test_columns_without_rates_are_refused_in_a_sentence(tmp_path, cell, sentence):
    file = write(tmp_path / "a.csv", "rate", lambda c, s: cell(c), cases=4)
    with pytest.raises(UserError, match="COST is 'column rate'") as error:
        columns_of(file).rates("rate", ["X", "Y"])
    assert sentence in str(error.value)
