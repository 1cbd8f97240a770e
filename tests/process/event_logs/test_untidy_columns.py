"""Columns and cells as other programs write them: names that occur twice, words for nothing, numbers as times."""

from datetime import datetime, timedelta

import pytest
from helpers.log_forms import NAMES, csv_text, events

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.reading.words.nothing import is_nothing

ROWS = events()
TEXT = csv_text(ROWS)


def read(tmp_path, text, columns=None):
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode())
    return read_event_log(path, columns)


def refused(tmp_path, text, columns=None):
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, columns)
    return str(caught.value)


def moments(log):
    return sorted((log.monday + timedelta(seconds=float(t))) for t in (*log.clock_start, *log.clock_end))


def test_only_a_needed_column_must_have_a_name_of_its_own(tmp_path):
    wide = "\n".join(f"{line},,x,y" for line in TEXT.splitlines()).replace(",,x,y", ",,comment,Comment", 1)
    for names in ("comment,comment", "comment,Comment ", ","):
        assert len(read(tmp_path, "\ufeff" + wide.replace("comment,Comment", names, 1))) == len(ROWS)
    twice = wide.replace("comment,Comment", "comment,Resource", 1)
    message = refused(tmp_path, twice)
    assert "two columns are called 'resource' and 'Resource', and either could hold the resource" in message
    assert "choose one with --log-columns 'resource=resource'" in message
    assert read(tmp_path, twice, {"resource": "resource"}).resources == ("Ann", "Jürgen", "Zoë")
    assert read(tmp_path, twice, {"resource": "Resource"}).resources == ("y",)


WORDS = (
    *("nan", "NaN", "NULL", "none", "N/A", "#N/A", "#na", "n.a.", "-", "--", "\u2014", "?", "NaT", "<NA>", "(null)"),
    *("\\N", "''", '""', "#REF!", "unknown", "Unassigned"),
)


def test_usual_names_of_columns_are_known(tmp_path):
    for start, end in (("Started at", "Completed at"), ("begin", "finished"), ("Begin Time", "Completion Date")):
        log = read(tmp_path, TEXT.replace("start_time", start, 1).replace("end_time", end, 1))
        assert moments(log) == moments(read(tmp_path, TEXT))


@pytest.mark.parametrize("name", ["status", "State"])
def test_a_column_called_status_holds_the_activity_where_no_other_does(tmp_path, name):
    named = TEXT.replace("activity", name, 1)
    log, usual = read(tmp_path, named), read(tmp_path, TEXT)
    assert (log.activities, len(log)) == (usual.activities, len(usual))
    sentence = f"Column {name!r} is taken for the activity; --log-columns activity=... names another one."
    assert sentence in log.notes
    assert sentence not in read(tmp_path, named, {"activity": name}).notes


def test_a_column_called_status_beside_an_activity_changes_nothing(tmp_path):
    header, *rows = TEXT.splitlines()
    log = read(tmp_path, "\n".join([f"status,{header}", *(f"open,{row}" for row in rows)]))
    assert (log.activities, log.notes) == (read(tmp_path, TEXT).activities, read(tmp_path, TEXT).notes)


def test_words_such_as_start_and_complete_in_a_status_are_no_activities(tmp_path):
    header, *rows = TEXT.replace("activity", "status", 1).splitlines()
    place = header.split(",").index("status")
    cells = [row.split(",") for row in rows]
    cells = [[*row[:place], ("Started", "completed")[i % 2], *row[place + 1 :]] for i, row in enumerate(cells)]
    message = refused(tmp_path, "\n".join([header, *map(",".join, cells)]))
    assert "no column is recognised for activity; 'status' holds only transitions, such as 'Started'." in message


def test_a_log_without_starts_names_both_columns_that_could_hold_them(tmp_path):
    ends = "\n".join(",".join(line.split(",")[:3] + line.split(",")[4:]) for line in TEXT.splitlines())
    (note,) = [note for note in read(tmp_path, ends).notes if "no start times" in note]
    assert "--log-columns start=..., or a column of words such as started and finished with transition=..." in note


@pytest.mark.parametrize("word", [*WORDS, "not available", " "])
def test_a_word_for_nothing_is_nobody_and_no_case(tmp_path, word):
    assert is_nothing(word, "resource") and is_nothing(word, "case")
    quoted = '"' + word.replace('"', '""') + '"'
    log = read(tmp_path, TEXT.replace("Zoë", quoted))
    assert log.resources == ("Ann", "Jürgen") and (log.resource < 0).sum() == 8
    assert any("8 of 24 rows (33.3%) name nobody" in note for note in log.notes) == bool(word.strip())
    assert "line 3 has no case id" in refused(tmp_path, TEXT.replace("c0,Sign", f"{quoted},Sign"))
    assert "line 2 has no readable start time: it is empty" in refused(
        tmp_path, TEXT.replace("2024-03-04T08:00:00", quoted, 1)
    )


def test_names_are_not_words_for_nothing(tmp_path):
    for name in ("Nan Li", "Nana", "N", "Noneman", "-5", "#12", "Ana", "void"):
        assert not is_nothing(name, "resource")
    assert "line 2 has no activity: 'nan' stands for a missing one" in refused(tmp_path, TEXT.replace("Check", "nan"))
    log = read(tmp_path, TEXT.replace("Check", "Unknown"))
    assert "12 of 24 rows (50.0%) have an activity called 'Unknown'" in log.notes[-1]


def days(time):
    return f"{(time - datetime(1899, 12, 30)) / timedelta(days=1):.12f}"


def test_numbers_of_spreadsheets_are_times(tmp_path):
    log = read(tmp_path, csv_text(ROWS, days, separator=";").replace(".", ","))
    assert moments(log) == sorted(time for row in ROWS for time in row[3:])
    assert "numbers of a spreadsheet, days since 1899-12-30 (line 2 has '45355,333333333336')" in log.notes[0]
    assert "is a number and counts neither" in refused(tmp_path, csv_text(ROWS, lambda t: "1.7096E+09"))
    assert "names a time zone; write an offset" in refused(tmp_path, csv_text(ROWS, "%Y-%m-%d %H:%M:%S CET"))


def test_numbers_of_workbooks_and_parquet_files(tmp_path):
    openpyxl, pyarrow = pytest.importorskip("openpyxl"), pytest.importorskip("pyarrow")
    rows = [[*row[:3], *(float(days(time)) for time in row[3:])] for row in ROWS]
    book = openpyxl.Workbook()
    for row in ([*NAMES, "x", "x"], *rows):
        book.active.append(row)
    book.save(tmp_path / "log.xlsx")
    columns = [pyarrow.array(column) for column in zip(*rows, strict=True)]
    table = pyarrow.Table.from_arrays([*columns, columns[0], columns[0]], [*NAMES, "x", "x"])
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "log.parquet")
    for name in ("log.xlsx", "log.parquet"):
        assert moments(read_event_log(tmp_path / name)) == sorted(time for row in ROWS for time in row[3:])
