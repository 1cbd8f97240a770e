"""Rows that cannot be events: the first one is an error, or all are left out with their reasons."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.reading.collect import Rows
from longstride.process.event_logs.reading.pair_lifecycles import makes_events
from longstride.process.event_logs.reading.table import BadRow
from longstride.process.event_logs.reading.times.parse_times import Times
from longstride.process.event_logs.reading.times.time_layouts import MICROSECOND
from longstride.process.event_logs.reading.words.nothing import nothing_in

OPTION = "--skip-bad-rows"

HALF_A_CENTURY = 50 * 365.25 * 86_400.0
"""Seconds from the median time of a log beyond which a date is wrong."""


ANOTHER_CENTURY = "has a date of another century than the log's median event"
"""Reason for refusing such a row."""


_YEAR_1000, _YEAR_9000 = -30_610_224_000.0, 221_845_392_000.0
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0
"""Ends of Python's calendar, the years 1 and 9999, in seconds since 1970."""


class BadRows(NamedTuple):
    """Rows that cannot be events."""

    mask: np.ndarray  # bool[n], over the collected rows
    rows: list[BadRow]  # these and the malformed ones, by number


def seconds(times: Times) -> np.ndarray:
    """Return float64[n], seconds of real time since 1970, or of the wall clock for times without an offset."""
    return np.asarray(times.clock / MICROSECOND - times.offset)


def find_bad_rows(rows: Rows, times: dict[str, Times], describe: Callable[[str], str], skip: bool) -> BadRows:
    """Return the bad rows; without ``skip`` only the first one is described.

    Args:
        rows: rows of the log.
        times: times of these rows by field.
        describe: returns the reason why a text is not a time.
        skip: whether all bad rows are described.
    """
    end, start = times["end"], times.get("start")
    reasons: list[tuple[np.ndarray, Callable[[int], str]]] = [
        (nothing_in(rows.texts["case"], "case"), lambda row: _missing(rows, "case", "case id", row)),
        (nothing_in(rows.texts["activity"], "activity"), lambda row: _missing(rows, "activity", "activity", row)),
    ]
    if start is not None:
        # If completions and starts have separate rows, a row needs only one of both times.
        unreadable = ~start.known & ~(start.empty if "transition" in rows.texts else False)
        reasons.append((unreadable, lambda row: _unreadable("start", rows.time_text("start", row), describe)))
    reasons.append((~end.known, lambda row: _unreadable("end", rows.time_text("end", row), describe)))
    if start is not None:
        reversed_ = start.known & end.known & (seconds(end) < seconds(start))
        reasons.append((reversed_, lambda row: _reversed(rows, row)))
    mask = np.logical_or.reduce([of for of, _ in reasons])
    if "transition" in rows.texts:
        # Errors in ignored rows do no harm.
        mask &= makes_events(rows.texts["transition"]) | (start.known if start is not None else False)
    which = np.flatnonzero(mask)
    described = [
        BadRow(int(rows.numbers[row]), next(say(row) for of, say in reasons if of[row]), rows.cells(row))
        for row in (which if skip else which[:1]).tolist()
    ]
    return BadRows(mask, sorted([*described, *rows.bad], key=lambda row: row.number))


def require_good_rows(bad: BadRows, source: str, unit: str, malformed: int) -> None:
    """Refuse a log with bad rows.

    Raises:
        UserError: there is a bad row; the message names the first.
    """
    if not bad.rows:
        return
    others = int(bad.mask.sum()) + malformed - 1
    more = f"{others:,} other bad row{'s' * (others > 1)}"
    what = f"correct it and {more}, or leave them out" if others else "correct it, or leave it out"
    raise UserError(f"{source}: {sentence(bad.rows[0], unit)}; {what} with {OPTION}.")


def sentence(row: BadRow, unit: str) -> str:
    """Return a sentence about a bad row, without a full stop."""
    return f"{row.unit or unit} {row.number} {row.reason}"


def of_another_century(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return bool[n], whether an event is more than 50 years from the median event; times in seconds."""
    if not len(end):
        return np.zeros(0, np.bool_)
    middle = np.median(end)
    return np.asarray((np.abs(end - middle) > HALF_A_CENTURY) | (np.abs(start - middle) > HALF_A_CENTURY))


def moment_of(clock: float) -> datetime:
    """Return a wall-clock time, given in seconds since 1970, clipped to the ends of Python's calendar."""
    return datetime(1970, 1, 1) + timedelta(seconds=min(max(clock, _FIRST), _LAST))


def require_years(source: str, first: float, last: float) -> None:
    """Refuse times that do not fit a calendar of weeks; arguments are seconds since 1970.

    Raises:
        UserError: a time is before the year 1000 or after the year 9000.
    """
    if first < _YEAR_1000 or last > _YEAR_9000:
        raise UserError(
            f"{source} goes from {moment_of(first).date()} to {moment_of(last).date()}; years from 1000 to 9000 are "
            f"read, so correct these dates, or leave their rows out with {OPTION} if others are right."
        )


def _missing(rows: Rows, field: str, name: str, row: int) -> str:
    column = rows.texts[field]
    text = column.values[column.code[row]]
    return f"has no {name}" + (f": {text!r} stands for a missing one" if text else "")


def _unreadable(field: str, text: str, describe: Callable[[str], str]) -> str:
    return f"has no readable {field} time: {describe(text)}"


def _reversed(rows: Rows, row: int) -> str:
    start, end = rows.time_text("start", row), rows.time_text("end", row)
    return f"ends before it starts: it starts {start} and ends {end}"
