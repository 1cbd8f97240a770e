"""A log as a table of text, in blocks of rows: what each format becomes before its columns are understood."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

BLOCK_ROWS = 1_000
"""Rows of a block: few, because Python looks through all lists in memory again and again."""


class BadRow(NamedTuple):
    """A row that cannot be an event."""

    number: int  # number of the row, as ``Table.unit`` counts
    reason: str  # phrase that follows the number: "has no case id"
    cells: tuple[str, ...]  # the row
    unit: str = ""  # what ``number`` counts, if not the table's unit


class Block(NamedTuple):
    """Some rows of a table, of the wanted columns."""

    numbers: Sequence[int]  # number of each row
    columns: Sequence[Sequence[str]]  # cells of each wanted column, without blanks around them
    bad: Sequence[BadRow]  # rows of these that are malformed, not in ``columns``


@dataclass(frozen=True)
class Table:
    """Column names of a log, and its rows, which are read once."""

    names: list[str]  # column names, without blanks around them
    unit: str  # what the numbers of rows count: "line", "row" or "event"
    blocks: Callable[[list[int]], Iterator[Block]]  # rows of the columns with these indices
    notes: list[str] = field(default_factory=list)  # sentences about how the table was made


def blocks_of(rows: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[Block]:
    """Yield blocks of rows, (number, cells of the wanted columns); rows of empty cells are left out."""
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
    """Return a typed cell as text: times as ISO 8601, whole numbers without a fraction, "" for nothing."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
