"""Logs as people have them: each of these once was refused, misread or read in silence."""

import gzip
from calendar import timegm
from datetime import datetime, timedelta

import numpy as np
import pytest
from helpers.log_forms import (
    NAMES,
    completions_csv,
    csv_text,
    events,
    lifecycle_csv,
    ocel_json,
    write_ocel_sqlite,
)

from longstride.errors import UserError
from longstride.process import load
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.mining.data_warnings import data_warnings
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.scenario_file import scenario_content

ROWS = events()
TEXT = csv_text(ROWS)


def read(tmp_path, content, columns=None, name="log.csv", **reading):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_event_log(path, columns, LogReading(**reading))


def refused(tmp_path, content, **reading):
    with pytest.raises(UserError) as caught:
        read(tmp_path, content, **reading)
    return str(caught.value)


def rows_of(log):
    """Return the events of a log as they were written, in the order of case and start."""
    people = [*log.resources, ""]
    rows = [
        (
            log.cases[log.case[i]],
            log.activities[log.activity[i]],
            people[log.resource[i]],
            log.monday + timedelta(seconds=float(log.clock_start[i])),
            log.monday + timedelta(seconds=float(log.clock_end[i])),
        )
        for i in range(len(log))
    ]
    return sorted(rows, key=lambda row: (row[0], row[3]))


def same(log, rows=ROWS):
    assert rows_of(log) == sorted(rows, key=lambda row: (row[0], row[3]))
    return log


def scenario(log):
    """Return what is mined, without the name of the file."""
    return scenario_content(mine_scenario(log, name="log").scenario)


ENCODED = {
    "1 mark": TEXT.encode("utf-8-sig"),
    "2 semicolon": csv_text(ROWS, separator=";").replace(":00;", ":00,000;").encode(),
    "tab": csv_text(ROWS, separator="\t").encode(),
    "bar": csv_text(ROWS, separator="|").encode(),
    "Excel's first line": ("sep=;\n" + csv_text(ROWS, separator=";")).encode(),
    "20 gzip under another name": gzip.compress(TEXT.encode()),
    "16b Latin-1": TEXT.encode("latin-1"),
    "28 UTF-16": TEXT.encode("utf-16"),
    "28 UTF-16 without a mark": TEXT.encode("utf-16-be"),
    "mostly UTF-8": TEXT.encode().replace("Zoë".encode(), "Zoë".encode("latin-1"), 3),
    "old Mac lines": TEXT.replace("\n", "\r").encode(),
    "Windows lines": TEXT.replace("\n", "\r\n").encode(),
    "24 quoted newlines": TEXT.replace("Check", '"Check"').encode(),
    "10 seconds": csv_text(ROWS, lambda time: str(timegm(time.timetuple()))).encode(),
    "11 milliseconds": csv_text(ROWS, lambda time: f"{timegm(time.timetuple())}000").encode(),
    "12 day first": csv_text(ROWS, "%d/%m/%Y %H:%M:%S").encode(),
    "13 dots": csv_text(ROWS, "%d.%m.%Y %H:%M:%S").encode(),
    "27 United States": csv_text(ROWS, "%m/%d/%Y %I:%M:%S %p").encode(),
    "names of months": csv_text(ROWS, "%d-%b-%Y %H:%M:%S").encode(),
    "digits": csv_text(ROWS, "%Y%m%d%H%M%S").encode(),
    "18 lifecycle rows": lifecycle_csv(ROWS).encode(),
    "26 Celonis": csv_text(ROWS, names=("_CASE_KEY", "ACTIVITY_EN", "USER_NAME", "EVENTTIME", "_END_TIME")).encode(),
    "pm4py": csv_text(
        ROWS, names=("case:concept:name", "concept:name", "org:resource", "start_timestamp", "time:timestamp")
    ).encode(),
    "22 OCEL": ocel_json(ROWS).encode(),
}


@pytest.mark.parametrize("form", ENCODED)
def test_every_form_of_a_log_is_the_same_log(tmp_path, form):
    log = same(read(tmp_path, ENCODED[form]))
    assert set(log.activities) == {"Check", "Sign"}
    assert not log.starts_estimated and not log.refused
    assert scenario(log) == scenario(read(tmp_path, TEXT))


def test_workbook_of_rows_14(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    for as_text in (False, True):
        book = openpyxl.Workbook()
        book.active.append(["This sheet explains the other one"])
        sheet = book.create_sheet("Events")
        sheet.append([None])
        sheet.append(list(NAMES))
        for *texts, start, end in ROWS:
            sheet.append([*texts, *((f"{t:%d/%m/%Y %H:%M:%S}" if as_text else t) for t in (start, end))])
        sheet.append(["c0", "Check", "Ann", START_AFTER_END[0], START_AFTER_END[1]])
        book.save(tmp_path / "log.xlsx")
        with pytest.raises(UserError, match=f"row {len(ROWS) + 3} ends before it starts"):
            read_event_log(tmp_path / "log.xlsx")
        log = same(read_event_log(tmp_path / "log.xlsx", None, LogReading(skip_bad_rows=True)))
        assert "The sheet 'Events' is read." in log.notes


START_AFTER_END = (datetime(2024, 3, 20, 9), datetime(2024, 3, 20, 8))


def test_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    columns["resource"] = pyarrow.array(columns["resource"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"id": range(len(ROWS)), **columns}), tmp_path / "log.parquet")
    assert scenario(same(read_event_log(tmp_path / "log.parquet"))) == scenario(read(tmp_path, TEXT))
    for name, hours in (("UTC", 0), ("Europe/Berlin", 1)):
        zone = pyarrow.timestamp("us", name)
        zoned = columns | {n: pyarrow.array(columns[n], pyarrow.timestamp("us")).cast(zone) for n in NAMES[3:]}
        parquet.write_table(pyarrow.table(zoned), tmp_path / "log.parquet")
        log = read_event_log(tmp_path / "log.parquet")
        assert rows_of(log)[0][3] == ROWS[0][3] + timedelta(hours=hours)


def test_aware_and_naive_times_3(tmp_path):
    mixed = TEXT.replace("2024-03-04T08:00:00", "2024-03-04T07:00:00Z", 1)
    message = refused(tmp_path, mixed)
    assert "line 2 has one, line 2 has none" in message and "--time-zone" in message
    same(read(tmp_path, mixed, time_zone="Europe/Berlin"))
    assert "there is no time zone 'Berlin'" in refused(tmp_path, mixed, time_zone="Berlin")


def test_wrong_offset_at_a_change_to_summer_time_4(tmp_path):
    row = "x,Check,Ann,2024-03-31T03:30:00+01:00,2024-03-31T03:40:00+02:00\n"
    text = csv_text(ROWS, "%Y-%m-%dT%H:%M:%S+01:00") + row
    assert f"line {len(ROWS) + 2} ends before it starts" in refused(tmp_path, text)
    log = same(read(tmp_path, text, skip_bad_rows=True))
    assert [(r.number, r.cells[0]) for r in log.refused] == [(len(ROWS) + 2, "x")]


def test_every_event_twice_5(tmp_path):
    twice = TEXT + TEXT.partition("\n")[2]
    log = same(read(tmp_path, twice))
    assert "24 of 48 events are duplicates" in log.notes[0] and "line 26 repeats line 2" in log.notes[0]
    kept = read(tmp_path, twice, keep_duplicates=True)
    assert len(kept) == 48 and "duplicates count" in kept.notes[0]
    assert len(read(tmp_path, lifecycle_csv(ROWS + ROWS))) == 24


def test_missing_resources_6(tmp_path):
    log = read(tmp_path, TEXT.replace("Zoë", ""))
    assert (log.resource < 0).sum() == 8
    assert any("33.3% of the events name no resource" in note for note in mine_scenario(log, name="x").notes)


def test_team_that_overlaps_itself_7(tmp_path):
    rows = [(c, a, "Team", s, s + timedelta(days=9)) for c, a, _, s, _ in ROWS]
    assert any(
        "several records open at once" in s and "Team 6.9" in s for s in data_warnings(read_rows(tmp_path, rows))
    )


def read_rows(tmp_path, rows):
    return read(tmp_path, csv_text(rows))


def test_plain_under_the_name_of_gzip_and_very_long_names_20b_23(tmp_path):
    long = "x" * 30_000
    log = read(tmp_path, TEXT.replace("Check", long), name="log.csv.gz")
    assert set(log.activities) == {long, "Sign"}
    assert "line 2 is not valid CSV: field larger than field limit" in refused(
        tmp_path, TEXT.replace("Check", "x" * 140_000)
    )


def test_nested_lists_of_xes_16(tmp_path):
    nested = '<list key="more"><values><string key="concept:name" value="Other"/></values></list>'
    event = (
        '<event><string key="concept:name" value="Check"><string key="concept:name" value="Inner"/></string>'
        '<string key="org:resource" value="Ann"/><date key="start_timestamp" value="2024-03-04T08:00:00"/>'
        f'<date key="time:timestamp" value="2024-03-04T0{{}}:00:00"/>{nested}</event>'
    )
    ignored = (
        '<event><string key="concept:name" value="Sign"/><string key="lifecycle:transition" value="schedule"/></event>'
    )
    events_ = event.format(9) + ignored + event.format(8)
    log = read(tmp_path, f'<log><trace><string key="concept:name" value="a"/>{nested}{events_}</trace></log>')
    assert log.activities == ("Check",) and len(log) == 2 and log.cases == ("a",)


def test_instances_that_differ_are_no_duplicates(tmp_path):
    rows = [(*texts, f"i{i}", start, end) for i, (*texts, start, end) in enumerate(ROWS[:2] * 2)]
    names = (*NAMES[:3], "concept:instance", *NAMES[3:])
    assert len(read(tmp_path, csv_text(rows, names=names))) == 4


def test_a_spreadsheet_that_read_some_dates(tmp_path):
    text = csv_text(ROWS, lambda t: f"{t:%d/%m/%Y %H:%M:%S}" if t.day > 12 else f"{t:%Y-%d-%m %H:%M:%S}")
    assert "a spreadsheet may have exchanged day and month" in read(tmp_path, text).notes[0]


def test_automatic_activities_8(tmp_path):
    rows = [*ROWS, *((c, "Archive", "", e, e) for c, a, _, _, e in ROWS if a == "Sign")]
    (sentence,) = data_warnings(read_rows(tmp_path, rows))
    assert "Archive takes no time and names no person in any event: an automatic activity" in sentence


def test_ambiguous_and_contradicting_dates(tmp_path):
    early = [row for row in ROWS if row[3].day <= 12]
    text = csv_text(early, "%d/%m/%Y %H:%M")
    message = refused(tmp_path, text)
    assert "line 2" in message and "'04/03/2024 08:00' is not clear" in message and "--time-format day-first" in message
    assert rows_of(read(tmp_path, text, time_format="day-first"))[0][3] == datetime(2024, 3, 4, 8)
    assert rows_of(read(tmp_path, text, time_format="month-first"))[0][3] == datetime(2024, 4, 3, 8)
    assert rows_of(read(tmp_path, text, time_format="%m/%d/%Y %H:%M"))[0][3] == datetime(2024, 4, 3, 8)
    both = csv_text(ROWS, "%d/%m/%Y %H:%M:%S") + "x,Check,Ann,12/31/2024 8:00,12/31/2024 9:00\n"
    message = refused(tmp_path, both)
    assert "'12/31/2024 8:00'" in message and "with the day first and with the month first" in message
    assert len(same(read(tmp_path, both, time_format="day-first", skip_bad_rows=True)).refused) == 1
    assert "have the day first: line 12 has '14/03/2024" in read(tmp_path, csv_text(ROWS, "%d/%m/%Y %H:%M:%S")).notes[0]


def test_an_activity_for_each_row_15(tmp_path):
    rows = [(c, f"Mail {i}", r, s, e) for i, (c, _, r, s, e) in enumerate(events(40))]
    assert any("80 events have 80 different activities" in s for s in data_warnings(read_rows(tmp_path, rows)))


def test_thousands_of_activities_are_named_before_the_log_is_mined(tmp_path, monkeypatch):
    rows = [(c, f"Mail {i % 1001}", r, s, e) for i, (c, _, r, s, e) in enumerate(events(3_000))]
    (tmp_path / "log.csv").write_text(csv_text(rows))
    said = []

    def stop(*_, **__):
        raise UserError("mined")

    monkeypatch.setattr(load, "mine_scenario", stop)
    with pytest.raises(UserError, match="mined"):
        load.make_process(event_log=str(tmp_path / "log.csv"), say=said.append)
    assert said == [
        "Warning: 6,000 events have 1,001 different activities, so the column of activities may hold free text or "
        "numbers. Mining then takes minutes, and training far longer; name another column with --log-columns "
        "activity=..."
    ]


def test_one_case_and_no_rows_17_29(tmp_path):
    assert "holds 1 event(s)" in refused(tmp_path, csv_text(ROWS[:1]))
    assert "holds no event(s)" in refused(tmp_path, csv_text([]))
    assert "is empty" in refused(tmp_path, "")


def test_completions_only_19(tmp_path):
    log = read(tmp_path, completions_csv(ROWS))
    assert log.starts_estimated and "The log has no start times" in log.notes[0]
    ends = sorted(row[4] for row in ROWS)
    assert sorted(row[4] for row in rows_of(log)) == ends
    # Sign follows Check of its case an hour before; the person was free before that.
    signed = [row for row in rows_of(log) if row[1] == "Sign"]
    checked = {row[0]: row[4] for row in ROWS if row[1] == "Check"}
    assert all(row[3] == checked[row[0]] for row in signed)
    xes_like = lifecycle_csv(ROWS).replace(",start,", ",schedule,")
    assert read(tmp_path, xes_like).starts_estimated


def test_object_centric_logs_22(tmp_path):
    items = ("i1", "i2")
    write_ocel_sqlite(ROWS, tmp_path / "log.sqlite")
    same(read_event_log(tmp_path / "log.sqlite"))
    message = refused(tmp_path, ocel_json(ROWS, items))
    assert "orders (12), employees (3), items (2)" in message and "--object-type" in message
    same(read(tmp_path, ocel_json(ROWS, items), object_type="orders"))
    flat = read(tmp_path, ocel_json(ROWS, items), object_type="items")
    assert flat.cases == items and len(flat) == 2 * len(ROWS)
    assert any("24 of 24 events belong to several of these objects" in note for note in flat.notes)
    assert "has no objects of type 'order'; did you mean orders?" in refused(
        tmp_path, ocel_json(ROWS), object_type="order"
    )
    assert "is JSON, but no OCEL 2.0 log" in refused(tmp_path, '{"a": 1}')
    assert "is not valid" in refused(tmp_path, "{")
    assert "SQLite database, but no readable OCEL 2.0 log" in refused(tmp_path, b"SQLite format 3\x00" + b"x" * 90)


def test_bad_rows_30_31_32(tmp_path):
    bad = (
        "x,Check,Ann,2024-03-20T09:00:00,2024-03-20T08:00:00\n"
        "x,Check,Ann,2024-03-20T09:00:00,\n"
        "x,Check,Ann,2024-03-20T09:00:00,9999-12-31T00:00:00\n"
        "x,Check,Ann,0024-03-20T09:00:00,0024-03-20T09:30:00\n"
        "x,Check\n"
        "x,,Ann,2024-03-20T09:00:00,2024-03-20T10:00:00\n"
        ",Check,Ann,2024-03-20T09:00:00,2024-03-20T10:00:00\n"
        'x,"Check"?,Ann,2024-03-20T09:00:00,2024-03-20T10:00:00\n'
        "x,Check,Ann,2024-02-30T09:00:00,2024-03-20T10:00:00\n"
    )
    head, _, tail = TEXT.partition("\n")
    text = f"{head}\n{bad}{tail}"
    message = refused(tmp_path, text)
    assert "line 2 ends before it starts" in message
    assert "correct it and 6 other bad rows, or leave them out with --skip-bad-rows" in message
    log = same(read(tmp_path, text, skip_bad_rows=True))
    reasons = {row.number: row.reason for row in log.refused}
    assert list(reasons) == list(range(2, 11))
    phrases = "ends before;end time: it is empty;another century;another century;2 fields;no activity;no case id"
    phrases += ";not valid CSV;'2024-02-30T09:00:00' is not"
    for line, words in enumerate(phrases.split(";"), 2):
        assert words in reasons[line]
    assert "9 of 33 rows are bad and left out (--skip-bad-rows); the first: line 2 ends before" in log.notes[0]
    assert "holds no event(s) besides 1 bad rows" in refused(
        tmp_path, f"{head}\n{bad.splitlines()[0]}\n", skip_bad_rows=True
    )


def test_reversed_row_of_lifecycles_is_two_half_events(tmp_path):
    log = read(
        tmp_path, lifecycle_csv(ROWS) + "x,Check,Ann,start,2024-03-20T09:00\nx,Check,Ann,complete,2024-03-20T08:00\n"
    )
    assert len(same(log)) == 24
    assert log.notes == (
        "1 completion without a start is left out (of Check).",
        "1 start without a completion is left out.",
    )


def test_times_that_no_program_reads(tmp_path):
    assert "does not fit --time-format '%d.%m.%Y'" in refused(tmp_path, TEXT, time_format="%d.%m.%Y")
    for wrong in ("%H:%M", "soon", "%Q"):
        assert "gives no whole date" in refused(tmp_path, TEXT, time_format=wrong)
    weeks = csv_text(ROWS, "%G week %V %u %H %M %S")
    same(read(tmp_path, weeks, time_format="%G week %V %u %H %M %S"))


def test_workbooks_that_are_none(tmp_path):
    assert "old kind or with a password" in refused(tmp_path, b"\xd0\xcf\x11\xe0rest")
    if pytest.importorskip("openpyxl"):
        import zipfile

        with zipfile.ZipFile(tmp_path / "log.csv", "w") as archive:
            archive.writestr("xl/workbook.xml", "no")
        with pytest.raises(UserError, match="is a damaged workbook"):
            read_event_log(tmp_path / "log.csv")
    pytest.importorskip("pyarrow")
    assert "is a damaged Parquet file" in refused(tmp_path, b"PAR1 and no more")


def test_missing_libraries_are_named(tmp_path, monkeypatch):
    import sys
    import zipfile

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    with pytest.raises(UserError, match="pip install openpyxl"):
        read_event_log(tmp_path / "log.xlsx")
    assert "pip install pyarrow" in refused(tmp_path, b"PAR1")


def test_data_warnings_about_people_and_seconds(tmp_path):
    rows = [(c, a, f"customer {c}" if a == "Sign" else r, s, s + (e - s) / 600) for c, a, r, s, e in events(24)]
    sentences = data_warnings(read_rows(tmp_path, rows))
    assert any("24 of 27 people occur in one case only" in s for s in sentences)
    assert any("half of the events of Check, Sign last less than 10 seconds" in s for s in sentences)
    fast = [(c, a, r, s, s + (e - s) / (40 if r == "Ann" and a == "Check" else 1)) for c, a, r, s, e in events(36)]
    assert any("Ann (Check, 12 records)" in s for s in data_warnings(read_rows(tmp_path, fast)))
    assert data_warnings(read_rows(tmp_path, events(36))) == []


def test_a_large_log_takes_blocks(tmp_path):
    """Rows, numbers and names are right beyond the first block."""
    count = 5_003
    day = datetime(2024, 3, 4)
    times = [[(day + timedelta(seconds=s)).isoformat() for s in (i, i + i % 10)] for i in range(count)]
    rows = [f"c{i // 3},A{i % 3},P{i % 7},{start},{end}\n" for i, (start, end) in enumerate(times)]
    text = ",".join(NAMES) + "\n" + "".join(rows)
    log = read(tmp_path, text)
    assert len(log) == count and log.activities == ("A0", "A1", "A2") and log.cases[-1] == f"c{(count - 1) // 3}"
    np.testing.assert_array_equal(log.end - log.start, np.arange(count) % 10)
    assert f"line {count + 2} has no case id" in refused(tmp_path, text + ",A,P,2024-03-04,2024-03-05\n")


@pytest.mark.parametrize("text", ["0000-00-00", "0000-00-00 00:00:00", "00000000000000"])
def test_the_date_of_a_database_for_none_is_explained(tmp_path, text):
    first = f"{ROWS[0][3]:%Y-%m-%d %H:%M:%S}"
    message = refused(tmp_path, csv_text(ROWS, "%Y-%m-%d %H:%M:%S").replace(first, text, 1))
    assert (
        f"line 2 has no readable start time: '{text}' is not a date (databases write it for a missing time); "
        in message
    )
