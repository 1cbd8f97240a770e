"""Due dates and rates of people in columns of an event log that mining does not need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.reading.attributes import read_rows_with
from longstride.process.event_logs.reading.bad_rows import OPTION as SKIP_OPTION
from longstride.process.event_logs.reading.collect import Rows
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.event_logs.reading.times.parse_times import TimeReader, Times
from longstride.process.event_logs.reading.times.time_layouts import MICROSECOND
from longstride.process.event_logs.reading.times.time_zones import OPTION as ZONE_OPTION
from longstride.process.event_logs.reading.times.time_zones import find_zone, in_zone
from longstride.process.event_logs.reading.words.nothing import nothing_in

_HOUR, _DAY = 3600.0, 86_400.0
"""Seconds."""

_CENTURY = 100 * 365.25 * 24.0
"""Hours; a due date that is farther from its case, such as 9999-12-31, means that there is none."""


@dataclass(frozen=True)
class LogColumns:
    """The file of an event log whose columns settings may name."""

    log: EventLog  # its events
    path: Path  # file
    columns: Mapping[str, str]  # column names that the user gave, by field
    reading: LogReading  # the user's options
    notes: list[str] = field(default_factory=list)  # sentences about what was read

    def allowances(self, name: str) -> np.ndarray:
        """Return float64[cases], hours from the first start of each case to its latest due date, NaN for none.

        A due date without hours lasts until its day ends. One without a UTC offset is by the clock of the log's times.

        Args:
            name: column of due dates.

        Raises:
            UserError: there is no such column, a date cannot be read, its zone is unclear, or no case has one.
        """
        rows, unit = read_rows_with(self.path, self.columns, self.reading, name, "DUE", ("case", "start", "end"))
        dates = rows.texts.pop("wanted")
        encoded = np.array([text.encode("utf-8", "surrogateescape") for text in dates.values] or [b""])
        rows = rows._replace(times=rows.times | {"due": [encoded[dates.code]]})
        reader = TimeReader(self.reading.time_format)
        times = reader.read(rows, str(self.path), unit)[0]
        self._require_dates(rows, times["due"], reader, name, unit)
        if self.reading.time_zone:
            times = {part: in_zone(column, find_zone(self.reading.time_zone)) for part, column in times.items()}
        elif times["due"].has_offset.any() and not times["end"].has_offset.any():
            raise UserError(
                f"DUE is 'column {name}', whose dates have a UTC offset, but the log's times have none; name their "
                f"zone by {ZONE_OPTION}."
            )
        hours = self._hours(rows, times)
        hours[np.abs(hours) > _CENTURY] = np.nan
        due = times["due"]
        if due.known.any() and not (due.clock[due.known] % int(_DAY * MICROSECOND)).any():
            hours += _DAY / _HOUR
            self.notes.append(f"The due dates in {name!r} have no hours; a case is due when that day ends.")
        if not np.isfinite(hours).any():
            raise UserError(f"DUE is 'column {name}', but no case has a date there.")
        return hours

    def rates(self, name: str, people: Sequence[str]) -> dict[str, float]:
        """Return the cost of an hour of each person.

        Args:
            name: column of amounts; those of a person are equal.
            people: names of people.

        Raises:
            UserError: there is no such column, or a person has no amount, different ones, or no number.
        """
        rows = read_rows_with(self.path, self.columns, self.reading, name, "COST", ("resource",))[0]
        who, amount = rows.texts["resource"], rows.texts["wanted"]
        known = ~nothing_in(amount, "amount")
        pairs = np.unique(np.stack([who.code[known], amount.code[known]]), axis=1).T.tolist()
        found: dict[str, float] = {}
        for person, text in ((who.values[w], amount.values[a]) for w, a in pairs if who.values[w] in set(people)):
            value = _amount(text)
            if not 0.0 <= value < np.inf:
                raise UserError(
                    f"COST is 'column {name}', but {text!r} is not an amount; expected a number, 0 or more."
                )
            if found.setdefault(person, value) != value:
                raise UserError(
                    f"COST is 'column {name}', but {person!r} has {found[person]:g} and {value:g} there; expected one "
                    "amount an hour for each person, or write a CSV file."
                )
        for person in people:
            if person in self.log.resources and person not in found:
                raise UserError(f"COST is 'column {name}', but {person!r} has no amount there; 0 is one, too.")
        return found

    def _require_dates(self, rows: Rows, due: Times, reader: TimeReader, name: str, unit: str) -> None:
        wrong = np.flatnonzero(~due.known & ~due.empty)
        if not len(wrong) or self.reading.skip_bad_rows:
            return
        row, others = int(wrong[0]), len(wrong) - 1
        why = reader.describe(rows.time_text("due", row))
        more = f" and {others:,} more" if others else ""
        raise UserError(
            f"DUE is 'column {name}', but {unit} {rows.numbers[row]} has no date there: {why}; correct it{more}, or "
            f"take such cases as ones without a due date with {SKIP_OPTION}."
        )

    def _hours(self, rows: Rows, times: Mapping[str, Times]) -> np.ndarray:
        """Return float64[cases], hours from first start to due date by the rows of the file, and by the log's starts.

        If starts are estimated, the first end is what both have.
        """
        log, cases = self.log, rows.texts["case"]
        number = {case: i for i, case in enumerate(log.cases)}
        case = np.array([number.get(text, -1) for text in cases.values] or [-1])[cases.code]
        end, due, start = times["end"], times["due"], times.get("start")
        if start is not None and not log.starts_estimated:
            begin = Times(*(np.where(start.known, one, other) for one, other in zip(start, end, strict=True)))
        else:
            begin = end
        offset = np.where(due.has_offset & begin.has_offset, due.offset - begin.offset, 0)
        of_begin = _first(case, begin.clock / MICROSECOND, begin.known & (case >= 0), len(log.cases))
        ahead = due.clock / MICROSECOND - offset
        latest = -_first(case, -ahead, due.known & (case >= 0), len(log.cases))
        seconds = latest - of_begin
        if log.starts_estimated:
            seconds += _first(log.case, log.end, np.isfinite(log.end), len(log.cases)) - log.case_times()[0]
        if log.only_dates:
            seconds -= _first(log.case, log.clock_end, np.isfinite(log.end), len(log.cases)) % _DAY
        return np.where(np.isfinite(seconds), seconds, np.nan) / _HOUR


def _first(case: np.ndarray, value: np.ndarray, usable: np.ndarray, cases: int) -> np.ndarray:
    """Return float64[cases], the least usable value of each case; infinite for none."""
    first = np.full(cases, np.inf)
    np.minimum.at(first, case[usable], value[usable])
    return first


def _amount(text: str) -> float:
    """Return a text as a number; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan
