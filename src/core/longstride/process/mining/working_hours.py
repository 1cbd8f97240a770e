"""Working time in a log: hours of the week, and the share of each record that is work.

Times are float64[n] seconds since a Monday 00:00; ``open_hours``, bool[168], are the open hours of the week.
"""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.scenario.scenario import HOURS_PER_WEEK

HOUR = 3600.0
"""Seconds."""

RARE_SHARE = 0.005
"""Largest share of starts and ends in the rarest hours of the week, which are closed."""

CLOSED_GAP = 7
"""Longest gap in hours between starts and ends that counts as open: nights are longer, but records that fill a shift
of eight hours start and end only at its edges."""

IDLE_GAP = 2
"""Longest gap in hours between records that counts as idle time on duty."""

BREAK_SHARE = 0.1
"""Share of a resource's days with a record in an hour of the day from which that hour is not a break."""

_OVERTIME = 1.05
"""Ratio of logged hours to logged open hours up to which work outside of open hours is overtime, not a pause."""

_FEWER, _EVIDENCE = 0.2, 10.0
"""Share of the expected ends below which work rests, and the difference of log-likelihoods that shows it: the rarest
of a hundred hours of the week may have no end by chance."""


_FEWEST_RECORDS, _MOST_OPEN = 50, 0.99
"""Fewest records that tell how a person works on several, and the share of starts after which at most the found number
is open."""


class WorkedTime(NamedTuple):
    """Working time of a log with n events and R resources.

    The work of an event is its time within open hours and outside of suspensions, divided by the number of its
    resource's open records, unless these are worked on at once. If hardly any time lies outside of open hours, that is
    overtime and counts as well.
    """

    open_hours: np.ndarray  # bool[168], hours of the week in which the organisation works
    own_hours: np.ndarray  # bool[R, 168], the same without the hours in which a resource's open records rest
    hours: np.ndarray  # float64[n], work of each event in hours
    seen: np.ndarray  # int64[R, 168], weeks in which each resource has a record in that (open) hour of the week
    at_once: np.ndarray  # int64[R], records that each resource works on at once, each at full speed; 1: they share it


def worked_time(log: EventLog) -> WorkedTime:
    """Return the working time of a log."""
    open_hours, work = find_open_hours(log), log.stretches()
    seen = np.zeros((len(log.resources), HOURS_PER_WEEK), np.int64)
    own = np.tile(open_hours, (len(log.resources), 1))
    hours = np.empty(len(work.event))
    end = np.maximum(work.clock_end, work.clock_start)
    within = float((open_time(open_hours, end) - open_time(open_hours, work.clock_start)).sum())
    overtime = float((end - work.clock_start).sum()) / HOUR <= _OVERTIME * within
    alone = np.flatnonzero(work.resource < 0)
    hours[alone] = open_time(open_hours, end[alone]) - open_time(open_hours, work.clock_start[alone])
    at_once = tasks_at_once(log, open_hours)
    for r, mine in enumerate(rows_by(work.resource, len(log.resources))):
        if not log.only_dates:
            own[r] &= ~resting_hours(work.clock_start[mine], end[mine], open_hours)
        worked = own[r] | (overtime & ~open_hours)
        spent = open_time(worked, end[mine]) - open_time(worked, work.clock_start[mine])
        hours[mine] = spent if at_once[r] > 1 else divided_time(worked, work.clock_start[mine], end[mine])
        seen[r] = weeks_seen(work.clock_start[mine], end[mine]) * own[r]
    # Durations are real time. Wall-clock time differs in the night when the clocks change.
    hours = work.total(hours, len(log))
    clock = work.total((end - work.clock_start) / HOUR, len(log))
    share = np.divide(hours, clock, out=np.ones(len(log)), where=clock > 0)
    duration = work.total((work.end - work.start) / HOUR, len(log))
    return WorkedTime(open_hours, own, np.where(share > 0, share, 1.0) * duration, seen, at_once)


def tasks_at_once(log: EventLog, open_hours: np.ndarray | None = None) -> np.ndarray:
    """Return int64[R], how many records each resource works on at once, each at full speed; 1 if they share its time.

    Where records share the time of a person, they end at one rate in all, however many are open. Where each has full
    speed, they end at a rate in proportion to their number. The likelihoods of both decide, for all people together
    and for each. A batch is one record. ``open_hours``, bool[168], are found if they are not given.
    """
    if log.at_once is not None:
        return np.array([log.at_once.get(name, 1) for name in log.resources], np.int64)
    found, gains = np.ones(len(log.resources), np.int64), np.zeros(len(log.resources))
    if log.only_dates or log.starts_estimated:
        return found
    open_hours, work = find_open_hours(log) if open_hours is None else open_hours, log.stretches()
    for r, mine in enumerate(rows_by(work.resource, len(log.resources))):
        spans = np.unique(work.clock_start[mine] + 1j * work.clock_end[mine])
        start, end = spans.real, spans.imag
        start, end = start[end > start], end[end > start]
        if len(start) < _FEWEST_RECORDS:
            continue
        times = np.unique(np.concatenate([start, end]))
        begun, ended = (np.bincount(np.searchsorted(times, t), minlength=len(times)) for t in (start, end))
        count = np.cumsum(begun - ended)
        spent, before = np.diff(open_time(open_hours, times)), np.append(0, count[:-1])
        working, every = float(spent[count[:-1] > 0].sum()), float(spent @ count[:-1])
        # Poisson: sum of ln(n) over the ends minus their number times ln(mean n), both rates at their best values.
        gains[r] = float(ended @ np.log(np.maximum(before, 1))) - len(end) * np.log(
            max(every, 1e-9) / max(working, 1e-9)
        )
        found[r] = max(int(np.quantile(np.repeat(count, begun), _MOST_OPEN)), 1)
    return np.where((gains > _EVIDENCE) | ((gains > 0.0) & (gains.sum() > _EVIDENCE)), found, 1)


def of_people(log: EventLog) -> np.ndarray:
    """Return bool[n], the events of the activities that people do; all events if the log names nobody.

    An activity without any named person, such as a submission on a website, does not show when people work.
    """
    done = np.zeros(len(log.activities), np.bool_)
    done[log.activity[log.resource >= 0]] = True
    return np.asarray(done[log.activity] | ~done.any())


def find_open_hours(log: EventLog) -> np.ndarray:
    """Return bool[168], the hours of the week with starts and ends of people's events.

    The rarest hours are left out and short gaps are filled, unless work rests in them. A log without hours has whole
    days.
    """
    people = of_people(log)
    # The day of a log without hours ends at 24:00, which is not a moment of the next day.
    moments = np.concatenate([log.clock_start[people], log.clock_end[people] - (1.0 if log.only_dates else 0.0)])
    counts = np.bincount((moments // HOUR).astype(np.int64) % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    if log.only_dates:
        return np.repeat(counts.reshape(7, 24).sum(1) > RARE_SHARE * len(moments), 24)
    filled = _without_short_gaps_of_a_week(~_rarest(counts))
    work = log.stretches()
    done = people[work.event]
    return np.asarray(filled & ~resting_hours(work.clock_start[done], work.clock_end[done], filled))


def _without_short_gaps_of_a_week(hours: np.ndarray) -> np.ndarray:
    # Three weeks in a row, so that a gap can span the end of the week.
    return np.asarray(without_short_gaps(np.tile(hours, 3), CLOSED_GAP)[HOURS_PER_WEEK : 2 * HOURS_PER_WEEK])


def breaks_of(open_hours: np.ndarray) -> np.ndarray:
    """Return bool[168], the short gaps between ``open_hours``, bool[168]: only those in which work rests are closed."""
    return np.asarray(_without_short_gaps_of_a_week(open_hours) & ~open_hours)


def _rarest(counts: np.ndarray) -> np.ndarray:
    """Return bool[168], the hours with the fewest moments, which together hold at most a small share of them."""
    order = np.argsort(counts, kind="stable")
    rare = np.zeros(HOURS_PER_WEEK, np.bool_)
    rare[order[np.cumsum(counts[order]) <= RARE_SHARE * counts.sum()]] = True
    return rare


def resting_hours(start: np.ndarray, end: np.ndarray, open_hours: np.ndarray) -> np.ndarray:
    """Return bool[168], the ``open_hours``, bool[168], in which records stay open but work rests, such as at noon.

    Hardly any record begins or ends in such an hour. That alone may be a shift that one record fills. But work that
    went on would also end, at the rate of the hours before and after. So a Poisson number of ends at that rate must be
    much less likely than the observed number. ``start`` and ``end`` are float64[n].
    """
    spans = np.unique(start + 1j * np.maximum(start, end))  # the records of a batch are one observation
    first, last = (spans.real // HOUR).astype(np.int64), (spans.imag // HOUR).astype(np.int64)
    nothing = np.zeros(HOURS_PER_WEEK, np.bool_)
    if len(first) == 0 or not open_hours.any():
        return nothing
    rare = open_hours & _rarest(_by_hour(first) + _by_hour(last))
    at = np.flatnonzero(open_hours)
    usual = at[~rare[at]]
    if len(usual) in (0, len(at)):
        return nothing
    still_open, ends = _open_at_the_hour(first, last), _by_hour(last[last > first])
    rate = np.divide(ends, still_open, out=np.zeros(HOURS_PER_WEEK), where=still_open > 0)
    gaps = np.flatnonzero(rare)
    after = np.searchsorted(usual, gaps) % len(usual)
    slower = np.minimum(rate[usual[after - 1]], rate[usual[after]])
    # All hours of a gap have the same neighbours.
    expected = np.bincount(after, still_open[gaps] * slower, len(usual))
    seen = np.bincount(after, ends[gaps], len(usual))
    likelier = expected - seen + seen * np.log(np.maximum(seen, 1e-9) / np.maximum(expected, 1e-9))
    likelier[seen >= _FEWER * expected] = 0.0
    # Gaps that follow the same hour of the day, such as each noon, are evidence together.
    same = (usual[np.arange(len(usual)) - 1] % 24).astype(np.int64)
    together = np.bincount(same, likelier, 24)[same]
    nothing[gaps] = ((likelier > 0.0) & (together > _EVIDENCE))[after]
    return nothing


def _by_hour(hours: np.ndarray) -> np.ndarray:
    return np.bincount(hours % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)


def _open_at_the_hour(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return int64[168], how many records are open at the beginning of each hour of the week, in all weeks.

    ``first`` and ``last``, int64[n], are the hours in which each record begins and ends.
    """
    origin = int(first.min()) // HOURS_PER_WEEK * HOURS_PER_WEEK
    count = (int(last.max()) - origin) // HOURS_PER_WEEK * HOURS_PER_WEEK + HOURS_PER_WEEK + 1
    change = np.bincount(first - origin + 1, minlength=count + 1) - np.bincount(last - origin + 1, minlength=count + 1)
    return np.asarray(np.cumsum(change)[: count - 1].reshape(-1, HOURS_PER_WEEK).sum(0))


def open_time(open_hours: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Return float64[n], the open hours between the Monday 00:00 and each time."""
    upto = np.concatenate([[0.0], np.cumsum(open_hours)])
    weeks, rest = np.divmod(clock / HOUR, HOURS_PER_WEEK)
    return np.asarray(weeks * upto[-1] + np.interp(rest, np.arange(HOURS_PER_WEEK + 1), upto))


def divided_time(open_hours: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return float64[n], the open hours of each record of one resource; simultaneous records share them equally."""
    times = np.unique(np.concatenate([start, end]))
    change = np.bincount(np.searchsorted(times, start), minlength=len(times))
    change = change - np.bincount(np.searchsorted(times, end), minlength=len(times))
    at_once = np.maximum(np.cumsum(change)[:-1], 1)
    pieces = np.diff(open_time(open_hours, times)) / at_once
    upto = np.concatenate([[0.0], np.cumsum(pieces)])
    return np.asarray(upto[np.searchsorted(times, end)] - upto[np.searchsorted(times, start)])


def weeks_seen(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return int64[168], the number of weeks in which one resource is on duty in each hour of the week.

    An hour counts if a record begins in it or lasts to its end. An hour in which a record only ends does not count:
    as in the simulator, a resource finishes its task after its shift but takes no new one.
    """
    first, present = present_hours(start, end)
    touched = np.concatenate([np.zeros(first, np.bool_), present])
    touched = np.pad(touched, (0, -len(touched) % HOURS_PER_WEEK))
    return np.asarray(touched.reshape(-1, HOURS_PER_WEEK).sum(0))


def present_hours(
    start: np.ndarray, end: np.ndarray, open_hours: np.ndarray | None = None, breaks: bool = False
) -> tuple[int, np.ndarray]:
    """Return an hour, counted from the Monday 00:00, and bool[n], whether one resource is present from that hour on.

    It is present in the hours of :func:`weeks_seen`, and short gaps between them are filled. With ``breaks`` a gap
    stays if it lies in an hour of the day, such as noon, in which the resource has records on under a tenth of its
    days.

    Outside of ``open_hours``, bool[168], if given, an hour counts only if a record begins in it: a record that stays
    open over night does not mean that a person works at night.
    """
    first = np.asarray(start // HOUR, np.int64)
    last = np.maximum(first, np.asarray(end // HOUR, np.int64) - 1)
    origin = int(first.min())
    change = np.zeros(int(last.max()) - origin + 2, np.int64)
    np.add.at(change, first - origin, 1)
    np.add.at(change, last - origin + 1, -1)
    touched = np.cumsum(change[:-1]) > 0
    if open_hours is not None:
        touched &= open_hours[(origin + np.arange(len(touched))) % HOURS_PER_WEEK]
        touched[first - origin] = True
    filled = without_short_gaps(touched, IDLE_GAP)
    if open_hours is not None:
        filled &= touched | ~breaks_of(open_hours)[(origin + np.arange(len(touched))) % HOURS_PER_WEEK]
    if not breaks:
        return origin, filled
    hour = (origin + np.arange(len(touched))) % 24
    is_break = np.bincount(hour, touched, 24) < BREAK_SHARE * np.bincount(hour, filled, 24)
    return origin, touched | (filled & ~is_break[hour])


def without_short_gaps(touched: np.ndarray, longest: int) -> np.ndarray:
    """Return bool[n] in which gaps of up to ``longest`` between True values are filled."""
    at = np.flatnonzero(touched)
    gaps = np.diff(at) - 1
    filled = touched.copy()
    for i in np.flatnonzero((gaps > 0) & (gaps <= longest)):
        filled[at[i] : at[i + 1]] = True
    return filled
