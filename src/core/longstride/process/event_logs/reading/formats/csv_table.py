"""Event logs as CSV: a header line, then rows; comma, semicolon, tab or bar between cells."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import IO, Any

from longstride.errors import UserError
from longstride.process.event_logs.reading.choose_columns import count_recognised
from longstride.process.event_logs.reading.decode import encoding_of, mended
from longstride.process.event_logs.reading.limits import LONGEST_TEXT, Guard
from longstride.process.event_logs.reading.table import BLOCK_ROWS, BadRow, Block, Table

_SEPARATORS = (",", ";", "\t", "|")
_HEAD = 1024
_EXCELS_FIRST_LINE = re.compile(r'"?sep=(.)"?\s*')


class _Lines:
    """Lines of a text file, read in pieces; an endless line is refused before it fills the memory."""

    def __init__(self, file: IO[bytes], source: str) -> None:
        head = file.read(_HEAD)
        file.seek(0)
        self._text = io.TextIOWrapper(file, encoding_of(head), errors=_errors(head), newline="")
        self._source = source

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Iterator[str]]:
        """Yield the lines of each piece of the text; pieces end at the end of a line."""
        number, rest = 1, ""
        while more := self._text.read(LONGEST_TEXT):
            text = rest + more
            # A carriage return at the very end may be the first half of a line break.
            end = 1 + max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1))
            piece, rest = text[:end], text[end:]
            number += piece.count("\n")
            if len(rest) >= LONGEST_TEXT:
                raise UserError(
                    f"{self._source}: line {number} is longer than {LONGEST_TEXT:,} characters, unlike any event log."
                )
            yield io.StringIO(piece, newline="")
        yield io.StringIO(rest, newline="")


def _errors(head: bytes) -> str:
    """Return the error handler for invalid bytes: those in UTF-8 files are repaired later."""
    return "surrogateescape" if encoding_of(head) == "utf-8-sig" else "strict"


def csv_table(file: IO[bytes], guard: Guard, columns: Mapping[str, str]) -> Table:
    """Return the table of a CSV file.

    Args:
        file: unpacked file, seekable; UTF-8 or UTF-16 with or without a byte-order mark, Latin-1 or Windows-1252.
        guard: limits, and the name of the file for messages.
        columns: column names that the user gave, by field; they help to find the separator.

    Raises:
        UserError: a line or a quoted cell does not end, or a limit is exceeded. Other malformed rows are in the blocks.
    """
    source = guard.source
    lines = _Lines(file, source)
    reading = iter(lines)
    header = next(reading, "")
    separators: tuple[str, ...] = _SEPARATORS
    if separator_line := _EXCELS_FIRST_LINE.fullmatch(header):
        header, separators = next(reading, ""), (separator_line[1],)
    separator, names = _read_header(header, separators, columns)
    guard.require_columns(len(names))
    before = 2 if separator_line else 1

    def blocks(wanted: list[int]) -> Iterator[Block]:
        reader = csv.reader(reading, delimiter=separator, strict=True)
        more, last = True, 0
        while more:
            rows, numbers, bad, more = _some_rows(reader, before, len(names), source)
            last = reader.line_num if rows or bad else last
            if reader.line_num - last > LONGEST_TEXT:
                raise UserError(
                    f"{source} has more than {LONGEST_TEXT:,} empty lines in a row and is not an event log."
                )
            cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
            yield Block(numbers, [list(map(str.strip, cells[i])) for i in wanted], bad)

    return Table([mended(name) for name in names], "line", blocks)


def _read_header(header: str, separators: tuple[str, ...], columns: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the separator that gives the most recognised columns, and the column names."""
    splits = {s: [n.strip() for n in _cells(header, s)] for s in separators}
    best = max(separators, key=lambda s: (count_recognised(splits[s], columns), len(splits[s])))
    return best, splits[best]


def _cells(line: str, separator: str) -> list[str]:
    """Return the cells of one line; the line itself if it is not valid CSV."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return [line]


def _some_rows(
    reader: Any, before: int, width: int, source: str
) -> tuple[list[list[str]], list[int], list[BadRow], bool]:
    """Return rows of a block with the numbers of their first lines, malformed rows, and whether rows follow."""
    rows: list[list[str]] = []
    # The reader counts lines after the header; a quoted cell of several lines has the number of its first.
    numbers = [before + reader.line_num + 1]
    bad: list[BadRow] = []
    try:
        for row in islice(reader, BLOCK_ROWS):
            rows.append(row)
            numbers.append(before + reader.line_num + 1)
        more = len(rows) == BLOCK_ROWS
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UserError(f"{source}: line {numbers[-1]} is not valid CSV: {error}; a quote is not closed.") from None
        bad.append(BadRow(numbers.pop(), f"is not valid CSV: {error}", ()))
        numbers.append(before + reader.line_num + 1)
        more = True
    numbers.pop()
    if {*map(len, rows)} <= {width}:
        return rows, numbers, bad, more
    both = list(zip(numbers, rows, strict=True))
    bad += [
        BadRow(number, f"has {len(row)} fields, but the header has {width}", tuple(row))
        for number, row in both
        if row and len(row) != width
    ]
    kept = [(number, row) for number, row in both if len(row) == width]
    return [row for _, row in kept], [number for number, _ in kept], bad, more
