"""A log as a table of text in blocks of rows: the common form of all formats."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

BLOCK_ROWS = 1_000
"""Rows of a block: few, because Python's garbage collector scans all lists in memory repeatedly."""


class BadRow(NamedTuple):
    """A row that cannot be an event."""

    number: int  # number of the row, counted in ``Table.unit``
    reason: str  # phrase after the number: "has no case id"
    cells: tuple[str, ...]  # the row
    unit: str = ""  # unit that ``number`` counts, if not the table's


class Block(NamedTuple):
    """Some rows of a table, restricted to the requested columns."""

    numbers: Sequence[int]  # number of each row
    columns: Sequence[Sequence[str]]  # cells of each requested column, stripped of blanks
    bad: Sequence[BadRow]  # malformed rows, which are not in ``columns``


@dataclass(frozen=True)
class Table:
    """Column names of a log, and its rows, which can be read once."""

    names: list[str]  # column names, stripped of blanks
    unit: str  # unit that row numbers count: "line", "row" or "event"
    blocks: Callable[[list[int]], Iterator[Block]]  # rows of the columns with these indices
    notes: list[str] = field(default_factory=list)  # sentences about how the table was made


def blocks_of(rows: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[Block]:
    """Yield blocks of rows, (number, cells of the requested columns); rows of empty cells are left out."""
    numbers: list[int] = []
    kept: list[tuple[str, ...]] = []
    for number, row in rows:
        cells = tuple(map(cell_text, row))
        if any(cells):
            numbers.append(number)
            kept.append(cells)
        if len(kept) == BLOCK_ROWS:
            yield Block(numbers, list(zip(*kept, strict=True)), [])
            numbers, kept = [], []
    if kept:
        yield Block(numbers, list(zip(*kept, strict=True)), [])


def cell_text(value: Any) -> str:
    """Return a typed cell as text: times as ISO 8601, whole numbers without a fraction, "" for None."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
