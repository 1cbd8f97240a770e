"""Event logs as columns: case, activity, resource, start and end of each event."""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, cast

import numpy as np

from core.errors import UserError
from core.simulators.process.event_logs.read_csv import RawEvent, read_csv
from core.simulators.process.event_logs.read_xes import read_xes

NO_RESOURCE = -1

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_WORDS_FOR_NOTHING = frozenset({"", "nan", "none", "null"})
_EPOCH = datetime(1970, 1, 1)
_LONGEST = 100 * 365.25 * 86_400


@dataclass(frozen=True)
class EventLog:
    """The n events of a log, in the order of the file.

    Hours of the wall clock are the hours of the week. It differs from real time only in logs with UTC offsets, after a
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
    monday: datetime  # wall-clock Monday 00:00 of the week of the first start
    notes: tuple[str, ...] = ()  # sentences about omitted events

    def __len__(self) -> int:
        return len(self.start)

    def case_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return first start and last end of each case, float64[cases], seconds of real time since ``monday``."""
        first, last = np.full(len(self.cases), np.inf), np.full(len(self.cases), -np.inf)
        np.minimum.at(first, self.case, self.start)
        np.maximum.at(last, self.case, self.end)
        return first, last


@dataclass
class _Columns:
    """Columns of a log that is being read."""

    place: str
    source: str
    case: list[int] = field(default_factory=list)
    activity: list[int] = field(default_factory=list)
    resource: list[int] = field(default_factory=list)
    times: list[tuple[float, float, float, float]] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)
    activities: dict[str, int] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)
    first_row: dict[bool, int] = field(default_factory=dict)  # first row with and without a UTC offset

    def add(self, event: RawEvent) -> None:
        """Check one event and append it."""
        row, case, activity, resource, start_text, end_text = event
        if not case or not activity:
            raise UserError(f"{self._at(row)} has no {'activity' if case else 'case id'}.")
        start, start_offset = self._time(start_text, "start", row)
        end, end_offset = self._time(end_text, "end", row)
        if end < start:
            raise UserError(f"{self._at(row)} ends before it starts: it starts {start_text} and ends {end_text}.")
        self.case.append(self.cases.setdefault(case, len(self.cases)))
        self.activity.append(self.activities.setdefault(activity, len(self.activities)))
        named = resource.lower() not in _WORDS_FOR_NOTHING
        self.resource.append(self.resources.setdefault(resource, len(self.resources)) if named else NO_RESOURCE)
        self.times.append((start, end, start_offset, end_offset))

    def _at(self, row: int) -> str:
        return f"{self.source}: {self.place} {row}"

    def _time(self, text: str, which: str, row: int) -> tuple[float, float]:
        """Return seconds of real time (of wall-clock time without an offset) since 1970, and the offset in seconds."""
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            reason = f"{text!r} is not an ISO 8601 date and time like 2024-03-25T14:30:00" if text else "it is empty"
            raise UserError(f"{self._at(row)} has no readable {which} time: {reason}.") from None
        offset = parsed.utcoffset()
        self.first_row.setdefault(offset is not None, row)
        if len(self.first_row) == 2:
            raise UserError(
                f"{self.source} mixes times with and without offset: {self.place} {self.first_row[True]} has one, "
                f"{self.place} {self.first_row[False]} has none; give all times a UTC offset or none."
            )
        ahead = offset.total_seconds() if offset else 0.0
        return (parsed.replace(tzinfo=None) - _EPOCH).total_seconds() - ahead, ahead

    def finish(self, notes: Iterable[str]) -> EventLog:
        """Check the columns together and turn them into arrays."""
        if len(self.case) < 2:
            raise UserError(f"{self.source} holds {len(self.case) or 'no'} event(s); at least two are needed.")
        if not self.resources:
            raise UserError(f"{self.source} names no resource in any event, so who can do what cannot be learned.")
        start, end, start_offset, end_offset = np.array(self.times).T
        self._require_one_century(start, end)
        first = int(start.argmin())
        monday = _monday(float(start[first] + start_offset[first]))
        midnight = (monday - _EPOCH).total_seconds()
        return EventLog(
            source=self.source,
            cases=tuple(self.cases),
            case=np.array(self.case, np.int64),
            activities=tuple(self.activities),
            activity=np.array(self.activity, np.int64),
            resources=tuple(self.resources),
            resource=np.array(self.resource, np.int64),
            start=start - (midnight - start_offset[first]),
            end=end - (midnight - start_offset[first]),
            clock_start=start + start_offset - midnight,
            clock_end=end + end_offset - midnight,
            monday=monday,
            notes=tuple(notes),
        )

    def _require_one_century(self, start: np.ndarray, end: np.ndarray) -> None:
        """Refuse dates that can only be wrong, before they become calendars of thousands of years."""
        if end.max() - start.min() > _LONGEST:
            event, other = start.argmin(), end.argmax()
            first, last = (_EPOCH + timedelta(seconds=float(t)) for t in (start[event], end[other]))
            raise UserError(
                f"{self.source} goes from {first.date()} to {last.date()} (events {event + 1} and {other + 1}), more "
                "than a hundred years; mend or remove the events whose dates are wrong."
            )


def read_event_log(path: Path, columns: Mapping[str, str] | None = None) -> EventLog:
    """Read a CSV or XES file, plain or gzip; its first bytes decide, not its name.

    Args:
        path: file to read.
        columns: column names of a CSV that are not recognised, by field (case, activity, resource, start, end); see
            :func:`core.simulators.process.event_logs.read_csv.parse_log_columns`.

    Raises:
        UserError: the file cannot be read, lacks a column, start times or resources, or has a faulty row; the message
            names file and row (the line of a CSV, header = 1; the number of the event in an XES).
    """
    notes: list[str] = []
    source = str(path)
    with _readable(path):
        kind = _kind_of(path)
        columns_read = _Columns("line" if kind == "csv" else "event", source)
        with _open(path) as file:
            events = read_csv(file, source, columns or {}) if kind == "csv" else read_xes(file, source, notes)
            for event in events:
                columns_read.add(event)
    return columns_read.finish(notes)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of an unreadable file into sentences."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"There is no event log {path}.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is a damaged or incomplete gzip file: {error}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"Cannot read the event log {path}: {error.strerror or error}.") from None


def _open(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked if it starts like a gzip file."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path, "rb") if packed else path.open("rb"))


def _kind_of(path: Path) -> str:
    """Return "csv" or "xes" from the first bytes of the (unpacked) file."""
    with _open(path) as file:
        head = file.read(1024)
    text = head
    for mark in _BYTE_ORDER_MARKS:
        text = text.removeprefix(mark)
    text = text.replace(b"\x00", b"").lstrip()
    if text.startswith(b"<"):
        return "xes"
    if head.startswith(_ZIP_MAGIC) or b"\x00" in head:
        raise UserError(f"{path} is neither CSV nor XES; save a workbook as CSV (UTF-8), or unpack an archive.")
    if not text:
        raise UserError(f"{path} is empty; expected an event log as CSV or XES.")
    return "csv"


def _monday(clock: float) -> datetime:
    """Return the Monday 00:00 of the week of a wall-clock time in seconds since 1970."""
    moment = datetime.fromtimestamp(clock, UTC).replace(tzinfo=None)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=moment.weekday())
