"""Logs made to harm their reader: each once was a traceback, or took memory or time without a limit."""

import gzip
import resource
import subprocess
import sys

import pytest
from helpers import hostile_logs as hostile

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.mining.mine_scenario import mine_scenario

MB = 1_000_000
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
DAMAGED = "is a damaged workbook"


def refused(tmp_path, content, **options):
    """Return the sentence that refuses a log."""
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(UserError) as caught:
        mine_scenario(read_event_log(tmp_path / "log", None, LogReading(**options)), name="log")
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 700
    return sentence


def read(tmp_path, content):
    (tmp_path / "log").write_bytes(content)
    return read_event_log(tmp_path / "log")


WORKBOOKS = {
    "with a password": (lambda: hostile.with_headers(hostile.encrypted), "is a workbook with a password"),
    "method 99": (lambda: hostile.with_headers(hostile.packed_by(99)), "is packed by method 99"),
    "method 9": (lambda: hostile.with_headers(hostile.packed_by(9)), "is packed by method 9"),
    "string beyond the table": (lambda: hostile.with_cell('<c r="B3" t="s"><v>999</v></c>'), DAMAGED),
    "string before the table": (lambda: hostile.with_cell('<c r="B3" t="s"><v>x</v></c>'), DAMAGED),
    "boolean": (lambda: hostile.with_cell('<c r="B3" t="b"><v>yes</v></c>'), DAMAGED),
    "date": (lambda: hostile.with_cell('<c r="B3" t="d"><v>soon</v></c>'), DAMAGED),
    "number": (lambda: hostile.with_cell('<c r="B3"><v>many</v></c>'), DAMAGED),
    "place": (lambda: hostile.with_cell('<c r="3B"><v>1</v></c>'), DAMAGED),
    "digits": (lambda: hostile.with_cell(f'<c r="B3"><v>{"9" * 5000}</v></c>'), DAMAGED),
    "style": (lambda: hostile.with_cell('<c r="B3" s="x"><v>1</v></c>'), DAMAGED),
    "not closed": (lambda: hostile.with_sheet("</worksheet>", ""), DAMAGED),
    "row": (lambda: hostile.with_sheet('<row r="5"', '<row r="999999999999"'), "has a row beyond 1,048,576"),
    "many sheets": (lambda: hostile.many_sheets(120), "it has 120 sheets (LOG_MAX_SHEETS is 100)"),
    "strings": (lambda: hostile.many_strings(120 * MB), "(LOG_MAX_UNPACKING is 200)"),
    "styles": (lambda: hostile.with_part("xl/styles.xml", lambda text: text + " " * 70 * MB), "more than 64,000,000"),
}


@pytest.mark.parametrize(("make", "sentence"), WORKBOOKS.values(), ids=WORKBOOKS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_workbooks(tmp_path, make, sentence, packed):
    content = make()
    assert sentence in refused(tmp_path, gzip.compress(content) if packed else content)


@pytest.mark.parametrize("kind", hostile.DOCTYPES)
@pytest.mark.parametrize("part", [SHEET, STRINGS, "xl/workbook.xml", "xl/styles.xml", "[Content_Types].xml"])
def test_no_part_of_a_workbook_has_a_doctype(tmp_path, part, kind):
    """By a look of our own, not by what the installed expat happens to refuse."""
    assert "declares a DOCTYPE" in refused(tmp_path, hostile.with_doctype(part, kind))


def test_wide_rows_of_a_workbook_cost_little(tmp_path):
    """A million cells in the last column, 16,384 cells wide each, take no more than the columns that are read."""
    rows = "".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(30, 20_000))
    log = read(tmp_path, hostile.with_sheet("</sheetData>", rows + "</sheetData>"))
    assert len(log) == len(hostile.ROWS)


HUGE_COLUMN = "CREATE TABLE object (ocel_id TEXT, n INT, ocel_type AS (hex(zeroblob(n))))"
DATABASES = {
    "endless view": ((hostile.RECURSION,), "object", "'object' is a view or a virtual table"),
    "400 MB of a view": (
        ("CREATE VIEW object AS SELECT hex(zeroblob(200000000)) AS ocel_id, 'case' AS ocel_type",),
        "object",
        "'object' is a view or a virtual table",
    ),
    "view of events": (
        ("CREATE VIEW event_CheckTable AS SELECT * FROM event_SignTable",),
        "event_CheckTable",
        "'event_CheckTable' is a view or a virtual table",
    ),
    "virtual table": (
        ("CREATE VIRTUAL TABLE object USING fts5(ocel_id, ocel_type)",),
        "object",
        "'object' is a view or a virtual table",
    ),
    "computed column": (
        (HUGE_COLUMN, "INSERT INTO object (ocel_id, n) VALUES ('c0', 200000000)"),
        "object",
        "has no plain column ocel_type",
    ),
    "long cell": (("UPDATE object SET ocel_type = hex(zeroblob(5000000))",), "", "string or blob too big"),
    "NUL in a name": (("UPDATE event_map_type SET ocel_type_map = 'x' || char(0)",), "", "no readable OCEL 2.0 log"),
    "quote in a name": (("UPDATE event_map_type SET ocel_type_map = 'x\" --'",), "", "no such table"),
}


@pytest.mark.parametrize(("statements", "without", "sentence"), DATABASES.values(), ids=DATABASES)
def test_databases(tmp_path, statements, without, sentence):
    assert sentence in refused(tmp_path, hostile.database(*statements, without=without))


def test_one_event_of_very_many_objects(tmp_path):
    """A thousand events of one id, each with a thousand objects, are a million rows of a file of some kB."""
    more = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 8000) "
    content = hostile.database(
        f"INSERT INTO event_object {more} SELECT 'e0', 'c0', 'of' FROM c",
        f"INSERT INTO event_CheckTable {more} SELECT 'e0', '2024-03-04', '2024-03-04' FROM c",
    )
    assert "(LOG_MAX_ROWS is 50,000,000)" in refused(tmp_path, content)


def test_a_database_that_is_being_written(tmp_path):
    (tmp_path / "log-wal").write_bytes(b"x")
    assert "has changes that are only in log-wal" in refused(tmp_path, hostile.database())


def test_a_text_that_parquet_repeats_is_held_once(tmp_path):
    content = hostile.repeated_text(100_000, 200_000)
    assert len(content) < MB, "20 GB of text in a small file"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (tmp_path / "log").write_bytes(content)
    log = read_event_log(tmp_path / "log", None, LogReading(keep_duplicates=True))
    assert len(log) == 200_000 and log.resources == ("x" * 100_000,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000, "kB"


def _dates():
    import pyarrow

    return pyarrow.array([2**31 - 1] * len(hostile.ROWS), pyarrow.int32()).cast(pyarrow.date32())


def _wide():
    import pyarrow

    return pyarrow.array([b"x" * 5000] * len(hostile.ROWS), pyarrow.binary(5000))


PARQUETS = {
    "long cell": (lambda: hostile.repeated_text(2 * MB, 200_000), "has a cell of 2,000,000 characters"),
    "day 2^31": (lambda: hostile.parquet(end_time=_dates()), "row 1 has no readable end time"),
    "lists": (lambda: hostile.parquet(resource=[["a"]] * len(hostile.ROWS)), "not single values; flatten it"),
    "wide": (lambda: hostile.parquet(resource=_wide()), "has cells of 5,000 bytes"),
}


@pytest.mark.parametrize(("make", "sentence"), PARQUETS.values(), ids=PARQUETS)
def test_parquets(tmp_path, make, sentence):
    assert sentence in refused(tmp_path, make())


TEXTS = {
    "gzip of JSON": (lambda: hostile.blanks('{"events": ', 120 * MB), "(LOG_MAX_UNPACKING is 200)"),
    "gzip of XES": (lambda: hostile.blanks("<log>", 120 * MB), "more than 1,000,000 characters without a tag"),
    "gzip of XES with tags": (
        lambda: gzip.compress(b"<log>" + (b" " * 100_000 + b"<x/>") * 1100),
        "(LOG_MAX_UNPACKING is 200)",
    ),
    "gzip of CSV": (lambda: hostile.lines(120 * MB), "more than 1,000,000 empty lines in a row"),
    "gzip of CSV with rows": (
        lambda: gzip.compress(hostile.csv_text(hostile.ROWS).encode() + (b"x" * 900_000 + b"\n") * 120),
        "(LOG_MAX_UNPACKING is 200)",
    ),
    "cut gzip": (lambda: hostile.blanks("<log>", 1000)[:-5], "is a damaged or incomplete gzip file"),
    "unknown encoding": (lambda: hostile.xes("x-evil"), "declares an encoding that is not read"),
    "UTF-7": (lambda: hostile.xes("UTF-7"), "declares an encoding that is not read"),
    "multi-byte": (lambda: hostile.xes("shift_jis"), "declares an encoding that is not read"),
    "no text encoding": (lambda: hostile.xes("hex"), "declares an encoding that is not read"),
    "deep XES": (lambda: hostile.xes(inside="<x>" * 400_000), "(LOG_MAX_NESTING is 100)"),
    "long value": (lambda: hostile.xes(inside=f'<x y="{"y" * 3 * MB}"/>'), "without a tag of XML"),
    "OCEL as XML": (lambda: b"<ocel><events/></ocel>", "is an OCEL log as XML, which is not read"),
    "deep JSON": (lambda: hostile.json_with("[" * 2 * MB), "(LOG_MAX_NESTING is 100)"),
    "deep JSON behind strings": (lambda: hostile.json_with('["]]]]]",' * 900), "(LOG_MAX_NESTING is 100)"),
    "values of JSON": (lambda: hostile.json_with("[" + "[]," * 21 * MB), "(LOG_MAX_MEMORY is 4,000,000,000)"),
    "digits": (lambda: hostile.json_with("1" * 5000), "is not valid"),
    "columns": (lambda: hostile.csv_of(more=",x" * 2000), "it has 2,005 columns (LOG_MAX_COLUMNS is 1,000)"),
    "endless line": (lambda: b"x" * 3 * MB, "longer than 1,000,000 characters"),
}


@pytest.mark.parametrize(("make", "sentence"), TEXTS.values(), ids=TEXTS)
def test_texts(tmp_path, make, sentence):
    assert sentence in refused(tmp_path, make())


YEARS = {
    "9999": ("9999-12-31T22:00:00", "9999-12-31T23:00:00"),
    "9999 with an offset": ("9999-12-31T22:00:00-14:00", "9999-12-31T23:59:59-14:00"),
    "1": ("0001-01-01T00:00:00", "0001-01-01T01:00:00"),
    "1 with an offset": ("0001-01-01T00:00:00+14:00", "0001-01-01T01:00:00+14:00"),
    "both": ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
}


@pytest.mark.parametrize("zone", ["", "Europe/Berlin", "Pacific/Apia"])
@pytest.mark.parametrize("times", YEARS.values(), ids=YEARS)
@pytest.mark.parametrize("skip", [False, True])
def test_the_ends_of_the_calendar(tmp_path, times, zone, skip):
    said = refused(tmp_path, hostile.csv_of(*times, *times), time_zone=zone, skip_bad_rows=skip)
    assert "years from 1000 to 9000 are read" in said or "more than a hundred years" in said or "no event" in said


def test_too_little_memory_is_a_sentence(tmp_path):
    """A real limit of a process, which is lower than the log's."""
    (tmp_path / "log").write_bytes(hostile.json_with("[" + "[]," * 5 * MB + "[]]"))
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from longstride.errors import UserError\n"
        "from longstride.process.event_logs.event_log import read_event_log\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000,) * 2)\n"
        "try: read_event_log(Path(sys.argv[1]))\n"
        "except UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "log"], capture_output=True, text=True)
    assert "needs more memory than this machine has free" in done.stdout, done.stderr


def test_a_device_is_no_log():
    from pathlib import Path

    for name in ("/dev/zero", "-"):
        with pytest.raises(
            UserError, match=f"^{name} is a device or a pipe, .* save the log as a file, and name that.$"
        ):
            read_event_log(Path(name))
