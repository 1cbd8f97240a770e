"""Parses the times of a log's rows; the whole log decides whether the day or the month comes first."""

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.reading.collect import Rows
from longstride.process.event_logs.reading.times.time_layouts import (
    MICROSECOND,
    PATTERNS,
    Layout,
    layout_of,
    leading_numbers,
    parse,
    pattern_of,
    shapes_of,
)
from longstride.process.event_logs.reading.words.nothing import is_nothing

OPTION = "--time-format"
DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
"""Values of ``--time-format`` that are not formats of strptime."""

_NUMBERS = {
    "e": "are counted from 1970 in UTC ({}); --time-zone names the zone in whose hours people work.",
    "x": "are numbers of a spreadsheet, days since 1899-12-30 ({}); save the column as dates if they are not.",
}
"""Sentences about times that are plain numbers, by :attr:`Layout.unit`."""

_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(r"0{9,}")
"""A shape that Python's ISO parser takes for a date, although it is a plain number."""

_PLAIN_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")
_ZERO_DATE = re.compile(r"\s*0{4}[-/.]?00[-/.]?00(?:\D|$|0{6}$)")
_NAMED_ZONE = re.compile(r":\d\d\S* ?(?:(?![AP]M)[A-Z]{2,5}|\[?[A-Za-z]+/[A-Za-z_/+-]+[0-9]*\]?)$")


class Times(NamedTuple):
    """Times of the n rows of a column."""

    clock: np.ndarray  # int64[n], microseconds of the wall clock since 1970
    offset: np.ndarray  # int64[n], seconds that the wall clock is ahead of UTC, 0 if unknown
    has_offset: np.ndarray  # bool[n], whether the offset is known
    known: np.ndarray  # bool[n], whether the text is a time
    empty: np.ndarray  # bool[n], whether there is no text


class _Example(NamedTuple):
    """A time as an example."""

    field: str
    row: int
    layout: Layout


@dataclass
class _Examples:
    """Times of a log that show how its dates are written."""

    either: _Example | None = None  # a numeric date, preferably one without dots
    day: _Example | None = None  # a date that can only have the day first
    month: _Example | None = None  # a date that can only have the month first
    other: _Example | None = None  # a time without a numeric date
    number: dict[str, _Example] = field(default_factory=dict)  # a plain number by its unit
    numbers: Counter[str] = field(default_factory=Counter)  # how many there are by unit
    count: int = 0  # times in all

    def add(
        self, name: str, begin: int, mine: np.ndarray, layout: Layout, numbers: tuple[np.ndarray, np.ndarray]
    ) -> None:
        """Take examples from the numeric dates of one layout in some rows of a block."""
        one, two = numbers
        if self.either is None or (self.either.layout.texts["s"] == "." != layout.texts["s"]):
            self.either = _Example(name, begin + int(mine[0]), layout)
        for_day, for_month = (one > 12) & (one <= 31) & (two <= 12), (two > 12) & (two <= 31) & (one <= 12)
        if self.day is None and for_day.any():
            self.day = _Example(name, begin + int(mine[for_day.argmax()]), layout)
        if self.month is None and for_month.any():
            self.month = _Example(name, begin + int(mine[for_month.argmax()]), layout)


class TimeReader:
    """Parses times; the user's format is checked first."""

    def __init__(self, time_format: str) -> None:
        self.time_format = time_format
        self._plain = time_format in ("", DAY_FIRST, MONTH_FIRST)
        self._patterns = PATTERNS
        if not self._plain:
            _require_whole_date(time_format)
            pattern = pattern_of(time_format)
            self._patterns = (pattern,) if pattern else ()

    def read(self, rows: Rows, source: str, unit: str) -> tuple[dict[str, Times], list[str]]:
        """Return the times of each column, and notes.

        Raises:
            UserError: dates like 05/03/2024 are ambiguous or contradict each other.
        """
        day_first, notes = self._day_first(rows, source, unit)
        return {
            field: self._column(blocks, len(rows.numbers), day_first) for field, blocks in rows.times.items()
        }, notes

    def describe(self, text: str) -> str:
        """Return the reason why a text is not a time."""
        if is_nothing(text, "case"):
            return "it is empty"
        if not self._plain:
            return f"{text!r} does not fit {OPTION} {self.time_format!r}"
        if _ZERO_DATE.match(text):
            return f"{text!r} is not a date (databases write it for a missing time)"
        if _PLAIN_NUMBER.fullmatch(text):
            return (
                f"{text!r} is a number and counts neither seconds since 1970 nor days as spreadsheets do; save the "
                "column as dates and times"
            )
        if _NAMED_ZONE.search(text):
            return f"{text!r} names a time zone; write an offset like +01:00, or remove it and add --time-zone"
        return (
            f"{text!r} is not an ISO 8601 date and time like 2024-03-25T14:30:00, nor of another known form ({OPTION} "
            "names one)"
        )

    def _column(self, blocks: list[np.ndarray], count: int, day_first: bool) -> Times:
        clock, offset = np.zeros(count, np.int64), np.zeros(count, np.int64)
        has_offset, known, empty = (np.zeros(count, np.bool_) for _ in range(3))
        for begin, block in _placed(blocks):
            for shape, rows in shapes_of(block):
                at = begin + rows
                if is_nothing(shape, "case"):
                    empty[at] = True
                elif layout := layout_of(shape, self._patterns):
                    part = parse(block[rows], layout, day_first)
                    clock[at], known[at] = part.clock, part.valid
                    if part.offset is not None:
                        offset[at], has_offset[at] = part.offset, True
                elif not (self._plain and _NUMBER.fullmatch(shape)):
                    for row, text in zip(at.tolist(), block[rows].tolist(), strict=True):
                        if (one := self._slowly(text.decode("utf-8", "replace"))) is not None:
                            clock[row], offset[row], has_offset[row] = one
                            known[row] = True
        return Times(clock, offset, has_offset, known, empty)

    def _slowly(self, text: str) -> tuple[int, int, bool] | None:
        """Return wall clock in microseconds, offset in seconds and whether it is known; None if there is no time."""
        try:
            found = datetime.fromisoformat(text) if self._plain else datetime.strptime(text, self.time_format)
        except ValueError:
            return None
        ahead = found.utcoffset()
        since = found.replace(tzinfo=None) - _EPOCH
        clock = (since.days * 86_400 + since.seconds) * MICROSECOND + since.microseconds
        return clock, int(ahead.total_seconds()) if ahead else 0, ahead is not None

    def _day_first(self, rows: Rows, source: str, unit: str) -> tuple[bool, list[str]]:
        """Return whether numeric dates begin with the day, and notes about it."""
        if self.time_format in (DAY_FIRST, MONTH_FIRST) or not self._plain:
            return self.time_format == DAY_FIRST, []
        found = self._examples(rows)

        def quoted(example: _Example) -> str:
            return f"{unit} {rows.numbers[example.row]} has {rows.time_text(example.field, example.row)!r}"

        notes = []
        for counted, what in _NUMBERS.items():
            if example := found.number.get(counted):
                some = found.numbers[counted] < found.count
                which = f"{found.numbers[counted]:,} of {found.count:,} times" if some else "Times"
                notes.append(f"{which} {what.format(quoted(example))}")
        if (other := found.other or found.number.get("x")) and found.either:
            notes.append(
                f"Warning: some dates are numbers in another order than others: {quoted(found.either)}, "
                f"{quoted(other)}; a spreadsheet may have exchanged day and month of the latter."
            )
        if found.either is None:
            return True, notes
        if found.day and found.month:
            raise UserError(
                f"{source} has dates with the day first and with the month first: {quoted(found.day)}, "
                f"{quoted(found.month)}; choose with {OPTION} {DAY_FIRST} or {OPTION} {MONTH_FIRST}."
            )
        if decides := found.day or found.month:
            order = "day" if found.day else "month"
            return bool(found.day), [*notes, f"Dates have the {order} first: {quoted(decides)}."]
        either = found.either
        if either.layout.texts["s"] == ".":
            dots = (
                f"Dates with dots have the day first, as {quoted(either)}; {OPTION} {MONTH_FIRST} reads them otherwise."
            )
            return True, [*notes, dots]
        raise UserError(
            f"{source}: {unit} {rows.numbers[either.row]} has no readable {either.field} time: "
            f"{rows.time_text(either.field, either.row)!r} is not clear, nor is any other date, about which number "
            f"is the day; choose with {OPTION} {DAY_FIRST} or {OPTION} {MONTH_FIRST}."
        )

    def _examples(self, rows: Rows) -> _Examples:
        """Return examples of a log's times."""
        found = _Examples()
        for name, blocks in rows.times.items():
            for begin, block in _placed(blocks):
                found.count += len(block)
                for shape, mine in shapes_of(block):
                    layout = layout_of(shape, self._patterns)
                    if layout is not None and layout.is_numeric_date:
                        found.add(name, begin, mine, layout, leading_numbers(block[mine], layout))
                    elif layout is not None and layout.unit:
                        found.numbers[layout.unit] += len(mine)
                        found.number.setdefault(layout.unit, _Example(name, begin + int(mine[0]), layout))
                    elif layout is not None and found.other is None:
                        found.other = _Example(name, begin + int(mine[0]), layout)
        return found


def _placed(blocks: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each block together with the number of rows before it."""
    begin = 0
    for block in blocks:
        yield begin, block
        begin += len(block)


def _require_whole_date(time_format: str) -> None:
    """Refuse a format that does not determine a date.

    Raises:
        UserError: the text is not a format, or year, month or day is missing.
    """
    example = datetime(2024, 12, 31, 17, 5, 9, tzinfo=UTC)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = datetime.strptime(example.strftime(time_format), time_format).date() == example.date()
    except (ValueError, re.error):
        whole = False
    if not whole:
        raise UserError(
            f"{OPTION} {time_format!r} gives no whole date; expected {DAY_FIRST}, {MONTH_FIRST} or a format of "
            "Python's strptime like '%d/%m/%Y %H:%M'."
        )
