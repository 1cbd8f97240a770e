"""Event logs as columns: case, activity, resource, start and end of each event."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.case_classes import CaseClasses, CaseColumn
from longstride.process.event_logs.far_dates import close_gaps
from longstride.process.event_logs.pauses import Pauses, Stretches, no_pauses, without_pauses
from longstride.process.event_logs.reading.bad_rows import OPTION as SKIP_OPTION
from longstride.process.event_logs.reading.bad_rows import moment_of, require_years
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.decode import readable
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.event_logs.reading.read_records import Reading, read_records
from longstride.process.event_logs.reading.records import Records
from longstride.process.event_logs.reading.table import BadRow

NO_RESOURCE = -1

_EPOCH = datetime(1970, 1, 1)
_LONGEST = 100 * 365.25 * 86_400


@dataclass(frozen=True)
class EventLog:
    """The n events of a log, the earliest first.

    The wall clock gives the hour of the week. It differs from real time only in logs with UTC offsets, after a
    change to or from summer time.
    """

    source: str  # name of the file, for messages
    cases: tuple[str, ...]  # case names
    case: np.ndarray  # int64[n], index of each event's case
    activities: tuple[str, ...]  # activity names
    activity: np.ndarray  # int64[n], index of each event's activity
    resources: tuple[str, ...]  # resource names
    resource: np.ndarray  # int64[n], index of each event's resource, ``NO_RESOURCE`` if the log names none
    start: np.ndarray  # float64[n], seconds of real time from ``monday`` to the start
    end: np.ndarray  # float64[n], seconds of real time from ``monday`` to the completion
    clock_start: np.ndarray  # float64[n], wall-clock seconds from ``monday`` to the start
    clock_end: np.ndarray  # float64[n], wall-clock seconds from ``monday`` to the completion
    monday: datetime  # wall-clock Monday 00:00 of the first week
    notes: tuple[str, ...] = ()  # sentences about how the log was read
    starts_estimated: bool = False  # whether the log has completions only, so that ``start`` is an estimate
    refused: tuple[BadRow, ...] = ()  # rows that were left out because they are bad
    unit: str = "line"  # unit that the numbers of refused rows count
    only_dates: bool = False  # whether the log has dates without hours, so that the times of day are a convention
    pauses: Pauses = field(default_factory=no_pauses)  # suspensions of events, counted like ``start``
    classes: CaseClasses | None = None  # classes of the cases, if activities are split by class
    column: CaseColumn | None = None  # column by which tasks are served, if there is one
    at_once: Mapping[str, int] | None = None  # known numbers of records on which people work at once; of others, 1

    def __len__(self) -> int:
        return len(self.start)

    def stretches(self) -> Stretches:
        """Return the stretches of work on each event, without its suspensions."""
        times = self.start, self.end, self.clock_start, self.clock_end
        return without_pauses(Stretches(np.arange(len(self)), self.resource, *times), self.pauses)

    def case_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return first start and last end of each case, float64[cases], seconds of real time since ``monday``."""
        first, last = np.full(len(self.cases), np.inf), np.full(len(self.cases), -np.inf)
        np.minimum.at(first, self.case, self.start)
        np.maximum.at(last, self.case, self.end)
        return first, last


def read_event_log(path: Path, columns: Mapping[str, str] | None = None, reading: LogReading | None = None) -> EventLog:
    """Read a log: CSV, XES, Excel, Parquet, OCEL 2.0 as JSON or SQLite, plain or gzip, told apart by its first bytes.

    Args:
        path: file to read.
        columns: column names that are not recognised, by field (case, activity, resource, start, end, transition,
            instance); see :func:`longstride.process.event_logs.reading.options.parse_log_columns`.
        reading: format and zone of times, and treatment of bad rows and duplicates.

    Raises:
        UserError: the file cannot be read, lacks a column or resources, or has a bad row; the message names file and
            row (the line of a CSV, header = 1; the row of a workbook; the number of the event otherwise).
    """
    with readable(path):
        return _event_log(str(path), read_records(path, columns or {}, reading or LogReading()))


def _event_log(source: str, reading: Reading) -> EventLog:
    """Check the events as a whole and count their times from a Monday."""
    events = reading.records
    if len(events.end) < 2:
        refused = f" besides {len(reading.refused):,} bad rows" if reading.refused else ""
        raise UserError(
            f"{source} holds {len(events.end) or 'no'} event(s){refused}; at least two are needed."
            + (f" {reading.notes[0]}" if reading.notes else "")
        )
    if not (events.resource.code >= 0).any():
        raise UserError(f"{source} names no resource in any event, so the skills of people cannot be learned.")
    _require_one_century(source, events, reading.unit)
    events, gaps = close_gaps(events)
    first = int(events.start.argmin())
    clocks = events.start + events.start_offset, events.end + events.end_offset
    monday = _monday(min(float(clock.min()) for clock in clocks))  # no clock is before it, for any UTC offset
    midnight = (monday - _EPOCH).total_seconds()
    cases, activities, resources = (compact(column) for column in (events.case, events.activity, events.resource))
    return EventLog(
        source=source,
        cases=tuple(cases.values),
        case=cases.code,
        activities=tuple(activities.values),
        activity=activities.code,
        resources=tuple(resources.values),
        resource=resources.code,
        start=events.start - (midnight - events.start_offset[first]),
        end=events.end - (midnight - events.start_offset[first]),
        clock_start=clocks[0] - midnight,
        clock_end=clocks[1] - midnight,
        monday=monday,
        notes=(*reading.notes, *gaps),
        starts_estimated=reading.starts_estimated or reading.only_dates,
        refused=tuple(reading.refused),
        unit=reading.unit,
        only_dates=reading.only_dates,
        pauses=events.pauses.counted_from(midnight, events.start_offset[first], _numbers(events.resource)),
    )


def compact(column: Coded) -> Coded:
    """Return a column with only the values that occur, in the order of the events; a negative index stays -1."""
    number = _numbers(column)
    used = np.argsort(number, kind="stable")[(number < 0).sum() :]
    return Coded([column.values[i] for i in used], number[column.code])


def _numbers(column: Coded) -> np.ndarray:
    """Return int64[values + 1], the new index of each value, -1 for one that does not occur and for the index -1."""
    used, first = np.unique(column.code, return_index=True)
    used, first = used[used >= 0], first[used >= 0]
    number = np.full(len(column.values) + 1, NO_RESOURCE, np.int64)
    number[used[np.argsort(first)]] = np.arange(len(used))
    return number


def _require_one_century(source: str, events: Records, unit: str) -> None:
    """Refuse dates that must be wrong, before they become calendars of thousands of years."""
    start, end = events.start, events.end
    if end.max() - start.min() > _LONGEST:
        event, other = start.argmin(), end.argmax()
        first, last = (moment_of(float(t)) for t in (start[event], end[other]))
        raise UserError(
            f"{source} goes from {first.date()} to {last.date()} ({unit} {events.number[event]} and {unit} "
            f"{events.number[other]}), more than a hundred years; correct or remove the events whose dates are wrong, "
            f"or add {SKIP_OPTION}."
        )
    require_years(source, float(start.min()), float(end.max()))


def _monday(clock: float) -> datetime:
    """Return the Monday 00:00 of the week of a wall-clock time in seconds since 1970."""
    moment = datetime.fromtimestamp(clock, UTC).replace(tzinfo=None)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=moment.weekday())
