"""Arrivals that a log does not show: cases that have waited for people before their first event.

A log without an event at arrival shows a case from its first start on. While a person who does the first activity is on
duty and free, no case waits, so a case that begins then arrives then. A case that begins when such a person becomes
free, or comes on duty, has waited: it arrived after the last moment with a free person, and not after the case that
began next. Within these limits its arrival is drawn as that of a Poisson process. Arrivals while no one is on duty are
put into the hour before duty, since the log does not tell when they come.
"""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.delays.free_moments import united
from longstride.process.mining.delays.waits import outside_of_work
from longstride.process.mining.rosters import on_duty
from longstride.process.mining.working_hours import HOUR

_AT_ONCE = 1.0
"""Seconds after a person's last event, or the beginning of duty, within which an event begins at once."""

_FEWEST, _SHARE = 20, 0.05
"""Number of cases, and their share, that begin as soon as a person's last event has ended, from which cases wait."""

_USUAL = 0.2
"""Events of a person, as a share of the mean person's, from which the person usually does an activity."""

_SWEEPS = 100
"""Draws of all arrivals, of which the last one counts."""


class Unseen(NamedTuple):
    """Waiting before the first start of the cases of a log."""

    waited: np.ndarray  # float64[cases], hours before the first start, 0 for a case that has not waited
    notes: list[str]  # a sentence, if cases have waited


def unseen_waits(log: EventLog, open_hours: np.ndarray) -> Unseen:
    """Return how long cases have waited for people before their first start; ``open_hours`` are bool[R, 168].

    A log whose starts are estimated, or without hours, does not tell.
    """
    none = Unseen(np.zeros(len(log.cases)), [])
    if log.starts_estimated or log.only_dates:
        return none
    order = np.lexsort((np.arange(len(log)), log.end, log.clock_start, log.case))
    first = order[np.append(True, np.diff(log.case[order]) != 0)]
    first = first[np.lexsort((log.end[first], log.clock_start[first]))]
    people = _People(log, open_hours)
    rng, waited, queued = np.random.default_rng(0), np.zeros(len(log.cases)), 0
    for mine in rows_by(log.activity[first], len(log.activities)):
        events = first[mine]
        events = events[(log.resource[events] >= 0) & (log.end[events] - log.start[events] > _AT_ONCE)]
        if len(events):
            found, after_work = people.waits(events, rng)
            waited[log.case[events]] = found
            queued += after_work
    if queued < max(_FEWEST, _SHARE * len(log.cases)):
        return none
    share, mean = float((waited > 0.0).mean()), float(waited.mean())
    note = (
        f"No event tells when a case arrives. {share:.0%} of the cases begin just when a person becomes free or comes "
        f"on duty, so they have waited: arrivals are earlier than first starts, by {mean:.2g} h on average. Arrivals "
        "while no one works are put into the hour before. An event at arrival would tell more."
    )
    return Unseen(waited, [note])


class _People:
    """When the people of a log are on duty and free.

    Args:
        log: event log.
        open_hours: bool[R, 168], open hours of the week of each person.
    """

    def __init__(self, log: EventLog, open_hours: np.ndarray) -> None:
        self._log, self._open_hours, self._work = log, open_hours, log.stretches()
        self._of_activity = rows_by(log.activity, len(log.activities))
        self._worked = rows_by(self._work.resource, len(log.resources))
        self._known = dict[int, tuple[np.ndarray, np.ndarray]]()

    def waits(self, events: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return the hours that cases have waited before their first events, and how many began after a person's work.

        Args:
            events: int64[k], first events of cases, all of one activity, in the order of their starts.
            rng: generator for moments that the log leaves open.
        """
        log, start = self._log, self._log.clock_start[events]
        every = log.resource[self._of_activity[log.activity[events[0]]]]
        able, counts = np.unique(every[every >= 0], return_counts=True)
        times = [self._times(int(r)) for r in able[counts >= _USUAL * counts.mean()]]
        duty, free = (united(list(part)) for part in zip(*times, strict=True))
        unknown = np.zeros(len(events)), 0
        if len(free) == 0:
            return unknown
        after_work, at_once = np.zeros(len(events), np.bool_), np.zeros(len(events), np.bool_)
        for r, mine in enumerate(rows_by(log.resource[events], len(log.resources))):
            if len(mine):
                after_work[mine] = _soon_after(self._work.clock_end[self._worked[r]], start[mine])
                at_once[mine] = after_work[mine] | _soon_after(self._times(r)[0][:, 0], start[mine])
        last = np.searchsorted(free[:, 0], start - _AT_ONCE, side="left") - 1
        since = np.where(last >= 0, free[np.maximum(last, 0), 1], start)  # the last moment with a free person
        waits = at_once & (since < start - _AT_ONCE)
        if not waits.any():
            return unknown
        waited = np.zeros(len(events))
        waited[waits] = start[waits] - _drawn(duty, since[waits], start[waits], len(events), rng)
        return waited / HOUR, int((after_work & waits).sum())

    def _times(self, resource: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of duty, and those without an open record, in seconds; float64[k, 2] each."""
        if resource not in self._known:
            mine = self._worked[resource]
            start, end = (
                self._work.clock_start[mine],
                np.maximum(self._work.clock_end[mine], self._work.clock_start[mine]),
            )
            duty = on_duty(start, end, self._open_hours[resource])
            self._known[resource] = duty, outside_of_work(duty, start, end)
        return self._known[resource]


def _soon_after(moments: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return bool[k], whether one of some moments lies just before each start, or at it."""
    if len(moments) == 0:
        return np.zeros(len(start), np.bool_)
    moments = np.sort(moments)
    last = np.searchsorted(moments, start, side="right") - 1
    return np.asarray((last >= 0) & (start - moments[np.maximum(last, 0)] <= _AT_ONCE))


def _drawn(duty: np.ndarray, since: np.ndarray, start: np.ndarray, cases: int, rng: np.random.Generator) -> np.ndarray:
    """Return float64[k], a possible arrival of each case that has waited, in seconds, by Gibbs sampling.

    Arrivals come at one rate while anyone is on duty, and at another in the hour before; both follow from the draws.

    Args:
        duty: float64[n, 2], times with a person on duty, in order.
        since: float64[k], the last moment before each start at which a person was free.
        start: float64[k], first starts, in order; cases with the same ``since`` began in the order of their arrivals.
        cases: number of cases that begin with the activity, those that have not waited among them.
        rng: generator.
    """
    # Each stretch of duty has a gap before it, of an hour, or less where the last stretch is not so long ago.
    before = np.maximum(duty[:, 0] - HOUR, np.append(-np.inf, duty[:-1, 1]))
    edges = np.column_stack([before, duty]).ravel()
    lengths, is_gap = np.append(0.0, np.diff(edges)) / HOUR, np.tile([False, True, False], len(duty))
    lengths[::3] = 0.0  # from the end of duty to the gap no case comes
    on_duty_hours, gap = lengths[~is_gap].sum(), 1.0
    arrived = _evenly(since, start, edges, np.cumsum(np.where(is_gap, gap, lengths)))
    together = np.diff(since, append=np.inf) == 0.0
    for _ in range(_SWEEPS):
        clock = np.cumsum(np.where(is_gap, gap, lengths))
        now, low, high = (np.interp(t, edges, clock) for t in (arrived, since, start))
        for some in (slice(0, None, 2), slice(1, None, 2)):
            least = np.where(np.append(False, together[:-1]), np.append(0.0, now[:-1]), low)[some]
            most = np.minimum(high, np.where(together, np.append(now[1:], np.inf), np.inf))[some]
            now[some] = least + np.maximum(most - least, 0.0) * rng.random(len(least))
        arrived = np.interp(now, clock, edges)
        in_gaps = float(is_gap[np.searchsorted(edges, arrived).clip(max=len(edges) - 1)].sum())
        gap = max(in_gaps, 1.0) / len(duty) / (max(cases - in_gaps, 1.0) / on_duty_hours)
    return arrived


def _evenly(since: np.ndarray, start: np.ndarray, edges: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Return float64[k], arrivals at even distances between a free moment and the last start of a queue."""
    low, high = (np.interp(t, edges, clock) for t in (since, start))
    first, end = np.searchsorted(since, since), np.searchsorted(since, since, side="right")
    share = (np.arange(len(since)) - first + 1) / (end - first + 1)
    return np.asarray(np.interp(np.minimum(low + share * (high[end - 1] - low), high), clock, edges))
