"""The clock by which delays elapse: how busy the place is in each hour of the week."""

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.working_hours import HOUR, find_open_hours
from longstride.process.scenario.scenario import HOURS_PER_WEEK

_PRIOR = 20.0
"""Starts of events for which an hour's own count weighs as much as the mean of the open, or of the closed, hours."""


def delay_clock(log: EventLog) -> np.ndarray:
    """Return float64[168], the share of a delay that elapses in each hour of the week; the mean open hour has 1.

    It is the rate at which events begin, so that simulated events begin when logged ones do; in a closed hour the rate
    in those weeks in which somebody works then, because the rosters say how often that is. Where counts are small, they
    are drawn to the mean of their kind of hour.
    """
    hours = (log.clock_start // HOUR).astype(np.int64)
    counts = np.bincount(hours % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK).astype(np.float64)
    weeks_with = np.bincount(np.unique(hours) % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    weeks = hours.max() // HOURS_PER_WEEK - hours.min() // HOURS_PER_WEEK + 1
    is_open = find_open_hours(log)
    weights = np.zeros(HOURS_PER_WEEK)
    for kind in (is_open, ~is_open):
        if kind.any():
            mean = counts[kind].mean()
            weights[kind] = mean * (counts[kind] + _PRIOR) / (mean + _PRIOR)
    rare = ~is_open & (weeks_with > 0)
    weights[rare] = counts[rare] * weeks / weeks_with[rare]
    return np.asarray(weights / weights[is_open].mean())


def open_time_until(weights: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Return float64[n], the open hours from the Monday 00:00 to each time; times are seconds."""
    upto = np.concatenate([[0.0], np.cumsum(weights)])
    weeks, rest = np.divmod(clock / HOUR, HOURS_PER_WEEK)
    return np.asarray(weeks * upto[-1] + np.interp(rest, np.arange(HOURS_PER_WEEK + 1), upto))
