"""The part of a log up to some time: completed events, tasks in work, and tasks that the log marks as waiting."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.reading.bad_rows import (
    ANOTHER_CENTURY,
    BadRows,
    find_bad_rows,
    of_another_century,
    require_good_rows,
    require_years,
    seconds,
)
from longstride.process.event_logs.reading.collect import Coded, Rows
from longstride.process.event_logs.reading.decode import readable
from longstride.process.event_logs.reading.duplicates import first_of_equals
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.event_logs.reading.pair_lifecycles import makes_events, pair_lifecycles
from longstride.process.event_logs.reading.read_records import ReadRows, on_refused, read_rows
from longstride.process.event_logs.reading.records import people_of
from longstride.process.event_logs.reading.table import BadRow
from longstride.process.event_logs.reading.times.parse_times import Times
from longstride.process.event_logs.reading.times.time_layouts import MICROSECOND
from longstride.text import counted

_ENABLED = frozenset({"schedule", "scheduled", "enable", "enabled"})
"""Transitions of a task that begins to wait."""

_EPOCH = datetime(1970, 1, 1)

_DAY = 86_400.0

_LONG_SILENT = 7 * _DAY
"""Seconds since the last event from which the present causes a warning, if the log itself never paused so long."""


class OpenTask(NamedTuple):
    """An unfinished task; ages are hours of real time before the present."""

    case: str
    activity: str
    person: str  # empty if the log names none
    age: float  # time since it began to be in work or to wait; NaN if unknown


class OpenEvents(NamedTuple):
    """A log at one time."""

    now: datetime  # wall clock
    done: dict[str, list[tuple[str, float]]]  # case -> activity and age of its completed events in order
    in_work: list[OpenTask]
    waiting: list[OpenTask]  # marked as waiting in the log
    opened: dict[str, float]  # case -> age of its first time
    notes: list[str]


def read_open_events(path: Path, columns: Mapping[str, str], options: LogReading, at: str | None) -> OpenEvents:
    """Read a log up to a time, None for its last one.

    A row with a start and without an end is in work, as is a ``start`` without ``complete``. One without both, or with
    the transition ``schedule``, waits, and so does a suspended task. Later events are left out.

    Raises:
        UserError: the file cannot be read, a column is missing, a bad row must not be skipped, or nothing has happened
            by that time.
    """
    with readable(path):
        return _open_events(str(path), read_rows(path, columns, options), options, at)


def _open_events(source: str, read: ReadRows, options: LogReading, at: str | None) -> OpenEvents:
    """Return the content of a log up to a time."""
    times, rows = read.times, read.rows
    bad = find_bad_rows(rows, _filled(read), read.describe, options.skip_bad_rows)
    if not options.skip_bad_rows:
        require_good_rows(bad, source, read.table.unit, len(rows.bad))
    start, end = _seconds_or_nan(times, "start", bad.mask), _seconds_or_nan(times, "end", bad.mask)
    if np.isnan(start).all() and np.isnan(end).all():
        raise UserError(f"{source} holds no event with a time.")
    wrong = _of_another_century(read, start, end, source, options.skip_bad_rows)
    refused = sorted([*bad.rows, *wrong.rows], key=lambda row: row.number)
    left_out = bad.mask | wrong.mask
    start, end = (np.where(left_out, np.nan, column) for column in (start, end))
    notes = [*read.table.notes, *on_refused(refused, len(rows.numbers) + len(rows.bad), read.table.unit), *read.notes]
    require_years(source, float(np.nanmin([start, end])), float(np.nanmax([start, end])))
    now, clock = _present(times, start, end, at, source)
    notes += _long_silent(np.concatenate([start, end]), now, clock)
    repeated = np.zeros_like(left_out) if options.keep_duplicates else _repeated(rows, start, end) & ~left_out
    if repeated.any():
        rows_repeat = counted(int(repeated.sum()), "row repeats another one and is", "rows repeat another one and are")
        notes.append(f"{rows_repeat} left out (--keep-duplicates keeps duplicates).")
    reader = _Tasks(rows, now)
    take = reader.take_transitions if "transition" in rows.texts else reader.take_whole_rows
    take(start, end, left_out | repeated)
    if not (reader.done or reader.in_work or reader.waiting):
        raise UserError(f"{source}: nothing has happened by {clock.isoformat(timespec='seconds')}; name a later --at.")
    done = {case: [(task, age) for *_, task, age in sorted(events)] for case, events in reader.done.items()}
    return OpenEvents(clock, done, reader.in_work, reader.waiting, reader.opened, notes)


class _Tasks:
    """Sorts the rows of a log into events that are done, tasks in work and waiting tasks at a time."""

    def __init__(self, rows: Rows, now: float) -> None:
        self._texts, self._now = rows.texts, now
        self._people = people_of(rows.texts["resource"])
        self.done: dict[str, list[tuple[float, float, int, str, float]]] = {}  # end, start and row before the rest
        self.in_work: list[OpenTask] = []
        self.waiting: list[OpenTask] = []
        self.opened: dict[str, float] = {}

    def take_whole_rows(self, start: np.ndarray, end: np.ndarray, bad: np.ndarray) -> None:
        """Take rows that hold start and end, float64[n], NaN for a missing time."""
        columns = zip(range(len(start)), start.tolist(), end.tolist(), strict=True)
        for row, begun, over in columns:
            if bad[row]:
                continue
            if over <= self._now:
                self._finish(row, over, over if np.isnan(begun) else begun)
            elif begun <= self._now:
                self._begin(row, begun)
            elif np.isnan(begun) and np.isnan(over):
                self.waiting.append(self._task(row, np.nan))

    def take_transitions(self, start: np.ndarray, end: np.ndarray, bad: np.ndarray) -> None:
        """Take rows of starts, completions and schedules, and rows that hold both times."""
        time = np.where(np.isnan(end), start, end)
        kept = np.flatnonzero(~bad & (np.where(np.isnan(start), time, np.fmin(start, time)) <= self._now))
        whole = (~np.isnan(start) & ~np.isnan(end))[kept]
        texts = {field: Coded(column.values, column.code[kept]) for field, column in self._texts.items()}
        pairs = pair_lifecycles(texts, time[kept], whole)
        begun = Counter[tuple[str, str]]()
        for first, last in zip(kept[pairs.start_row].tolist(), kept[pairs.end_row].tolist(), strict=True):
            begun[self._key(first)] += 1
            moment = start[first] if not np.isnan(start[first]) else time[first]
            if time[last] <= self._now:
                self._finish(last, float(time[last]), float(moment))
            else:
                self._begin(first, float(moment))
        for row in kept[pairs.unstarted].tolist():
            begun[self._key(row)] += 1
            self._finish(row, float(time[row]), float(time[row]))
        for row, rests in zip(kept[pairs.unfinished].tolist(), pairs.resting.tolist(), strict=True):
            begun[self._key(row)] += 1
            if rests < 0:
                self._begin(row, float(time[row]))
            else:  # its person is free until the task is resumed
                self._note_opening(row, float(time[row]))
                self.waiting.append(self._task(row, self._age(float(time[kept[rests]]))))
        transition = texts["transition"]
        enabled = np.array([text.lower() in _ENABLED for text in transition.values], np.bool_)[transition.code]
        rows = kept[enabled & ~makes_events(transition)]
        for row in rows[np.argsort(time[rows], kind="stable")].tolist():
            if begun[self._key(row)] > 0:
                begun[self._key(row)] -= 1
            else:
                self._note_opening(row, float(time[row]))
                self.waiting.append(self._task(row, self._age(float(time[row]))))

    def _key(self, row: int) -> tuple[str, str]:
        task = self._task(row, 0.0)
        return task.case, task.activity

    def _task(self, row: int, age: float) -> OpenTask:
        case, activity, resource = (self._texts[field] for field in ("case", "activity", "resource"))
        person = resource.values[resource.code[row]] if self._people[row] >= 0 else ""
        return OpenTask(case.values[case.code[row]], activity.values[activity.code[row]], person, age)

    def _finish(self, row: int, end: float, start: float) -> None:
        self._note_opening(row, start)
        task = self._task(row, 0.0)
        self.done.setdefault(task.case, []).append((end, start, row, task.activity, self._age(end)))

    def _begin(self, row: int, start: float) -> None:
        self._note_opening(row, start)
        self.in_work.append(self._task(row, self._age(start)))

    def _note_opening(self, row: int, time: float) -> None:
        case, age = self._task(row, 0.0).case, self._age(time)
        self.opened[case] = max(age, self.opened.get(case, age))

    def _age(self, time: float) -> float:
        return (self._now - time) / 3600.0


def _repeated(rows: Rows, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return bool[n], whether a row equals an earlier one; times are float64[n], NaN for none."""
    codes = [column.code for column in rows.texts.values()]
    times = [np.where(np.isnan(column), -1.0, column) for column in (start, end)]
    first = first_of_equals([*codes, *times])
    return np.asarray(first != np.arange(len(first)))


def _of_another_century(read: ReadRows, start: np.ndarray, end: np.ndarray, source: str, skip: bool) -> BadRows:
    """Return the rows more than 50 years from the median: such a row would shift the present.

    Raises:
        UserError: there is such a row, and bad rows must not be skipped.
    """
    first, last = np.fmin(start, end), np.fmax(start, end)
    timed, mask = ~np.isnan(last), np.zeros(len(last), np.bool_)
    mask[timed] = of_another_century(first[timed], last[timed])
    numbers, cells = read.rows.numbers, read.rows.cells
    rows = [BadRow(int(numbers[row]), ANOTHER_CENTURY, cells(row)) for row in np.flatnonzero(mask).tolist()]
    wrong = BadRows(mask, rows)
    if not skip:
        require_good_rows(wrong, source, read.table.unit, 0)
    return wrong


def _filled(read: ReadRows) -> dict[str, Times]:
    """Return times in which a row's missing time is replaced by its other one, since an open task is not a bad row."""
    start, end = read.times.get("start"), read.times["end"]
    if start is None:
        return {"end": end._replace(known=end.known | end.empty)} if "transition" not in read.rows.texts else read.times
    filled = {}
    for field, own, other in (("start", start, end), ("end", end, start)):
        columns = [np.where(own.empty, theirs, mine) for mine, theirs in zip(own, other, strict=True)]
        both = own.empty & other.empty
        filled[field] = Times(*columns)._replace(known=np.where(own.empty, other.known | both, own.known))
    return filled


def _seconds_or_nan(times: dict[str, Times], field: str, bad: np.ndarray) -> np.ndarray:
    """Return float64[n], the times of a column in real seconds, NaN for a missing time or a bad row."""
    if field not in times:
        return np.full(len(bad), np.nan)
    return np.where(times[field].known & ~bad, seconds(times[field]), np.nan)


def _present(
    times: dict[str, Times], start: np.ndarray, end: np.ndarray, at: str | None, source: str
) -> tuple[float, datetime]:
    """Return the present in real seconds since 1970, and on the wall clock of the last time before it."""
    real = np.concatenate([start, end])
    offsets = np.concatenate(
        [times[field].offset if field in times else np.zeros(len(start)) for field in ("start", "end")]
    )
    has_offset = any(column.has_offset.any() for column in times.values())
    if at is None:
        now = float(np.nanmax(real))
    else:
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            raise UserError(f"--at: {at[:60]!r} is not an ISO 8601 date and time like 2026-11-23T10:15:00.") from None
        if not 1000 < moment.year < 9000:
            raise UserError(f"--at: {at[:60]!r} is not in the years that are read, 1001 to 8999.")
        if moment.tzinfo is not None and not has_offset:
            raise UserError(f"--at: {at} has a UTC offset, but the times of {source} have none; leave it out.")
        ahead = moment.utcoffset()
        now = (moment.replace(tzinfo=None) - _EPOCH).total_seconds()
        now -= ahead.total_seconds() if ahead is not None else _offset_before(now, real, offsets, wall=True)
    offset = _offset_before(now, real, offsets, wall=False)
    return now, _EPOCH + timedelta(microseconds=round((now + offset) * MICROSECOND))


def _long_silent(times: np.ndarray, now: float, clock: datetime) -> list[str]:
    """Return a sentence if the last event before the present is further back than any pause of the log."""
    before = np.unique(times[times <= now])
    if len(before) == 0:
        return []
    silent = now - before[-1]
    if silent <= max(_LONG_SILENT, np.diff(before, prepend=before[0]).max()):
        return []
    return [
        f"The last event before {clock:%Y-%m-%d %H:%M} is {silent / _DAY:,.0f} days older: is --at right? "
        "All tasks that were open then count as open now."
    ]


def _offset_before(now: float, real: np.ndarray, offsets: np.ndarray, wall: bool) -> float:
    """Return the offset in seconds of the last time not after ``now``, a time of the wall clock or a real one."""
    shown = np.where(np.isnan(real), np.inf, real + offsets * wall)
    before = np.where(shown <= now, shown, -np.inf)
    last = int(before.argmax()) if np.isfinite(before).any() else int(np.nanargmin(shown))
    return float(offsets[last])
