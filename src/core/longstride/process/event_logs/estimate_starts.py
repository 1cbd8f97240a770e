"""Starts of events in a log that records completions only."""

import numpy as np
from scipy.stats import ks_2samp

LONGEST_IN_MEDIANS = 3.0
"""Estimates longer than this many medians of their activity contain waiting, and are replaced by the median."""

_HOUR, _WEEK = 3600.0, 168
_NIGHT = 6.0
"""Hours within an estimate in which no one begins work, from which they are a night and not part of it."""

_BEGINS = 0.1
"""Starts in an hour of the week, as a share of the mean hour's with starts, from which people begin work in it."""

_FEWEST, _ALIKE, _CHANCE = 50, 0.1, 0.1
"""Fewest estimates of each kind, and the difference of two distributions or its level of significance up to which
estimates contain no waiting."""


def estimate_starts(case: np.ndarray, resource: np.ndarray, activity: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return float64[n], an estimated start for each of n completions, in seconds like ``end``.

    An event starts when its case and its person are both free: start = max(last completion of the case before it, last
    completion of the person before it). The time until it completes is the estimate of its duration. The median of
    its activity replaces an estimate over three medians, and that of an event without an earlier completion.

    An activity that never names a person, in a log that names people, takes no time: the time before it, such as the
    days until a customer answers, is not work of the people in the log.

    The first rule and the replacement of long estimates come from D. Chapela-Campa, M. Dumas: Repairing Activity Start
    Times to Improve Business Process Simulation, arXiv:2208.12224 (2022). Without the replacement waiting counts as
    work; see C. Fracca, M. de Leoni, F. Asnicar, A. Turco: Estimating Activity Start Timestamps in the Presence of
    Waiting Times via Process Simulation, CAiSE 2022.

    Args:
        case: int64[n], case of each event.
        resource: int64[n], person of each event, negative for none.
        activity: int64[n], activity of each event.
        end: float64[n], completion of each event.
    """
    of_case, named = _last_completion(case, end), resource >= 0
    start = of_case.copy()
    start[named] = np.fmax(start[named], _last_completion(resource[named], end[named]))
    start = _after_nights(start, end, named)
    duration, queued = end - start, ~(of_case >= start)
    for mine in _groups(activity):
        own = duration[mine]
        if np.isnan(own).all() or (named.any() and not named[mine].any()):
            duration[mine] = 0.0
        else:
            median = np.nanmedian(own)
            longest = np.inf if _without_waiting(own, queued[mine]) else LONGEST_IN_MEDIANS * median
            duration[mine] = np.where(own <= longest, own, median)
    return np.asarray(end - duration)


def _after_nights(start: np.ndarray, end: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Return float64[n], the starts with those in a night, such as after overtime, moved to its end.

    A night are six or more hours of the week in which people complete hardly anything, as before the day, or begin
    hardly anything that they complete soon, as in overtime.
    """
    short = named & (end - start < _NIGHT * _HOUR)
    moments = ((times // _HOUR).astype(np.int64) % _WEEK for times in (start[short], end[named]))
    least = np.minimum(*(np.bincount(hours, minlength=_WEEK) for hours in moments))
    works = np.flatnonzero((least > 0) & (least >= _BEGINS * least[least > 0].mean())) if least.any() else least[:0]
    if not len(works):
        return start
    opens = np.append(works, works[0] + _WEEK)  # each stretch of hours without work ends with one of them
    known = np.where(np.isnan(start), end, start)
    hour = known // _HOUR
    of_week = (hour % _WEEK).astype(np.int64)
    place = np.searchsorted(works, of_week)
    until, before = opens[place], np.where(place > 0, works[place - 1], works[-1] - _WEEK)
    later = (hour - of_week + until) * _HOUR
    is_night = (until - before - 1 >= _NIGHT) & (until > of_week) & (later < end)
    return np.where(is_night & ~np.isnan(start), later, start)


def _without_waiting(duration: np.ndarray, queued: np.ndarray) -> bool:
    """Return whether estimates of an activity, float64[n], hardly contain waiting for anything but its people.

    Then they are alike where the case has waited for its person, bool[n] ``queued``, and where the person has waited
    for the case: only the latter contain the whole of a delay that no person causes.
    """
    known = ~np.isnan(duration)
    waited, at_once = duration[known & queued], duration[known & ~queued]
    if min(len(waited), len(at_once)) < _FEWEST:
        return False
    difference = ks_2samp(waited, at_once)
    error = np.hypot(waited.std() / np.sqrt(len(waited)), at_once.std() / np.sqrt(len(at_once)))
    apart = abs(waited.mean() - at_once.mean()) - 2.0 * error
    alike = difference.statistic <= _ALIKE or difference.pvalue > _CHANCE
    return bool(alike and apart <= _ALIKE * duration[known].mean())


def _groups(activity: np.ndarray) -> list[np.ndarray]:
    """Return the events of each activity, int64 each."""
    order = np.argsort(activity, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(activity[order])) + 1)


def _last_completion(group: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return float64[n], the last earlier completion in the group of each event, NaN for none.

    Events that complete at the same moment have the same last completion.
    """
    order = np.lexsort((end, group))
    sorted_group, sorted_end = group[order], end[order]
    first = np.ones(len(end), np.bool_)  # first of the events at the same moment
    first[1:] = (sorted_group[1:] != sorted_group[:-1]) | (sorted_end[1:] != sorted_end[:-1])
    begins = np.maximum.accumulate(np.where(first, np.arange(len(end)), 0))
    has_earlier = (begins > 0) & (sorted_group[begins - 1] == sorted_group)
    last = np.empty(len(end))
    last[order] = np.where(has_earlier, sorted_end[begins - 1], np.nan)
    return last
