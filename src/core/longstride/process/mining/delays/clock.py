"""The clock by which delays elapse: the activity of the organisation in each hour of the week."""

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.working_hours import HOUR, find_open_hours, of_people
from longstride.process.scenario.scenario import HOURS_PER_WEEK

_PRIOR = 20.0
"""Number of starts at which an hour's own count weighs as much as the mean of its kind, open or closed."""


def delay_clock(log: EventLog) -> np.ndarray:
    """Return float64[168], the weight of each hour of the week for elapsing delays; the mean open hour has 1.

    The weight is the rate at which people's events begin, so that simulated ones begin when logged ones do. In a closed
    hour it is the rate in those weeks in which a person works then, as the rosters give the frequency of such weeks.
    Small counts are shrunk to the mean of their kind of hour.
    """
    hours = (log.clock_start[of_people(log)] // HOUR).astype(np.int64)
    counts = np.bincount(hours % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK).astype(np.float64)
    weeks_with = np.bincount(np.unique(hours) % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    weeks = hours.max() // HOURS_PER_WEEK - hours.min() // HOURS_PER_WEEK + 1
    is_open = find_open_hours(log)
    if log.only_dates:
        return is_open.astype(np.float64)
    weights = np.zeros(HOURS_PER_WEEK)
    for kind in (is_open, ~is_open):
        if kind.any():
            mean = counts[kind].mean()
            # Posterior mean of a Poisson rate under a gamma prior with this mean: mean (count + k) / (mean + k).
            weights[kind] = mean * (counts[kind] + _PRIOR) / (mean + _PRIOR)
    rare = ~is_open & (weeks_with > 0)
    weights[rare] = counts[rare] * weeks / weeks_with[rare]
    return np.asarray(weights / weights[is_open].mean())


def open_time_until(weights: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Return float64[n], the open hours from the Monday 00:00 to each time, given in seconds."""
    upto = np.concatenate([[0.0], np.cumsum(weights)])
    weeks, rest = np.divmod(clock / HOUR, HOURS_PER_WEEK)
    return np.asarray(weeks * upto[-1] + np.interp(rest, np.arange(HOURS_PER_WEEK + 1), upto))
