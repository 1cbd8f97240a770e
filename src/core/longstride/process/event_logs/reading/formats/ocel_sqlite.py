"""Object-centric event logs (OCEL 2.0) as SQLite databases: plain tables are read, and nothing in the file is run."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from longstride.errors import UserError, one_line
from longstride.escaping import sql_identifier
from longstride.process.event_logs.reading.formats.ocel import Event, Objects, flattened
from longstride.process.event_logs.reading.limits import LONGEST_TEXT, Guard
from longstride.process.event_logs.reading.table import BLOCK_ROWS, Table

_STEPS = 100_000
"""Steps of SQLite's machine between two checks of the clock: some milliseconds."""
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
"""Actions that a statement may take; functions and recursion are not among them."""


def ocel_sqlite_table(path: Path, guard: Guard, object_type: str) -> Table:
    """Return the flattened table of an OCEL 2.0 file as SQLite database; see :func:`..ocel.flattened`.

    Raises:
        UserError: the file is not OCEL 2.0, it is not clear which objects are cases, or a limit is exceeded.
    """
    guard.require_bytes(path.stat().st_size)
    _require_whole(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
            reader = _Reader(base, guard)
            types = {str(i): str(kind) for i, kind in reader.rows("object", "ocel_id", "ocel_type")}
            related: dict[Any, list[str]] = {}
            for event, thing in reader.rows("event_object", "ocel_event_id", "ocel_object_id"):
                related.setdefault(event, []).append(str(thing))
            events = list(_events(reader, related))
    except (sqlite3.Error, ValueError) as error:  # ValueError for names with a NUL
        guard.check()  # SQLite reports only that it was interrupted
        raise UserError(
            f"{guard.source} is an SQLite database, but no readable OCEL 2.0 log: {one_line(error)}."
        ) from None
    return flattened(Objects(events, types), guard, object_type)


def _require_whole(path: Path) -> None:
    """Refuse a database that has changes in another file.

    Raises:
        UserError: a program has the database open, or was killed.
    """
    for ending in ("-wal", "-journal"):
        more = path.with_name(path.name + ending)
        if more.exists() and more.stat().st_size:
            raise UserError(f"{path} has changes that are only in {more.name}; close the program that writes it.")


def _events(reader: "_Reader", related: dict[Any, list[str]]) -> Iterator[Event]:
    """Yield the events of all types; each type has its own table."""
    for activity, table in list(reader.rows("event_map_type", "ocel_type", "ocel_type_map")):
        names = reader.columns(f"event_{table}")
        for row in reader.rows(f"event_{table}", *names):
            values = dict(zip(names, row, strict=True))
            event, time = values.pop("ocel_id", None), values.pop("ocel_time", None)
            yield Event(str(activity), time, values, related.get(event, []))


class _Reader:
    """Reads plain tables of a database within limits."""

    def __init__(self, base: sqlite3.Connection, guard: Guard) -> None:
        """Forbid everything but reading, and interrupt statements that take too long."""
        self._base, self._guard = base, guard
        base.execute("PRAGMA trusted_schema = OFF")
        base.execute("PRAGMA cell_size_check = ON")
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        base.set_progress_handler(guard.is_late, _STEPS)
        base.set_authorizer(_authorize)

    def columns(self, table: str) -> list[str]:
        """Return the column names of a table, without computed columns.

        Raises:
            UserError: the table is a view or virtual.
        """
        self._require_plain(table)
        rows = self._base.execute(f"PRAGMA table_xinfo({sql_identifier(table)})").fetchall()
        self._guard.require_columns(len(rows))
        return [str(row[1]) for row in rows if row[6] == 0]

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of some columns of a table.

        Raises:
            UserError: the table is a view or virtual, or a limit is exceeded.
            sqlite3.Error: the table or a column does not exist, or the file is damaged.
        """
        known = self.columns(table)
        if computed := [name for name in columns if known and name not in known]:
            raise sqlite3.OperationalError(f"the table {table} has no plain column {computed[0]}")
        listed = ", ".join(sql_identifier(name) for name in columns) or "NULL"
        cursor = self._base.execute(f"SELECT {listed} FROM main.{sql_identifier(table)}")
        while some := cursor.fetchmany(BLOCK_ROWS):
            self._guard.check()
            self._guard.progress()
            yield from some

    def _require_plain(self, table: str) -> None:
        found = self._base.execute(
            "SELECT type, rootpage FROM sqlite_master WHERE name = ? COLLATE NOCASE", (table,)
        ).fetchall()
        if not all(kind == "table" and page for kind, page in found):
            raise UserError(
                f"{self._guard.source}: {table[:100]!r} is a view or a virtual table, and only plain tables are read; "
                "save its rows as a table."
            )


def _authorize(action: int, name: str | None, *_: object) -> int:
    """Allow reading and nothing else: no function, no recursion, no change."""
    allowed = action in _READING or (action == sqlite3.SQLITE_PRAGMA and name == "table_xinfo")
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
