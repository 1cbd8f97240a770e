"""Event logs as CSV: separator, columns by name, one event a row."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import IO

from core.errors import UserError, suggestion

RawEvent = tuple[int, str, str, str, str, str]
"""Line or number of an event, case, activity, resource ("" for none), start and end as the file has them."""

FIELDS = ("case", "activity", "resource", "start", "end")

_NAMES = {
    "case": ("case_id", "case_concept_name", "case", "caseid", "case_number", "trace_id", "trace"),
    "activity": ("activity", "concept_name", "activity_name", "activity_id", "task"),
    "resource": ("resource", "org_resource", "resource_id", "resource_name", "user", "employee", "worker"),
    "start": ("start_time", "start_timestamp", "time_start_timestamp", "start", "starttime", "start_date"),
    "end": (
        *("end_time", "time_timestamp", "end_timestamp", "end", "endtime", "end_date"),
        *("complete_time", "complete_timestamp", "completion_time", "timestamp"),
    ),
}
"""Recognised column names as :func:`_plain` writes them; the first one that is present counts."""

_SEPARATORS = (",", ";", "\t")
_OPTION = "--log-columns"
_LONGEST_LINE = 1_000_000


def parse_log_columns(text: str) -> dict[str, str]:
    """Return the column of each field in the value of ``--log-columns``, like ``case=Claim,activity=Step,start=Begin``.

    Raises:
        UserError: a part is not ``field=column``, or names an unknown field or a field for the second time.
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not column:
            raise UserError(
                f"{_OPTION}: expected parts like case=Claim with commas between them, not {part.strip()!r}."
            )
        if name not in FIELDS:
            ending = suggestion(name.lower(), FIELDS, f"there are {', '.join(FIELDS)}")
            raise UserError(f"{_OPTION}: unknown field {name!r}{ending}")
        if name in columns:
            raise UserError(f"{_OPTION}: {name} is given twice.")
        columns[name] = column
    return columns


def read_csv(file: IO[bytes], source: str, columns: Mapping[str, str]) -> Iterator[RawEvent]:
    """Yield the events of a CSV file with a header line; the separator is a comma, semicolon or tab.

    ``file`` is unpacked, UTF-8 with or without a byte-order mark; ``source`` is its name for messages. ``columns``
    replace recognised column names, by field.

    Raises:
        UserError: a column is missing or appears twice, or a row is malformed.
    """
    lines = _lines(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), source)
    line = 1
    try:
        separator, names = _read_header(next(lines, ""), columns)
        wanted = _find_columns(names, columns, source)
        indices = [names.index(wanted[name]) for name in FIELDS]
        reader = csv.reader(lines, delimiter=separator, strict=True)
        line = 2
        for row in reader:
            if row and len(row) != len(names):
                raise UserError(f"{source}: line {line} has {len(row)} fields where the header has {len(names)}.")
            if row:
                case, activity, resource, start, end = [row[i].strip() for i in indices]
                yield line, case, activity, resource, start, end
            # The reader counts from after the header; for a quoted field of several lines the first one is named.
            line = reader.line_num + 2
    except csv.Error as error:
        raise UserError(f"{source}: line {line} is not valid CSV: {error}.") from None


def _lines(text: io.TextIOWrapper, source: str) -> Iterator[str]:
    """Yield the lines; an endless one is refused before it fills the memory."""
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise UserError(
                f"{source}: line {number} is longer than {_LONGEST_LINE:,} characters; this is no event log."
            )
        yield line


def _read_header(header: str, columns: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the separator under which most columns are recognised, and the column names."""
    known = {name for names in _NAMES.values() for name in names}
    splits = {s: [n.strip() for n in next(csv.reader([header], delimiter=s), [])] for s in _SEPARATORS}

    def recognised(separator: str) -> tuple[int, int]:
        names = splits[separator]
        return sum(name in columns.values() or _plain(name) in known for name in names), len(names)

    best = max(_SEPARATORS, key=recognised)
    return best, splits[best]


def _find_columns(names: list[str], columns: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the column of each field."""
    twice = next((n for n in names if n and names.count(n) > 1), None)
    if twice is not None:
        raise UserError(f"{source}: two columns are called {twice!r}; rename one of them.")
    chosen: dict[str, str] = {}
    for name in FIELDS:
        taken = {*columns.values(), *chosen.values()}
        plain = {_plain(n): n for n in reversed(names) if n not in taken}
        if name in columns:
            chosen[name] = _given_column(name, columns[name], names, source)
        elif column := next((plain[n] for n in _NAMES[name] if n in plain), None):
            chosen[name] = column
    _need_all(chosen, names, source)
    return chosen


def _given_column(name: str, column: str, names: list[str], source: str) -> str:
    """Return the column that the user named, in upper or lower case."""
    folded = {n.lower(): n for n in reversed(names)}
    if column in names or column.lower() in folded:
        return column if column in names else folded[column.lower()]
    ending = suggestion(column, names, f"it has {_listed(names)}")
    raise UserError(f"{source} has no column {column!r} for {_OPTION} {name}=...{ending}")


def _need_all(chosen: dict[str, str], names: list[str], source: str) -> None:
    missing = [name for name in FIELDS if name not in chosen]
    if missing == ["start"]:
        raise UserError(
            f"{source} has no start times (columns: {_listed(names)}): without start and end of each event its service "
            f"times cannot be known. If a column holds them, name it with {_OPTION} start=...; otherwise export the "
            "log with start times."
        )
    if missing:
        example = ",".join(f"{name}=..." for name in missing)
        raise UserError(
            f"{source}: no column is recognised for {', '.join(missing)} (columns: {_listed(names)}); "
            f"name them with {_OPTION} {example}"
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20])
    return shown[:300] + (" and more" if len(names) > 20 or len(shown) > 300 else "")


def _plain(name: str) -> str:
    """Return a column name without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_")
