"""Attributes of cases: further columns of a log, with one value for each case."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.choose_columns import choose_columns, listed
from longstride.process.event_logs.reading.collect import Coded, collect
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
    columns = {field: column for field, column in columns.items() if field not in TRANSITION_WORDS}
    with readable(path):
        guard = Guard(options.limits, source)
        is_xes = kind_of(path, guard) == "xes"
        with open_table(path, columns, options, guard, with_attributes=True) as table:
            chosen = FIELDS if is_xes else choose_columns(table.names, columns, source)
            names = [n for n in table.names if n not in chosen.values()]
            if wanted:
                folded = {n.lower(): n for n in reversed(table.names)}
                if is_xes and f"case:{wanted}".lower() in folded:
                    wanted = f"case:{wanted}"
                if wanted.lower() not in folded:
                    ending = suggestion(wanted, names, f"it has {listed(table.names)}")
                    raise UserError(f"{source} has no column {wanted!r} for CLASSES{ending}")
                names = [wanted if wanted in table.names else folded[wanted.lower()]]
            fields = {f"attribute {i}": name for i, name in enumerate(names)}
            rows = collect(table, {"case": chosen["case"], **fields}, guard)
    return [_attribute(name, rows.texts["case"], rows.texts[field]) for field, name in fields.items()]


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
