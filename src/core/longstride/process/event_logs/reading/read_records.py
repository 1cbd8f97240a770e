"""Turns a file into checked records, in order: kind, table, columns, times, bad rows, pairs of rows, duplicates."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.event_order import in_order
from longstride.process.event_logs.reading.bad_rows import (
    ANOTHER_CENTURY,
    find_bad_rows,
    of_another_century,
    require_good_rows,
    seconds,
    sentence,
)
from longstride.process.event_logs.reading.bad_rows import OPTION as SKIP_OPTION
from longstride.process.event_logs.reading.choose_columns import choose_columns, listed, notes_on_status
from longstride.process.event_logs.reading.collect import Rows, collect
from longstride.process.event_logs.reading.decode import is_packed, kind_of, open_archive, open_log, readable
from longstride.process.event_logs.reading.duplicates import first_of_equals
from longstride.process.event_logs.reading.formats import xes_table as xes
from longstride.process.event_logs.reading.formats.csv_table import csv_table
from longstride.process.event_logs.reading.formats.excel_table import excel_table
from longstride.process.event_logs.reading.formats.ocel_json import ocel_json_table
from longstride.process.event_logs.reading.formats.ocel_sqlite import ocel_sqlite_table
from longstride.process.event_logs.reading.formats.parquet_table import parquet_table
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.options import TRANSITION_WORDS, LogReading
from longstride.process.event_logs.reading.records import Records, make_records, with_estimates
from longstride.process.event_logs.reading.table import BadRow, Table
from longstride.process.event_logs.reading.times import dates
from longstride.process.event_logs.reading.times.parse_times import TimeReader, Times
from longstride.process.event_logs.reading.times.time_zones import OPTION as ZONE_OPTION
from longstride.process.event_logs.reading.times.time_zones import find_zone, in_zone
from longstride.process.event_logs.reading.words.nothing import notes_on_nothing
from longstride.process.event_logs.reading.words.transitions import Transitions, understand
from longstride.process.event_logs.spread_dates import spread_dates
from longstride.text import agreeing

_ARCHIVES = ("excel", "parquet")
"""Kinds of files that need random access."""


class Reading(NamedTuple):
    """Records, and the decisions made while reading."""

    records: Records
    starts_estimated: bool
    refused: list[BadRow]  # with ``--skip-bad-rows``
    unit: str  # unit that row numbers count
    notes: list[str]
    only_dates: bool  # whether the log has no hours, so that those of the records are a convention


class ReadRows(NamedTuple):
    """The rows of a log with their times."""

    table: Table
    rows: Rows
    times: dict[str, Times]  # of the rows by field, in one zone
    describe: Callable[[str], str]  # returns the reason why a text is not a time
    notes: list[str]
    transitions: Transitions | None  # if the log has some
    only_dates: bool  # whether the hours of the completions are unknown
    dated_starts: dates.DatedStarts | None  # if the hours of many starts are unknown


def read_records(path: Path, columns: Mapping[str, str], options: LogReading) -> Reading:
    """Read a log of any kind.

    Args:
        path: file.
        columns: column names that the user gave, by field.
        options: the user's options for the log.

    Raises:
        UserError: the file cannot be read, a column is missing, or a bad row must not be skipped.
    """
    source, read = str(path), read_rows(path, columns, options)
    table, rows, times, notes = read.table, read.rows, read.times, read.notes
    if read.transitions:
        whole = times["start"].known if "start" in times else np.zeros(0, np.bool_)
        read.transitions.require_completions(source, whole)
    bad = find_bad_rows(rows, times, read.describe, options.skip_bad_rows)
    if not options.skip_bad_rows:
        require_good_rows(bad, source, table.unit, len(rows.bad))
    records, estimated, more = make_records(rows, times, ~bad.mask, table.names, read.only_dates)
    records, late = _of_one_century(records, options.skip_bad_rows)
    records, equals = _without_equals(records, table.unit, options.keep_duplicates)
    refused = sorted([*bad.rows, *late], key=lambda row: row.number)
    if read.dated_starts:
        records, more = with_estimates(records, *read.dated_starts, more)
    notes = [*table.notes, *on_refused(refused, len(rows.numbers) + len(rows.bad), table.unit), *notes, *more, *equals]
    records = in_order(records, read.only_dates)
    if read.only_dates:
        records = spread_dates(records)
    return Reading(records, estimated, refused, table.unit, notes, read.only_dates)


def read_rows(path: Path, columns: Mapping[str, str], options: LogReading) -> ReadRows:
    """Read all rows of a log of any kind; arguments and errors are those of :func:`read_records`."""
    reader, source = TimeReader(options.time_format), str(path)
    words = {field: columns[field] for field in TRANSITION_WORDS if field in columns}
    columns = {field: column for field, column in columns.items() if field not in words}
    with readable(path):
        guard = Guard(options.limits, source)
        kind = kind_of(path, guard)
        with open_table(path, columns, options, guard) as table:
            chosen = xes.FIELDS if kind == "xes" else choose_columns(table.names, columns, source)
            rows = collect(table, chosen, guard)
        status = notes_on_status(chosen["activity"], rows.texts["activity"].values, columns, source)
        times, notes = reader.read(rows, source, table.unit)
        notes, transitions = [*status, *notes, *notes_on_nothing(rows)], None
        if "transition" in rows.texts:
            transitions = understand(chosen["transition"], rows.texts["transition"], words, source)
            rows.texts["transition"] = transitions.column
            notes += [] if "start" in times and times["start"].known.any() else transitions.notes()
        elif words:
            raise UserError(f"{source} has no column of transitions for {listed([*words])}; name it: transition=...")
        column, note = transitions.column if transitions else None, ""
        if dates.ends_are_dates(times, column, any_hour=False):
            times, note = dates.as_dates(times), dates.note_on_dates(times, column)
        times = _in_one_zone(times, rows, source, table.unit, options.time_zone)
    return _with_dates(ReadRows(table, rows, times, reader.describe, notes, transitions, False, None), note)


@contextmanager
def open_table(
    path: Path, columns: Mapping[str, str], options: LogReading, guard: Guard, with_attributes: bool = False
) -> Iterator[Table]:
    """Open a log of any kind as a table; arguments and errors are those of :func:`read_records`.

    Columns of further attributes are in the table of XES only ``with_attributes``: their names take another pass.
    """
    kind, more = kind_of(path, guard), list[str]()
    if kind == "xes" and with_attributes:
        with open_log(path, guard) as file:
            more = xes.xes_attributes(file, guard)
    with open_archive(path, guard) if kind in _ARCHIVES else open_log(path, guard) as file:
        table = xes.xes_table(file, guard, more) if more else _table(kind, file, path, columns, options, guard)
        guard.require_columns(len(table.names))
        yield table


def _with_dates(read: ReadRows, note: str) -> ReadRows:
    """Return rows with a decision about times without hours, and sentences about them; ``note`` if one is known."""
    times, column = read.times, read.transitions.column if read.transitions else None
    if dates.ends_are_dates(times, column, any_hour=True):
        note = note or dates.note_on_dates(times, column)
        return read._replace(times=dates.in_days(times), notes=[*read.notes, note], only_dates=True)
    notes = [*read.notes, *dates.notes_on_midnights(times, column)]
    return read._replace(notes=notes, dated_starts=dates.dated_starts(times, column))


def _table(
    kind: str, file: IO[bytes], path: Path, columns: Mapping[str, str], options: LogReading, guard: Guard
) -> Table:
    """Return the table of a file of some kind."""
    if kind == "xes":
        return xes.xes_table(file, guard)
    if kind == "excel":
        return excel_table(file, guard, columns)
    if kind == "parquet":
        return parquet_table(file, guard)
    if kind == "json":
        return ocel_json_table(path, guard, options.object_type)
    if kind == "sqlite":
        if is_packed(path):
            raise UserError(f"{path} is a packed SQLite database; unpack it with gunzip.")
        return ocel_sqlite_table(path, guard, options.object_type)
    return csv_table(file, guard, columns)


def _in_one_zone(times: dict[str, Times], rows: Rows, source: str, unit: str, zone: str) -> dict[str, Times]:
    """Return times that either all have a UTC offset or all have none.

    Raises:
        UserError: only some have an offset, and the user named no zone.
    """
    if zone:
        found = find_zone(zone)
        named = {field: in_zone(column, found) for field, column in times.items()}
        if "start" in times:
            # The clock repeats an hour in autumn. An end in it is in the second pass if it would be before its start.
            late = in_zone(times["end"], found, later=True)
            wrong = seconds(named["end"]) < seconds(named["start"])
            both = zip(late, named["end"], strict=True)
            named["end"] = Times(*(np.where(wrong, second, first) for second, first in both))
        return named
    first = {}
    for has in (True, False):
        at = [np.flatnonzero(c.known & (c.has_offset == has))[:1] for c in times.values()]
        first[has] = min(np.concatenate(at).tolist(), default=None)
    if first[True] is not None and first[False] is not None:
        raise UserError(
            f"{source} mixes times with and without offset: {unit} {rows.numbers[first[True]]} has one, "
            f"{unit} {rows.numbers[first[False]]} has none; give all times a UTC offset or none, or name the zone of "
            f"those without by {ZONE_OPTION}."
        )
    return times


def _of_one_century(records: Records, skip: bool) -> tuple[Records, list[BadRow]]:
    """Return the events of the log's century if bad rows are to be skipped, and the other events as bad rows."""
    wrong = of_another_century(records.start, records.end)
    if not skip or not wrong.any():
        return records, []
    refused = [
        BadRow(int(records.number[i]), ANOTHER_CENTURY, _cells(records, i)) for i in np.flatnonzero(wrong).tolist()
    ]
    return records.taken(np.flatnonzero(~wrong)), refused


def _cells(records: Records, i: int) -> tuple[str, ...]:
    who = records.resource.code[i]
    named = [column.values[column.code[i]] for column in (records.case, records.activity)]
    return (*named, records.resource.values[who] if who >= 0 else "")


def _without_equals(records: Records, unit: str, keep: bool) -> tuple[Records, list[str]]:
    """Return the events without duplicates, and a note about these."""
    texts = [column.code for column in (records.case, records.activity, records.resource)]
    first = first_of_equals([*texts, records.instance, records.start, records.end])
    again = np.flatnonzero(first != np.arange(len(first)))
    if not len(again):
        return records, []
    one, other = records.number[again[0]], records.number[first[again[0]]]
    treated = "count because of --keep-duplicates" if keep else "are left out (--keep-duplicates keeps them)"
    some = agreeing(len(again), len(first), "event", "is a duplicate", "are duplicates")
    note = (
        f"{some}, equal to another one in case, activity, resource and times ({unit} {one} repeats {unit} "
        f"{other}); duplicates {treated}."
    )
    return (records if keep else records.taken(np.flatnonzero(first == np.arange(len(first))))), [note]


def on_refused(refused: list[BadRow], count: int, unit: str) -> list[str]:
    """Return a note about the rows that are left out, if any."""
    if not refused:
        return []
    share = f"{agreeing(len(refused), count, 'row', 'is', 'are')} bad and left out ({SKIP_OPTION})"
    return [f"{share}; the first: {sentence(refused[0], unit)}."]
