"""Estimates delays from the moments with a free person, independently of queues.

While a person who usually does an activity is on duty and free, no case waits for people: a case that has not begun the
activity is still in its delay, here called a rest, and a case that begins it then has just ended its rest. In such
moments rests end at the rate at which delays of that age end, independently of earlier queues. So the product-limit
estimator for observations that begin late and are censored (Kaplan and Meier 1958; Lynden-Bell 1971) gives the
distribution of the delays. If people are nearly always busy, these moments are few. But the calibration by simulations
is even less certain then, because a queue depends on the random events of months.
"""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.case_order import CaseOrder
from longstride.process.mining.delays.clock import open_time_until
from longstride.process.mining.delays.waits import outside_of_work
from longstride.process.mining.rosters import surely_on_duty
from longstride.process.mining.working_hours import HOUR, of_people
from longstride.process.scenario.scenario import HOURS_PER_WEEK

_AT_ONCE = 1.0
"""Seconds within which an event begins at once, and for which a person must have been free before."""

_FEWEST = 5
"""Fewest resting cases for which an end counts for the rate."""

_BEGINS = 0.2
"""Starts of events in an hour of the week, as a share of the mean hour's, from which the hour counts."""

_USUAL = 0.2
"""Events of a person, as a share of the mean person's, from which the person usually does an activity."""

_MOST_PIECES = 10_000_000
"""Most free intervals within rests; if there are more, only every k-th rest is used."""

_MODEL = 0.05
"""Share of an estimate that is added to its error, because duty and the clock of delays are not known exactly."""

_MUCH = 0.05
"""Sampling error of the calibration, as a share of an activity's waiting, from which free moments are used."""


class TotalDelay(NamedTuple):
    """Sum of all delays before the events of an activity, in open hours, and its standard error."""

    hours: float
    error: float


def is_noisy(sampling_error: np.ndarray, least: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Return bool[A], whether the sampling error is a large part of an activity's waiting; arguments as of blend."""
    return np.asarray((room > 0.0) & (sampling_error > _MUCH * (least + room)))


def blend(
    share: np.ndarray,
    sampling_error: np.ndarray,
    least: np.ndarray,
    room: np.ndarray,
    found: list[TotalDelay | None],
) -> tuple[np.ndarray, np.ndarray]:
    """Return shares that combine simulations and free moments by their errors.

    Args:
        share: float64[A], shares from simulations.
        sampling_error: float64[A], standard error of the delays that follow from them, in open hours.
        least: float64[A], proven delays.
        room: float64[A], unexplained time.
        found: delays from free moments; None if only simulations count.

    Returns:
        The shares, float64[A], and bool[A], the activities whose share was changed.
    """
    settled, changed = share.copy(), np.zeros(len(share), np.bool_)
    for a, total in enumerate(found):
        if total is None:
            continue
        error = np.hypot(total.error, _MODEL * total.hours)
        # Two independent estimates of least variance together: each has a weight inverse to its variance.
        weight = sampling_error[a] ** 2 / (sampling_error[a] ** 2 + error**2)
        hours = (1.0 - weight) * (least[a] + share[a] * room[a]) + weight * total.hours
        settled[a] = min(max((hours - least[a]) / room[a], 0.0), 1.0)
        changed[a] = True
    return settled, changed


class FreeMoments:
    """The moments of a log in which a person is free for an activity.

    Args:
        log: event log.
        cases: its cases, which define the order of all arrays.
        weights: clock of the delays, float64[168].
        open_hours: open hours of the week, bool[168].
    """

    def __init__(self, log: EventLog, cases: CaseOrder, weights: np.ndarray, open_hours: np.ndarray) -> None:
        self._weights, self._open_hours, order = weights, open_hours, cases.order
        # The clock of delays runs fast in hours with many starts, such as a morning after a queue has grown over night.
        # Ages weigh all hours with starts equally, so that rests end at the same rate in each.
        hours = (log.clock_start[of_people(log)] // HOUR).astype(np.int64)
        begun = np.bincount(hours % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
        self._even = (begun >= _BEGINS * begun[begun > 0].mean()).astype(np.float64)
        ahead = log.clock_start[order] - log.start[order]
        self._enabled, self._start = cases.enabled + ahead, log.clock_start[order]
        self._activity, self._resource = log.activity[order], log.resource[order]
        self._of_activity = rows_by(self._activity, len(log.activities))
        work = log.stretches()
        in_order = np.argsort(np.argsort(order)[work.event], kind="stable")
        self._work = np.stack([work.clock_start, np.maximum(work.clock_end, work.clock_start)])[:, in_order]
        self._of_resource = rows_by(work.resource[in_order], len(log.resources))
        self._end = np.maximum(log.clock_end[order], self._start)
        named = np.bincount(self._activity, self._resource >= 0, len(log.activities)) > 0
        self._unnamed = (self._resource < 0) & named[self._activity]  # done by an unnamed person, who is not free then
        self._free = dict[int, np.ndarray]()  # by resource, since one may do several activities
        self._rests = np.ones(len(order), np.bool_)
        self._rests[cases.first[:-1]] = False  # the time before a case's first event is unknown

    def total_delay(self, activity: int) -> TotalDelay | None:
        """Return the delays before an activity; None if there are too few free moments."""
        mine, people = self._of_activity[activity], self._resource[self._of_activity[activity]]
        mine = mine[self._rests[mine]]
        people, events = np.unique(people[people >= 0], return_counts=True)
        people = people[events >= _USUAL * events.mean()] if len(people) else people
        if len(mine) == 0 or len(people) == 0:
            return None
        free = united([self._free_times(int(r)) for r in people])
        if self._unnamed.any() and len(free):
            free = outside_of_work(free, self._start[self._unnamed], self._end[self._unnamed])
        if len(free) == 0:
            return None
        mean = product_limit_mean(*self._ages(free, self._enabled[mine], self._start[mine]))
        even, by_clock = (self._waiting(weights, mine) for weights in (self._even, self._weights))
        if mean is None or even <= 0.0:
            return None
        scale = len(mine) * by_clock / even
        return TotalDelay(scale * mean[0], scale * mean[1])

    def _waiting(self, weights: np.ndarray, events: np.ndarray) -> float:
        """Return the sum of the waits before some events, in hours of a clock."""
        begin, end = (open_time_until(weights, t[events]) for t in (self._enabled, self._start))
        return float((end - begin).sum())

    def _free_times(self, resource: int) -> np.ndarray:
        if resource not in self._free:
            start, end = self._work[:, self._of_resource[resource]]
            self._free[resource] = outside_of_work(surely_on_duty(start, end, self._open_hours), start, end)
        return self._free[resource]

    def _ages(
        self, free: np.ndarray, enabled: np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ages of rests in hours at which an observation begins, at which it stops, and at which a rest ends.

        An age of -1 means that a rest is observed from its beginning.
        """
        at_once = start - enabled < _AT_ONCE
        first = np.searchsorted(free[:, 1], enabled, side="right")
        last = np.searchsorted(free[:, 0], start - _AT_ONCE, side="left")  # exclusive
        # Rests that end at once are observed only if a person was free before.
        before = np.maximum(last - 1, 0)
        was_free = (last > 0) & (free[before, 1] >= start)
        first = np.where(at_once, before, first)
        count = np.where(at_once, was_free, np.maximum(last - first, 0))
        count[np.arange(len(start)) % max(int(np.ceil(count.sum() / _MOST_PIECES)), 1) > 0] = 0
        event = np.repeat(np.arange(len(start)), count)
        place = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        begin, stop = np.maximum(free[place, 0], enabled[event]), np.minimum(free[place, 1], start[event])
        base, begin, stop = (open_time_until(self._even, t) for t in (enabled[event], begin, stop))
        whole = free[place, 0] <= enabled[event]
        return np.where(whole, -1.0, begin - base), stop - base, (stop - base)[free[place, 1] >= start[event]]


def united(intervals: list[np.ndarray]) -> np.ndarray:
    """Return float64[k, 2], the union of intervals, in order and disjoint."""
    together = np.concatenate(intervals)
    together = together[np.argsort(together[:, 0], kind="stable")]
    if len(together) == 0:
        return together
    until = np.maximum.accumulate(together[:, 1])
    begins = np.flatnonzero(np.append(True, together[1:, 0] > until[:-1]))
    return np.stack([together[begins, 0], until[np.append(begins[1:], len(together)) - 1]], 1)


def product_limit_mean(begin: np.ndarray, stop: np.ndarray, ended: np.ndarray) -> tuple[float, float] | None:
    """Return the mean age at which rests end and its standard error (Greenwood), or None without a usable end.

    Beyond the oldest usable age, rests end at the mean rate of all rests. That part is also added to the error.

    Args:
        begin: float64[n], ages at which observations begin.
        stop: float64[n], ages at which they stop.
        ended: float64[k], ages at which rests ended while they were observed.
    """
    ages, ends = np.unique(ended, return_counts=True)
    resting = np.searchsorted(np.sort(begin), ages) - np.searchsorted(np.sort(stop), ages)
    usable = resting >= _FEWEST
    if not usable.any():
        return None
    ages, ends, resting = ages[usable], ends[usable], resting[usable]
    # S(t) = prod over t_i <= t of (1 - d_i / n_i): d_i rests end at age t_i, n_i are observed. Mean = integral of S.
    left = np.cumprod(1.0 - ends / resting)
    steps = np.diff(ages)
    mean = ages[0] + float((left[:-1] * steps).sum())
    beyond = np.append(np.cumsum((left[:-1] * steps)[::-1])[::-1], 0.0)
    # Greenwood: variance of the mean = sum of B_i^2 d_i / (n_i (n_i - d_i)), B_i the integral of S beyond t_i.
    variance = (beyond**2 * ends / np.maximum(resting * (resting - ends), 1.0)).sum()
    beyond_all = left[-1] * float((stop - np.maximum(begin, 0.0)).sum()) / len(ended)
    return mean + beyond_all, float(np.hypot(np.sqrt(variance), beyond_all))
