"""Attributes of cases: further columns of a log, with one value for each case."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.choose_columns import choose_columns, listed
from longstride.process.event_logs.reading.collect import Coded, Rows, collect
from longstride.process.event_logs.reading.decode import kind_of, readable
from longstride.process.event_logs.reading.formats.xes_table import FIELDS
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.options import TRANSITION_WORDS, LogReading
from longstride.process.event_logs.reading.read_records import open_table


class Attribute(NamedTuple):
    """A column with a value for each case."""

    name: str  # of the column
    values: dict[str, str]  # case name -> value; "" for none
    is_constant: bool  # whether no case has two values


def read_attributes(path: Path, columns: Mapping[str, str], options: LogReading, wanted: str = "") -> list[Attribute]:
    """Return the attributes in the columns of a log that hold no field of an event, or the one of a named column.

    The first value of a case counts.

    Args:
        path: file of the log; attributes of traces of XES are named like ``case:segment``.
        columns: column names that the user gave, by field.
        options: the user's options for the log.
        wanted: name of a column, whatever its case, for XES also without ``case:``; "" for all.

    Raises:
        UserError: the file cannot be read, or has no such column.
    """
    source = str(path)
    columns = _without_words(columns)
    with readable(path):
        guard = Guard(options.limits, source)
        is_xes = kind_of(path, guard) == "xes"
        with open_table(path, columns, options, guard, with_attributes=True) as table:
            chosen = FIELDS if is_xes else choose_columns(table.names, columns, source)
            names = [n for n in table.names if n not in chosen.values()]
            if wanted:
                names = [_column(table.names, wanted, is_xes, f"{source} has no column {wanted!r} for CLASSES")]
            fields = {f"attribute {i}": name for i, name in enumerate(names)}
            rows = collect(table, {"case": chosen["case"], **fields}, guard)
    return [_attribute(name, rows.texts["case"], rows.texts[field]) for field, name in fields.items()]


def read_rows_with(
    path: Path, columns: Mapping[str, str], options: LogReading, wanted: str, setting: str, fields: Sequence[str]
) -> tuple[Rows, str]:
    """Return the rows of a log with some fields of an event and the field ``wanted``, and the unit of their numbers.

    Args:
        path: file of the log; attributes of traces of XES are named like ``case:promised``.
        columns: column names that the user gave, by field.
        options: the user's options for the log.
        wanted: name of the column, as in :func:`read_attributes`.
        setting: setting that names it, for messages.
        fields: fields of an event; those that the log does not have are left out.

    Raises:
        UserError: the file cannot be read, or has no such column.
    """
    source, columns = str(path), _without_words(columns)
    with readable(path):
        guard = Guard(options.limits, source)
        is_xes = kind_of(path, guard) == "xes"
        with open_table(path, columns, options, guard, with_attributes=True) as table:
            chosen = FIELDS if is_xes else choose_columns(table.names, columns, source)
            name = _column(table.names, wanted, is_xes, f"{source} has no column {wanted!r} for {setting}")
            known = {field: chosen[field] for field in fields if field in chosen}
            return collect(table, {**known, "wanted": name}, guard), table.unit


def _without_words(columns: Mapping[str, str]) -> dict[str, str]:
    """Return columns without the words of transitions."""
    return {field: column for field, column in columns.items() if field not in TRANSITION_WORDS}


def _column(names: Sequence[str], wanted: str, is_xes: bool, fault: str) -> str:
    """Return the name of a column, whatever its case, for XES also without ``case:``.

    Raises:
        UserError: there is none; the sentence begins with ``fault``.
    """
    folded = {n.lower(): n for n in reversed(names)}
    if is_xes and f"case:{wanted}".lower() in folded:
        wanted = f"case:{wanted}"
    if wanted.lower() not in folded:
        known = [n for n in names if not is_xes or n not in FIELDS.values()]
        raise UserError(f"{fault}{suggestion(wanted, known, f'it has {listed(list(names))}')}")
    return wanted if wanted in names else folded[wanted.lower()]


def _attribute(name: str, case: Coded, column: Coded) -> Attribute:
    """Return the attribute in a column."""
    known = np.array([bool(value.strip()) for value in column.values] or [False])[column.code]
    cases, first = np.unique(case.code[known], return_index=True)
    codes = column.code[known]
    chosen = np.full(len(case.values), -1, np.int64)
    chosen[cases] = codes[first]
    is_constant = bool((codes == chosen[case.code[known]]).all())
    values = {case.values[c]: column.values[chosen[c]].strip() for c in cases.tolist()}
    return Attribute(name, values, is_constant)
