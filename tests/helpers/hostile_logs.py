"""Small event logs made to take much time or memory, or to break their reader; each function returns the bytes."""

import gzip
import io
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from helpers.log_forms import NAMES, csv_text, events, ocel_json, write_ocel_sqlite

ROWS = events()
ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
DOCTYPES = {
    "billion laughs": ENTITIES + "]>",
    "quadratic blow-up": f'<!DOCTYPE x [<!ENTITY a "{"A" * 100_000}">]>',
    "external entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
}
STRINGS = "xl/sharedStrings.xml"
MAIN = "application/vnd.openxmlformats-officedocument.spreadsheetml"
RECURSION = (
    "CREATE VIEW object AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
    "SELECT x AS ocel_id, 'case' AS ocel_type FROM c"
)


def workbook() -> bytes:
    """Return a good workbook, with a part for the strings of its sheets."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    for row in (NAMES, *ROWS):
        book.active.append(row)
    book.save(file)
    declared = f'<Override PartName="/{STRINGS}" ContentType="{MAIN}.sharedStrings+xml"/></Types>'
    strings = '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>Check</t></si></sst>'
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for part in [name for name in old.namelist() if name != STRINGS]:
            text = old.read(part).decode()
            new.writestr(part, text if STRINGS in text else text.replace("</Types>", declared))
        new.writestr(STRINGS, strings)
    return out.getvalue()


def with_part(name: str, change: Callable[[str], str]) -> bytes:
    """Return the workbook with another text in one of its parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            content = old.read(part)
            new.writestr(part, change(content.decode()) if part == name else content)
    return file.getvalue()


def with_sheet(pattern: str, text: str) -> bytes:
    """Return the workbook with a part of its sheet replaced."""
    return with_part("xl/worksheets/sheet1.xml", lambda sheet: re.sub(pattern, lambda _: text, sheet, count=1))


def with_cell(cell: str) -> bytes:
    """Return the workbook with another cell in its third row."""
    return with_sheet(r'<c r="B3".*?</c>', cell)


def with_doctype(part: str, kind: str) -> bytes:
    """Return the workbook with a document type in a part."""
    return with_part(part, lambda text: DOCTYPES[kind] + re.sub(r"<\?xml.*?\?>", "", text))


def with_headers(change: Callable[[bytearray, int], None]) -> bytes:
    """Return the workbook with its zip headers changed: of each the place of the flags is given."""
    content = bytearray(workbook())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            change(content, at + flags)
            at = content.find(mark, at + 4)
    return bytes(content)


def encrypted(content: bytearray, flags: int) -> None:
    """Mark a part as encrypted."""
    content[flags] |= 1


def packed_by(method: int) -> Callable[[bytearray, int], None]:
    """Return what marks a part as packed by a method."""

    def change(content: bytearray, flags: int) -> None:
        content[flags + 2] = method

    return change


def many_sheets(count: int, full: bool = False) -> bytes:
    """Return a workbook of many sheets; the first one may hold a good log."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    for row in (NAMES, *ROWS) if full else ():
        book.active.append(row)
    for _ in range(count - 1):
        book.create_sheet()
    book.save(file)
    return file.getvalue()


def many_strings(size: int) -> bytes:
    """Return the workbook with a string of so many blanks among the strings of its sheets."""
    return with_part(STRINGS, lambda text: text.replace("</sst>", f"<si><t>{' ' * size}</t></si></sst>"))


def database(*statements: str, without: str = "") -> bytes:
    """Return a good OCEL 2.0 database without one of its tables, after some statements."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.sqlite"
        write_ocel_sqlite(ROWS, path)
        with closing(sqlite3.connect(path)) as base, base:
            if without:
                base.execute(f"DROP TABLE {without}")
            for statement in statements:
                base.execute(statement)
        return path.read_bytes()


def parquet(**columns: object) -> bytes:
    """Return a good Parquet file with some columns replaced."""
    import pyarrow
    from pyarrow.parquet import write_table

    names = dict(zip(NAMES, (list(column) for column in zip(*ROWS, strict=True)), strict=True))
    file = io.BytesIO()
    write_table(pyarrow.table({**names, **columns}), file)
    return file.getvalue()


def repeated_text(length: int, rows: int) -> bytes:
    """Return a Parquet file of some kB in which each row names a resource of a very long name."""
    import pyarrow
    from pyarrow.parquet import write_table

    def one(value: object) -> object:
        column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), [value])
        return column.cast(column.type)

    start, end = ROWS[0][3].isoformat(), ROWS[0][4].isoformat()
    values = ("c", "a", "x" * length, start, end)
    file = io.BytesIO()
    table = pyarrow.table({name: one(value) for name, value in zip(NAMES, values, strict=True)})
    write_table(table, file, dictionary_pagesize_limit=1 << 24)
    return file.getvalue()


def blanks(begin: str, size: int) -> bytes:
    """Return gzip of a text that begins well and goes on with so many blanks."""
    return gzip.compress(begin.encode() + b" " * size, 9)


def lines(size: int) -> bytes:
    """Return gzip of a CSV that goes on with blank lines."""
    return gzip.compress(csv_text(ROWS).encode() + b"\n" * size, 9)


def xes(encoding: str = "UTF-8", inside: str = "") -> bytes:
    """Return a good XES file that declares an encoding."""
    traces = "".join(
        f'<trace><string key="concept:name" value="{case}"/><event><string key="concept:name" value="{activity}"/>'
        f'<string key="org:resource" value="{who}"/><date key="start_timestamp" value="{start.isoformat()}"/>'
        f'<date key="time:timestamp" value="{end.isoformat()}"/></event></trace>'
        for case, activity, who, start, end in ROWS
    )
    text = f'<?xml version="1.0" encoding="{encoding}"?><log>{inside}{traces}</log>'
    return text.encode("ascii", "xmlcharrefreplace")


def json_with(value: str) -> bytes:
    """Return a good OCEL 2.0 log with a further value."""
    return (ocel_json(ROWS)[:-1] + f', "more": {value}}}').encode()


def csv_of(*times: str, more: str = "") -> bytes:
    """Return a CSV of events with some starts and ends."""
    pairs = zip(times[::2], times[1::2], strict=True)
    rows = [f"c{i},Check,Ann,{start},{end}" for i, (start, end) in enumerate(pairs)]
    return (",".join(NAMES) + more + "\n" + "\n".join(rows) + "\n").encode()
