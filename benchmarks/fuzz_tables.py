"""Event logs that are not text, and text in odd encodings: small valid ones, and changes of them, for ``fuzz.py``."""

import gzip
import io
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from encodings.aliases import aliases
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.fuzz_inputs import LOG, ODD, change_bytes, mutate, ocel, xes

CELLS = [
    "",
    "-1",
    "1e999",
    "NaN",
    "9" * 400,
    "2958466",
    "1048577",
    "99999999999",
    "x",
    "A1",
    "XFD1048576",
    "1B",
    "true",
]
CODECS = sorted({*aliases.values(), *aliases, "x-evil", "utf-7", "hex", "idna", "UTF-16", "UTF-32", "EBCDIC-CP-US"})
STATEMENTS = (
    "UPDATE {table} SET {column} = {value} WHERE rowid % 3 = 0",
    "DELETE FROM {table} WHERE rowid % 5 = 0",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} RENAME TO other",
    "DROP TABLE {table}",
    "CREATE VIEW more AS SELECT * FROM {table}",
    "ALTER TABLE {table} ADD COLUMN wide GENERATED ALWAYS AS (hex(zeroblob(10000000)))",
    "INSERT INTO {table} SELECT * FROM {table}",
    "CREATE INDEX i ON {table} ({column})",
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
)
VALUES = (
    "NULL",
    "''",
    "1e308",
    "-9223372036854775808",
    "x'ff00ff'",
    "'0001-01-01'",
    "hex(zeroblob(600000))",
    "char(0)",
)
TABLES = ("object", "event_object", "event_map_type", "event_open", "event_close")
COLUMNS = ("ocel_id", "ocel_type", "ocel_event_id", "ocel_object_id", "ocel_type_map", "ocel_time", "start_timestamp")


def rows() -> list[list[str]]:
    """Return the lines of the small CSV as cells."""
    return [line.split(",") for line in LOG.splitlines()]


@cache
def workbook() -> bytes:
    """Return a small workbook of the parts that matter, not packed, so that bytes of them can be changed."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    for row in rows()[:9]:
        book.active.append(row)
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        return zipped({name: archive.read(name) for name in archive.namelist() if "theme" not in name})


def zipped(parts: dict[str, bytes]) -> bytes:
    """Return an archive of some parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def change_workbook(random: Random, content: bytes) -> bytes:
    """Change attributes, texts or bytes of one part, or bytes of the archive."""
    if random.random() < 0.2:
        return change_bytes(random, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml" if random.random() < 0.6 else random.choice(list(parts))
    for _ in range(random.randint(1, 4)):
        parts[name] = change_xml(random, parts[name])
    if random.random() < 0.05:
        del parts[random.choice(list(parts))]
    return zipped(parts)


def change_xml(random: Random, content: bytes) -> bytes:
    """Change an attribute or a text of XML, take an element out or twice, or change bytes."""
    what = random.randint(0, 3)
    pattern = (rb'(?<==")[^"]*(?=")', rb"(?<=>)[^<]+(?=<)", rb"<(\w+)[^<>]*>[^<]*</\1>")[min(what, 2)]
    found = [match.span() for match in re.finditer(pattern, content)]
    if not found or what == 3:
        return change_bytes(random, content)
    begin, end = random.choice(found)
    new = content[begin:end] * random.choice([0, 2, 20]) if what == 2 else random.choice(CELLS).encode()
    return content[:begin] + new + content[end:]


@cache
def parquet() -> bytes:
    """Return a small Parquet file."""
    return parquet_of([list(column) for column in zip(*rows()[1:], strict=True)])


def parquet_of(columns: list, packing: str = "none") -> bytes:
    """Return a Parquet file of some columns."""
    import pyarrow
    from pyarrow.parquet import write_table

    file = io.BytesIO()
    write_table(pyarrow.table(dict(zip(rows()[0], columns, strict=True))), file, compression=packing)
    return file.getvalue()


def change_parquet(random: Random, content: bytes) -> bytes:
    """Change bytes, most often a few, or write columns of other types."""
    if random.random() < 0.2:
        return odd_parquet(random)
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        # The facts about the columns are at the end.
        at = random.randrange(len(changed) // 2 if random.random() < 0.5 else 0, len(changed))
        changed[at] ^= 1 << random.randrange(8)
    return change_bytes(random, bytes(changed)) if random.random() < 0.2 else bytes(changed)


def odd_parquet(random: Random) -> bytes:
    """Return a Parquet file with a column of another type and odd values."""
    import pyarrow

    columns: list = [list(column) for column in zip(*rows()[1:], strict=True)]
    kinds = [pyarrow.date32(), pyarrow.date64(), pyarrow.time64("ns"), pyarrow.duration("ns"), pyarrow.float16()]
    kinds += [pyarrow.timestamp(unit, zone) for unit in ("s", "ms", "ns") for zone in (None, "UTC", "Asia/Kolkata")]
    kinds += [pyarrow.binary(), pyarrow.binary(8), pyarrow.decimal128(38, 5), pyarrow.list_(pyarrow.int8())]
    kind, number = random.choice(kinds), random.choice([0, -1, 10**9, 2**31 - 1, -(2**31), 2**62])
    values = pyarrow.array([number, None] * (len(columns[0]) // 2), pyarrow.int64())
    # Not every number is one of every type.
    with suppress(pyarrow.ArrowException, ValueError, OverflowError):
        narrow = values.cast(pyarrow.int32()) if kind.id == pyarrow.date32().id else values
        columns[random.randrange(len(columns))] = narrow.cast(kind)
    with suppress(pyarrow.ArrowException, ValueError):
        return parquet_of(columns, random.choice(["none", "snappy", "zstd", "gzip"]))
    return parquet()


@cache
def database() -> bytes:
    """Return a small object-centric log as SQLite database."""
    return in_sqlite(None, _fill)


def _fill(base: sqlite3.Connection) -> None:
    base.execute("CREATE TABLE object (ocel_id TEXT, ocel_type TEXT)")
    base.execute("CREATE TABLE event_object (ocel_event_id TEXT, ocel_object_id TEXT)")
    base.execute("CREATE TABLE event_map_type (ocel_type TEXT, ocel_type_map TEXT)")
    base.executemany("INSERT INTO event_map_type VALUES (?, ?)", [("open", "open"), ("close", "close")])
    for name in ("open", "close"):
        base.execute(f"CREATE TABLE event_{name} (ocel_id TEXT, ocel_time TEXT, start_timestamp TEXT)")
    for number, (case, task, who, start, end) in enumerate(rows()[1:]):
        base.execute(f"INSERT INTO event_{task} VALUES (?, ?, ?)", (f"e{number}", end, start))
        base.executemany("INSERT INTO event_object VALUES (?, ?)", [(f"e{number}", case), (f"e{number}", who)])
    things = {row[0]: "orders" for row in rows()[1:]} | {row[2]: "employees" for row in rows()[1:]}
    base.executemany("INSERT INTO object VALUES (?, ?)", things.items())


def in_sqlite(content: bytes | None, change: Callable[[sqlite3.Connection], None]) -> bytes:
    """Return a database after a change, made in a temporary file of pages of 512 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        if content is not None:
            path.write_bytes(content)
        with closing(sqlite3.connect(path)) as base, base:
            base.execute("PRAGMA page_size = 512")
            base.execute("PRAGMA synchronous = OFF")
            change(base)
        return path.read_bytes()


def change_database(random: Random, content: bytes) -> bytes:
    """Run a statement, or change bytes."""
    if random.random() < 0.8:
        return change_bytes(random, content)

    def change(base: sqlite3.Connection) -> None:
        for _ in range(random.randint(1, 3)):
            names = {"table": random.choice(TABLES), "column": random.choice(COLUMNS), "value": random.choice(VALUES)}
            with suppress(sqlite3.Error):
                base.execute(random.choice(STATEMENTS).format(**names))

    return in_sqlite(content, change)


def change_encoding(random: Random, content: bytes) -> bytes:
    """Declare an encoding, and write in it or not; sometimes change attributes as well."""
    codec = random.choice(CODECS)
    text = content.decode().replace('"1.0"?', f'"1.0" encoding="{codec}"?', 1)
    if random.random() < 0.1:
        text = text.replace("<log", "<ocel", 1).replace("</log>", "</ocel>")
    written = text.encode()
    if random.random() < 0.5:
        with suppress(LookupError, ValueError, TypeError):
            written = text.encode(codec)
    return change_xml(random, written) if random.random() < 0.5 else written


def pack(content: bytes) -> bytes:
    """Return a text in gzip."""
    return gzip.compress(content, 1, mtime=0)


def change_packed(random: Random, content: bytes) -> bytes:
    """Pack a changed log of any format; sometimes change the packed bytes."""
    valid, change = random.choice(list(PACKED.values()))
    packed = pack(change(random, valid()))
    return change_bytes(random, packed) if random.random() < 0.3 else packed


def ocel_xml() -> bytes:
    """Return an object-centric log as XML, which is refused."""
    return xes().replace(b"<log", b"<ocel").replace(b"</log>", b"</ocel>")


def change_times(random: Random, content: bytes) -> bytes:
    """Put odd times or values in place of some cells of a CSV."""
    times = [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9" * 19,
        "1e9",
        "01/02/0003",
        "31.12.9999 24:00",
    ]
    lines = [line.split(b",") for line in content.split(b"\n")]
    for _ in range(random.randint(1, 6)):
        cells = random.choice(lines)
        cells[random.randrange(len(cells))] = random.choice([*times, *map(str, ODD)]).encode()
    return b"\n".join(b",".join(cells) for cells in lines)


KINDS: dict[str, tuple[Callable[[], bytes], Callable[[Random, bytes], bytes]]] = {
    "xlsx": (workbook, change_workbook),
    "parquet": (parquet, change_parquet),
    "sqlite": (database, change_database),
    "encodings": (xes, change_encoding),
    "times": (LOG.encode, change_times),
    "gzip": (lambda: pack(LOG.encode()), change_packed),
}
"""Valid input of each kind, and what changes it."""

PACKED = {
    "csv": (LOG.encode, mutate),
    "xes": (xes, change_xml),
    "ocel": (ocel, mutate),
    "ocel_xml": (ocel_xml, change_xml),
    **{kind: KINDS[kind] for kind in ("xlsx", "parquet", "sqlite", "encodings")},
}
"""What gzip holds."""
