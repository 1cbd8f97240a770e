"""Starts of events in a log that records completions only."""

import numpy as np

LONGEST_IN_MEDIANS = 3.0
"""Estimates longer than this many medians of their activity contain waiting, and are replaced by the median."""


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
    start = _last_completion(case, end)
    named = resource >= 0
    start[named] = np.fmax(start[named], _last_completion(resource[named], end[named]))
    duration = end - start
    for mine in _groups(activity):
        own = duration[mine]
        if np.isnan(own).all() or (named.any() and not named[mine].any()):
            duration[mine] = 0.0
        else:
            median = np.nanmedian(own)
            duration[mine] = np.where(own <= LONGEST_IN_MEDIANS * median, own, median)
    return np.asarray(end - duration)


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
