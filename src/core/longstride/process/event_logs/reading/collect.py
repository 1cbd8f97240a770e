"""Rows of a table as compact columns: names as numbers, times as bytes. A log of millions of rows fits into memory."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.reading.decode import mended
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.options import FIELDS
from longstride.process.event_logs.reading.table import BadRow, Table

TIME_FIELDS = ("start", "end")

_LONGEST_TIME = 96
"""Bytes kept of a time; every format is shorter."""


_Numbers = defaultdict[str, int]
"""Number of each text; a new one gets the next number."""


class Coded(NamedTuple):
    """A column of n texts with few distinct values."""

    values: list[str]  # distinct texts
    code: np.ndarray  # int32[n], index of each row's text

    def alphabetical(self) -> np.ndarray:
        """Return int64[n], the place of each text among the sorted ones, for any order of rows; -1 for none."""
        place = np.full(len(self.values) + 1, -1, np.int64)
        place[sorted(range(len(self.values)), key=self.values.__getitem__)] = np.arange(len(self.values))
        return np.asarray(place[self.code])


class Rows(NamedTuple):
    """The n rows of a log that are not malformed."""

    numbers: np.ndarray  # int64[n], number of each row
    texts: dict[str, Coded]  # column of each field but times
    times: dict[str, list[np.ndarray]]  # column of each time, as blocks of bytes
    bad: list[BadRow]  # malformed rows

    def time_text(self, field: str, row: int) -> str:
        """Return a time as text from the file."""
        for block in self.times[field]:
            if row < len(block):
                return mended(block[row].decode("utf-8", "surrogateescape"))
            row -= len(block)
        raise IndexError(row)

    def cells(self, row: int) -> tuple[str, ...]:
        """Return the fields of a row as text from the file."""
        return tuple(
            self.time_text(field, row) if field in self.times else self.texts[field].values[self.texts[field].code[row]]
            for field in FIELDS
            if field in self.times or field in self.texts
        )


def collect(table: Table, columns: dict[str, str], guard: Guard) -> Rows:
    """Read all rows of a table; ``columns`` maps fields to columns.

    Raises:
        UserError: the table is over a limit.
    """
    fields = list(columns)
    numbers: list[np.ndarray] = [np.empty(0, np.int64)]
    seen = {field: _Numbers(count().__next__) for field in fields if field not in TIME_FIELDS}
    parts: dict[str, list[np.ndarray]] = {field: [] for field in fields}
    bad: list[BadRow] = []
    for block in table.blocks([table.names.index(columns[field]) for field in fields]):
        guard.count_rows(len(block.numbers) + len(block.bad))
        bad += block.bad
        if not len(block.numbers):
            continue
        numbers.append(np.asarray(block.numbers, np.int64))
        for field, cells in zip(fields, block.columns, strict=True):
            parts[field].append(_as_bytes(cells) if field in TIME_FIELDS else _as_numbers(cells, seen[field]))
    texts = {field: _coded(seen[field], parts[field]) for field in seen}
    return Rows(np.concatenate(numbers), texts, {f: parts[f] for f in fields if f in TIME_FIELDS}, bad)


def _as_numbers(cells: Sequence[str], seen: _Numbers) -> np.ndarray:
    """Return int32[n], the number of each text; new texts are added to ``seen``."""
    return np.fromiter(map(seen.__getitem__, cells), np.int32, len(cells))


def _as_bytes(cells: Sequence[str]) -> np.ndarray:
    """Return texts as bytes of equal width."""
    width = max(1, min(_LONGEST_TIME, max(map(len, cells))))
    try:
        return np.array(cells, f"S{width}")
    except UnicodeEncodeError:
        return np.array([cell.encode("utf-8", "surrogateescape") for cell in cells], f"S{_LONGEST_TIME}")


def _coded(seen: _Numbers, parts: list[np.ndarray]) -> Coded:
    """Return a column with repaired texts; two encodings of a letter become the same."""
    index = np.concatenate([np.empty(0, np.int32), *parts])
    values = [mended(text) for text in seen]
    if values == list(seen):
        return Coded(values, index)
    merged: dict[str, int] = {}
    number = np.array([merged.setdefault(text, len(merged)) for text in values], np.int32)
    return Coded(list(merged), number[index])
