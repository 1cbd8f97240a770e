"""Holidays and absences of a scenario: exceptions from the weekly hours for all people or for one.

A moment is a number of time units since time 0, or a date like ``"2026-04-06"`` if the scenario's ``begins`` gives the
Monday of time 0. Inside the simulator absences are whole hours since time 0.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

import numpy as np
from pydantic import Field

from longstride.process.scenario.schema import Strict

_HOURS_A_DAY = 24
_NEVER = 2.0**40
"""Hours that no episode reaches; later times, such as the end of a permanent absence, become this one."""

Moment = float | str
"""Time units since time 0, or an ISO date."""

T = TypeVar("T", int, float)


class Absence(Strict):
    """A stretch of time in which a person is absent.

    Dates are whole days: ``to`` is the last day of the absence. Numbers are times: at ``to`` the person returns.
    """

    person: str
    from_: Moment = Field(alias="from")
    to: Moment


def hours_of(absence: Absence, begins: str | None, hour: float) -> tuple[int, int]:
    """Return the first hour of an absence and the hour after its last, counted from time 0."""
    first, last = (_hour_of(moment, begins, hour) for moment in (absence.from_, absence.to))
    return first, last + _HOURS_A_DAY if isinstance(absence.to, str) else last


def hour_of_clock(clock: str) -> float:
    """Return the hours of a time of day ``"HH:MM"``."""
    hours, minutes = clock.split(":")
    return int(hours) + int(minutes) / 60


def day_of(day: str, begins: str | None) -> int:
    """Return the number of a date, counted from 0 at time 0.

    Raises:
        ValueError: the text is not a date, or the date of time 0 is unknown.
    """
    if begins is None:
        raise ValueError(
            f"{day!r} is a date, but the scenario does not give the date of time 0; add begins, a Monday like "
            '"2026-01-05", or give a number of time units'
        )
    try:
        return (date.fromisoformat(day) - date.fromisoformat(begins)).days
    except ValueError:
        raise ValueError(f"{day!r} is not a date like 2026-04-06") from None


def leave_arrays(
    absences: Sequence[Absence], holidays: Sequence[Moment], begins: str | None, hour: float, resources: Sequence[str]
) -> dict[str, Any]:
    """Return ``leave_first``, int64[R + 1], and ``leave_begin`` and ``leave_end``, int64[K], of the parameters.

    They are the absences of each resource in order and without overlaps, as hours from time 0.
    """
    days = sorted({_day_of(moment, begins, hour) for moment in holidays})
    off = [(d * _HOURS_A_DAY, (d + 1) * _HOURS_A_DAY) for d in days]
    own: dict[str, list[tuple[int, int]]] = {}
    for absence in absences:
        own.setdefault(absence.person, []).append(hours_of(absence, begins, hour))
    rows = [merged([*off, *own.get(name, ())]) for name in resources]
    every = np.array([stretch for row in rows for stretch in row], np.int64).reshape(-1, 2)
    return {
        "leave_first": np.cumsum([0, *map(len, rows)]).astype(np.int64),
        "leave_begin": every[:, 0],
        "leave_end": every[:, 1],
    }


def merged(stretches: Iterable[tuple[T, T]]) -> list[tuple[T, T]]:
    """Return stretches of time in order, and those that overlap or touch as one."""
    found: list[tuple[T, T]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _hour_of(moment: Moment, begins: str | None, hour: float) -> int:
    if isinstance(moment, str):
        return day_of(moment, begins) * _HOURS_A_DAY
    return round(min(float(moment) / hour, _NEVER))


def _day_of(moment: Moment, begins: str | None, hour: float) -> int:
    if isinstance(moment, str):
        return day_of(moment, begins)
    return math.floor(min(float(moment) / hour, _NEVER) / _HOURS_A_DAY)


def problems_of_calendar(
    calendar: Mapping[str, Any], begins: str | None, hour: float, resources: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each problem in ``absences``, ``holidays`` and ``begins`` of a scenario."""
    if begins is not None:
        try:
            monday = date.fromisoformat(begins).weekday() == 0
        except ValueError:
            monday = False
        if not monday:
            yield f"begins: {begins!r} is not the date of a Monday like 2026-01-05."
            return
    known = set(resources)
    for i, absence in enumerate(calendar["absences"]):
        where = f"absences[{i}]"
        if absence.person not in known:
            yield f"{where}.person: {absence.person!r} is not listed in the scenario's resources."
        for name, moment in (("from", absence.from_), ("to", absence.to)):
            yield from _problems_of_moment(f"{where}.{name}", moment, begins, None if math.isnan(hour) else hour)
        first, last = hours_of(absence, begins, hour)
        if first >= last:
            yield f"{where}: from {absence.from_} to {absence.to} is not a stretch of time."
    for i, moment in enumerate(calendar["holidays"]):
        yield from _problems_of_moment(f"holidays[{i}]", moment, begins, None)


def _problems_of_moment(where: str, moment: Moment, begins: str | None, whole: float | None) -> Iterator[str]:
    """Yield problems of a moment; numbers must be multiples of the hour ``whole``, None for no such rule."""
    if isinstance(moment, str):
        try:
            day_of(moment, begins)
        except ValueError as error:
            yield f"{where}: {error}."
    elif moment < 0:
        yield f"{where}: {moment:g} is before the episode begins."
    elif whole is not None and abs(moment / whole - round(moment / whole)) > 1e-6:
        yield f"{where}: {moment:g} is not a whole number of hours (an hour is {whole:g} time units)."
