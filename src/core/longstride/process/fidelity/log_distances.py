"""Distances of two event logs, by the definitions of the package ``log-distance-measures``.

Control flow: the share of n-grams that differ. Times: Wasserstein distances in hours between histograms of starts and
ends with bins of one hour (Chapela-Campa et al., "Can I trust my simulation model? Measuring the quality of business
process simulation models", BPM 2023).
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import wasserstein_distance

HOUR = 3600.0
_WEEK = 168
_UNSHARED_WEEKDAY = 23.0
"""Distance for a weekday that only one of the two logs has: the largest distance of two histograms of hours."""


class Events(NamedTuple):
    """The n >= 1 events of a log; times are seconds since a Monday 00:00 that both logs share."""

    case: np.ndarray  # int64[n]
    activity: np.ndarray  # int64[n], with the same numbers in both logs
    start: np.ndarray  # float64[n]
    end: np.ndarray  # float64[n]

    def moments(self) -> np.ndarray:
        """Return float64[2 n], starts and ends."""
        return np.concatenate([self.start, self.end])

    def first_and_last(self) -> tuple[np.ndarray, np.ndarray]:
        """Return first start and last end of each case, float64[cases], in the order of the case numbers."""
        _, case = np.unique(self.case, return_inverse=True)
        first, last = np.full(case.max() + 1, np.inf), np.full(case.max() + 1, -np.inf)
        np.minimum.at(first, case, self.start)
        np.maximum.at(last, case, self.end)
        return first, last


class LogDistances(NamedTuple):
    """The six distances; all but the first in hours."""

    ngd: float  # n-grams: share of different sequences of three activities, 0 (equal) to 1
    aed: float  # absolute events: when events happen
    ced: float  # circadian events: at which hour of the day, mean over the weekdays
    red: float  # relative events: how long after the first start of their case
    ctd: float  # cycle times
    car: float  # case arrivals


def log_distances(logged: Events, simulated: Events) -> LogDistances:
    """Return the six distances of two logs."""
    return LogDistances(
        ngram_distance(logged, simulated),
        absolute_distance(logged, simulated),
        circadian_distance(logged, simulated),
        relative_distance(logged, simulated),
        cycle_time_distance(logged, simulated),
        arrival_distance(logged, simulated),
    )


def ngram_distance(logged: Events, simulated: Events, n: int = 3) -> float:
    """Return the share of sequences of ``n`` activities that differ; cases are padded with gaps at both ends."""
    grams = [_ngrams(events, n) for events in (logged, simulated)]
    _, which = np.unique(np.concatenate(grams), axis=0, return_inverse=True)
    first, size = len(grams[0]), int(which.max()) + 1
    counts = [np.bincount(part.ravel(), minlength=size) for part in (which[:first], which[first:])]
    return float(np.abs(counts[0] - counts[1]).sum() / len(which))


def _ngrams(events: Events, n: int) -> np.ndarray:
    """Return int64[n-grams, n], activities from 1 on and 0 for a gap, of the events in order of start, then end."""
    order = np.lexsort((events.end, events.start, events.case))
    case = events.case[order]
    # n - 1 gaps before each case and after the last, so that no window covers two cases.
    place = np.arange(len(case)) + (n - 1) * np.cumsum(np.append(True, case[1:] != case[:-1]))
    padded = np.zeros(place[-1] + n, np.int64)
    padded[place] = events.activity[order] + 1
    return np.lib.stride_tricks.sliding_window_view(padded, n)


def absolute_distance(logged: Events, simulated: Events) -> float:
    """Return the distance of the times of events."""
    origin = np.floor(min(logged.start.min(), simulated.start.min()) / HOUR) * HOUR
    return _distance(*(np.floor((events.moments() - origin) / HOUR) for events in (logged, simulated)))


def circadian_distance(logged: Events, simulated: Events) -> float:
    """Return the mean over the weekdays of the distance of the hours of the day at which events happen."""
    hours = [(events.moments() // HOUR).astype(np.int64) % _WEEK for events in (logged, simulated)]
    distances = []
    for day in range(7):
        first, second = (of_week[of_week // 24 == day] % 24 for of_week in hours)
        if len(first) and len(second):
            distances.append(_distance(first, second))
        else:
            distances.append(_UNSHARED_WEEKDAY if len(first) + len(second) else 0.0)
    return float(np.mean(distances))


def relative_distance(logged: Events, simulated: Events) -> float:
    """Return the distance of the times since the first start of the case."""
    relative = []
    for events in (logged, simulated):
        _, case = np.unique(events.case, return_inverse=True)
        first, _ = events.first_and_last()
        relative.append(np.floor((events.moments() - np.tile(first[case], 2)) / HOUR))
    return _distance(*relative)


def cycle_time_distance(logged: Events, simulated: Events) -> float:
    """Return the distance of the cycle times, first start to last end."""
    times = [last - first for first, last in (events.first_and_last() for events in (logged, simulated))]
    least = min(t.min() for t in times)
    return _distance(*(np.floor((t - least) / HOUR) for t in times))


def arrival_distance(logged: Events, simulated: Events) -> float:
    """Return the distance of the first starts of the cases."""
    first = [events.first_and_last()[0] for events in (logged, simulated)]
    origin = np.floor(min(t.min() for t in first) / HOUR) * HOUR
    return _distance(*(np.floor((t - origin) / HOUR) for t in first))


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(wasserstein_distance(first, second))
