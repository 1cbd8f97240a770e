"""Usual hours of a person, overtime and breaks, rotas, and changing shifts with the shift of each day.

In shifts, hours of the day form a circle, so that a night shift is like any other shift.
"""

import math

import numpy as np

from longstride.process.mining.working_hours import CLOSED_GAP, HOUR, without_short_gaps
from longstride.process.scenario.scenario import HOURS_PER_WEEK

RARE = 0.1
"""Share of a weekday's days with the person from which an hour is usual."""

_LONG, _SURELY = 10, 20.0
"""Fewest usual days of a long absence, and the least negative logarithm of its probability by chance."""

_NEVER = 365_000
"""Day on which a person who has left is back: a thousand years after time 0."""

_NARROW = 0.7
"""Share below which shifts change: range of a day's starts over the range after shuffling the starts of all days."""

_MIN_DAYS = 20
"""Fewest days with at least two starts for detecting changing shifts."""

_ROTAS, _FEWEST_WEEKS = (2, 3, 4), 3
"""Lengths of a rota in weeks, and the fewest weeks with records at each of its places."""

_EVIDENCE, _SURE = 10.0, 4.0
"""Gain of log-likelihood, and number of its standard errors, from which hours follow a rota."""

_OVERTIME, _EXPECTED = 0.05, 7.0
"""Overtime and breaks: events that begin in an hour of the day, as a share of the mean of all hours, are below the
first value. The mean must reach the second value, so that this is not chance."""

_SHUFFLES = 20
_LONGEST = 0.95
"""Quantile of the lengths of days that gives the length of a shift."""


def changes_shifts(start: np.ndarray) -> bool:
    """Return whether one resource's records, which begin at ``start``, float64[n] seconds, show changing shifts."""
    hours = (start // HOUR).astype(np.int64)
    days, day = np.unique(hours // 24, return_inverse=True)
    counts = np.bincount(day)
    kept = (counts >= 2)[day]
    if (counts >= 2).sum() < _MIN_DAYS:
        return False
    day, hour = day[kept], hours[kept] % 24
    rng = np.random.default_rng(0)
    shuffled = np.mean([_mean_length(day, rng.permutation(hour), len(days)) for _ in range(_SHUFFLES)])
    return bool(_mean_length(day, hour, len(days)) < _NARROW * shuffled)


def _mean_length(day: np.ndarray, hour: np.ndarray, days: int) -> float:
    seen = np.zeros((days, 24), np.bool_)
    seen[day, hour] = True
    return float(arcs(seen[seen.any(1)])[1].mean())


def weeks_of_rota(start: np.ndarray) -> int:
    """Return after how many weeks one resource's hours repeat, such as 2 for early and late weeks; 1 if each is alike.

    Each week's starts are predicted from the other weeks at the same place of the rota, and from all others. The rota
    must predict nearly each week better. ``start``, float64[n] seconds, are the times at which its records begin.
    """
    hours = (start // HOUR).astype(np.int64)
    weeks, week = np.unique(hours // HOURS_PER_WEEK, return_inverse=True)
    counts = np.zeros((len(weeks), 24))
    np.add.at(counts, (week, hours % 24), 1.0)
    alone, best, length = _predicted(counts, np.zeros(len(weeks), np.int64)), _EVIDENCE, 1
    for of in _ROTAS:
        places = weeks % of
        if len(np.unique(places)) < of or np.bincount(places).min() < _FEWEST_WEEKS:
            continue
        gain = _predicted(counts, places) - alone
        error = float(np.std(gain, ddof=1)) * math.sqrt(len(gain))
        if gain.sum() > best and gain.sum() > _SURE * error:
            best, length = 1.1 * float(gain.sum()), of  # a longer rota contains each shorter one, if it is a multiple
    return length


def _predicted(counts: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return float64[weeks], log-likelihoods of the starts by hour of the day, float64[weeks, 24], from the others.

    The others are the weeks with the same one of ``places``, int64[weeks].
    """
    together = np.zeros((int(places.max()) + 1, 24))
    np.add.at(together, places, counts)
    others = together[places] - counts + 0.5
    return np.asarray((counts * np.log(others / others.sum(1, keepdims=True))).sum(1))


def arcs(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each day the shortest stretch of hours, on the circle, that contains all hours seen.

    Args:
        seen: bool[k, 24], at least one hour in each row.

    Returns:
        First hour and number of hours of each stretch, both int64[k].
    """
    gap = np.zeros(len(seen), np.int64)
    longest, first = np.full(len(seen), -1), np.zeros(len(seen), np.int64)
    for hour in range(48):  # twice around, so that a gap over midnight is counted whole
        here = seen[:, hour % 24]
        ends = here & (gap > longest) & (hour >= 24)
        longest[ends], first[ends] = gap[ends], hour % 24
        gap = np.where(here, 0, gap + 1)
    return first, 24 - longest


def in_shifts(seen: np.ndarray) -> np.ndarray:
    """Return bool[k, 24], the shift of each day, from the hours ``seen`` on it, bool[k, 24].

    The shift is the stretch of a shift's length that contains the day's hours and those of the most other days. A day
    that is longer than a shift is its own shift.
    """
    first, length = arcs(seen)
    shift = int(np.ceil(np.quantile(length, _LONGEST)))
    within = np.array([((first - begin) % 24 + length <= shift).sum() for begin in range(24)])
    shifts = np.zeros_like(seen)
    for day in range(len(seen)):
        if length[day] >= shift:
            begin, hours = first[day], length[day]
        else:
            begins = np.arange(first[day] + length[day] - shift, first[day] + 1) % 24
            begin, hours = begins[within[begins].argmax()], shift
        shifts[day, np.arange(begin, begin + hours) % 24] = True
    return shifts


def usual_hours(of_cycle: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return bool[k, 24], for each day the hours at which the person is usually seen on this day of the cycle.

    ``of_cycle``, int64[k], are the days with records, ``seen``, bool[k, 24], their hours.
    """
    hours = np.zeros_like(seen)
    for day in np.unique(of_cycle):
        of_day = of_cycle == day
        hours[of_day] = without_short_gaps(seen[of_day].mean(0) >= RARE, CLOSED_GAP)
    return hours


def begun_by_hour(start: np.ndarray, cycle: int) -> np.ndarray:
    """Return int64[weeks, 24], the records that begin in each hour of the day, by the week of a cycle of days."""
    hours = (start // HOUR).astype(np.int64)
    places = hours // HOURS_PER_WEEK % (cycle // 7) * 24 + hours % 24
    return np.bincount(places, minlength=24 * cycle // 7).reshape(-1, 24)


def without_overtime(hours: np.ndarray, begun: np.ndarray, quiet: np.ndarray | None = None) -> np.ndarray:
    """Return ``hours``, bool[24], without those in which hardly any event begins: overtime and breaks.

    ``begun``, int64[24], are the events that begin in each hour. Those at the beginning of a day are overtime of the
    night before. Hours between others are no break if they are ``quiet``, bool[24]: no task waits in them.
    """
    taking = hours_of_taking(hours, begun, quiet)
    return taking if taking.any() else hours


def hours_of_taking(hours: np.ndarray, begun: np.ndarray, quiet: np.ndarray | None = None) -> np.ndarray:
    """Return the ``hours``, bool[24], of :func:`without_overtime`; none if there are too few events."""
    at = np.flatnonzero(hours & (begun > 0))
    if len(at) == 0:
        return np.zeros(24, np.bool_)
    within = hours & (np.arange(24) >= at[0]) & (np.arange(24) <= at[-1])
    mean = float(begun[within].mean())
    if mean < _EXPECTED:
        return np.zeros(24, np.bool_)
    taking = within & (begun >= _OVERTIME * mean)
    if quiet is not None:
        first, last = np.flatnonzero(taking)[[0, -1]]
        taking[first:last] |= (hours & quiet)[first:last]
    return np.asarray(taking)


def quiet_hours(waiting: np.ndarray, days: np.ndarray, cycle: int) -> np.ndarray:
    """Return bool[cycle, 24], the hours in which hardly ever a free person's task waits, so nothing could begin.

    ``waiting``, int64[*], are the hours in which it does, counted from time 0; ``days``, int64[k], those with records.
    """
    waiting, found = waiting[np.isin(waiting // 24, days)], np.zeros((cycle, 24))
    np.add.at(found, (waiting // 24 % cycle, waiting % 24), 1.0)
    return np.asarray(found < _OVERTIME * np.bincount(days % cycle, minlength=cycle)[:, None])


def usual_days(of_cycle: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Return bool[D], the days of the cycle on which a person is regularly present: weekdays, or those of a rota.

    Each is at least a quarter as frequent as the person's most frequent one, and at least a tenth of the log's
    ``days``, int64[D]. On other days the person is present only for the recorded hours. ``of_cycle``, int64[k], are
    the days with records.
    """
    counts = np.bincount(of_cycle, minlength=len(days))
    return np.asarray((counts >= 0.25 * counts.max(initial=1)) & (counts >= RARE * days))


def long_absences(present: np.ndarray, days: np.ndarray) -> list[tuple[int, int]]:
    """Return the first and the last day of a person's long absences: before being hired, after leaving, on leave.

    An absence has many days of the usual weekdays without a record, which is very unlikely at the share of such days
    outside of it. One that lasts to the last of ``days`` never ends.

    Args:
        present: int64[k], days with records, in order, counted from time 0.
        days: int64[n], days of the log.
    """
    if not len(days):
        return []
    usual = usual_days(present % 7, np.bincount(days % 7, minlength=7))
    days, found = days[usual[days % 7]], list[tuple[int, int]]()
    seen = np.isin(days, present)
    runs = np.flatnonzero(np.diff(np.concatenate([[True], seen, [True]]).astype(np.int64))).reshape(-1, 2)
    for first, last in sorted(runs.tolist(), key=lambda run: run[0] - run[1]):
        missing, others = float((~seen).sum()) - (last - first), len(days) - (last - first)
        if last - first < _LONG or (last - first) * -math.log((missing + 0.5) / (others + 1.0)) < _SURELY:
            continue
        begin = 0 if first == 0 else int(days[first - 1]) + 1
        found.append((begin, _NEVER if last == len(days) else int(days[last]) - 1))
        seen[first:last] = True  # shorter ones are judged by the days outside of this one
    return sorted(found)
