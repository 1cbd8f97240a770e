"""Finds times without hours: dates, which programs write as midnight."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.times.parse_times import Times
from longstride.process.event_logs.reading.times.time_layouts import MICROSECOND
from longstride.process.event_logs.reading.words.transitions import COMPLETE, START

DAY = 86_400 * MICROSECOND
"""Microseconds."""

_NEARLY_ALL, _SOME = 0.9, 0.1
"""Share of times at one time of day from which all are dates, and from which midnights cause a warning."""

_FEWEST, _FEWEST_DAYS = 10, 10
"""Fewest times for such a conclusion, and fewest different days with another time of day than midnight."""

_SAMPLE = 100_000


def usual_time(times: Times, rows: np.ndarray | None = None) -> tuple[float, int, int]:
    """Return the most frequent time of day: its share, itself in microseconds, and the number of times."""
    known = times.known if rows is None else times.known & rows
    clock = times.clock[known]
    if not len(clock):
        return 0.0, 0, 0
    sample = clock[:: max(1, len(clock) // _SAMPLE)] % DAY
    values, counts = np.unique(sample, return_counts=True)
    most = int(counts.argmax())
    return float(counts[most] / len(sample)), int(values[most]), len(clock)


def are_dates(times: Times, rows: np.ndarray | None = None, any_hour: bool = True) -> bool:
    """Return whether nearly all times, of bool[n] rows or of all, have one time of day, such as midnight."""
    share, moment, count = usual_time(times, rows)
    if share < _NEARLY_ALL or count < _FEWEST:
        return False
    return moment == 0 or (any_hour and len(np.unique(times.clock[times.known] // DAY)) >= _FEWEST_DAYS)


def as_dates(times: Mapping[str, Times]) -> dict[str, Times]:
    """Return the dates of times as midnights on the wall clock, without offset: a date is the same in any zone."""
    none, unknown = np.zeros_like(times["end"].offset), np.zeros_like(times["end"].has_offset)
    return {field: column._replace(offset=none, has_offset=unknown) for field, column in in_days(times).items()}


def in_days(times: Mapping[str, Times]) -> dict[str, Times]:
    """Return times at the midnight before them on their wall clock, with their offsets."""
    return {field: column._replace(clock=column.clock // DAY * DAY) for field, column in times.items()}


def rows_of(transition: Coded | None, meaning: str) -> np.ndarray | None:
    """Return bool[n], the rows of a transition; None if all rows count."""
    if transition is None or meaning not in transition.values:
        return None
    return np.asarray(transition.code == transition.values.index(meaning))


def ends_are_dates(times: Mapping[str, Times], transition: Coded | None, any_hour: bool) -> bool:
    """Return whether the completions are dates, so that no duration of less than a day is known."""
    return are_dates(times["end"], rows_of(transition, COMPLETE), any_hour)


def note_on_dates(times: Mapping[str, Times], transition: Coded | None) -> str:
    """Return a sentence about a log of dates."""
    share, moment, count = usual_time(times["end"], rows_of(transition, COMPLETE))
    return (
        f"Warning: {share:.0%} of {count:,} end times are at {_clock(moment)}, as if only dates were recorded, so "
        "hours of work and service times below a day are unknown: people count as on duty all day, and the events of a "
        "day share its 24 hours; log hours and minutes if you can."
    )


class DatedStarts(NamedTuple):
    """Starts without an hour."""

    moment: float  # their time of day, in seconds
    note: str  # sentence about them, if they turn out to be dates


def dated_starts(times: Mapping[str, Times], transition: Coded | None) -> DatedStarts | None:
    """Return the starts that may be dates, in a column or in rows of their own; None if there are few."""
    if "start" in times and times["start"].known.any():
        column, rows = times["start"], None
    elif (found := rows_of(transition, START)) is not None:
        column, rows = times["end"], found
    else:
        return None
    share, moment, count = usual_time(column, rows)
    if not are_dates(column, rows) and not (moment == 0 and share >= _SOME and count >= _FEWEST):
        return None
    note = (
        f"Warning: {share:.0%} of {count:,} start times are at {_clock(moment)}, as if only their dates were recorded, "
        "so they are estimated on these dates from what the case and its person completed before; log hours of starts "
        "if you can."
    )
    return DatedStarts(moment / MICROSECOND, note)


def notes_on_midnights(times: Mapping[str, Times], transition: Coded | None) -> list[str]:
    """Return a sentence if many completions, but not nearly all, are dates."""
    share, moment, count = usual_time(times["end"], rows_of(transition, COMPLETE))
    if moment or share < _SOME or count < _FEWEST:
        return []
    return [
        f"Warning: {share:.0%} of {count:,} end times are at 00:00, as if only their dates were recorded, so hours of "
        "work and service times are wrong by that; log their hours, or remove these rows."
    ]


def _clock(moment: int) -> str:
    minutes, seconds = divmod(moment // MICROSECOND, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}" + (f":{seconds:02d}" if seconds else "")
