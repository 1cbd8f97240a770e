"""Completions without a start and starts without a completion: those that count as events, and their times."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.estimate_starts import estimate_starts
from longstride.process.event_logs.grouping import rows_by
from longstride.text import counted

MOST_INSTANT = 0.5
"""Share of all events up to which those of activities without any start are taken to last for no time."""


class HalfEvents(NamedTuple):
    """The rows without a partner; int64 each."""

    instant: np.ndarray  # completions of activities that never have a start
    estimated: np.ndarray  # other completions, whose case has no start of their activity
    begun: np.ndarray  # starts of activities that never have a completion
    unstarted: np.ndarray  # completions that are left out
    unfinished: np.ndarray  # starts that are left out

    @property
    def kept(self) -> np.ndarray:
        """The rows that count as events."""
        return np.concatenate([self.instant, self.estimated, self.begun])


def sort_half_events(
    case: np.ndarray, activity: np.ndarray, events: np.ndarray, unstarted: np.ndarray, unfinished: np.ndarray
) -> HalfEvents:
    """Sort the rows without a partner by what becomes of them.

    A completion repeats another one if its case also has the activity with a start. A start is of work that is not done
    yet, unless its activity never has a completion.

    Args:
        case: int64[n], case of each row.
        activity: int64[n], activity of each row.
        events: int64, rows of whole events.
        unstarted: int64, rows of completions without a start.
        unfinished: int64, rows of starts without a completion.
    """
    started = np.concatenate([events, unfinished])
    key = case.astype(np.int64) * (int(activity.max(initial=0)) + 1) + activity
    never_starts = ~np.isin(activity[unstarted], activity[started])
    lone = ~np.isin(key[unstarted], key[started])
    never_ends = ~np.isin(activity[unfinished], activity[np.concatenate([events, unstarted])])
    return HalfEvents(
        instant=unstarted[never_starts],
        estimated=unstarted[lone & ~never_starts],
        begun=unfinished[never_ends],
        unstarted=unstarted[~lone],
        unfinished=unfinished[~never_ends],
    )


def starts_of_halves(
    case: np.ndarray, resource: np.ndarray, activity: np.ndarray, start: np.ndarray, end: np.ndarray, lone: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Return float64[n], the starts of events, estimated for completions without one, and whether most of them are.

    A duration is at most the median of the activity's other events. If there are none, the event takes no time, like
    a change of status, unless more than half of the log is like that.

    Args:
        case: int64[n], case of each event.
        resource: int64[n], person of each event, negative for none.
        activity: int64[n], activity of each event.
        start: float64[n], seconds.
        end: float64[n], seconds.
        lone: bool[n], completions without a start.
    """
    duration, estimate = end - start, end - estimate_starts(case, resource, activity, end)
    never = lone & (np.bincount(activity, ~lone)[activity] == 0)
    mostly = bool(never.mean() > MOST_INSTANT)
    for rows in rows_by(activity, int(activity.max(initial=-1)) + 1):
        mine, others = rows[lone[rows]], rows[~lone[rows]]
        if len(mine) and len(others):
            duration[mine] = np.minimum(estimate[mine], np.median(duration[others]))
        elif mostly:
            duration[mine] = estimate[mine]
    return np.where(lone, end - duration, start), mostly


def notes_on_half_events(half: HalfEvents, names: list[str], activity: np.ndarray, estimated: bool) -> list[str]:
    """Return sentences about the rows without a partner.

    Args:
        half: the rows.
        names: names of the activities.
        activity: int64[n], activity of each row.
        estimated: whether completions of activities without any start have estimated starts.
    """
    notes, left_out = [], ("left out", "left out")
    no_time = "kept as an event that takes no time", "kept as events that take no time"
    with_starts = "kept with an estimated start", "kept with estimated starts"
    unstarted = "completion without a start is", "completions without a start are"
    never = (
        (
            "completion of an activity that never has a start is",
            "completions of activities that never have a start are",
        ),
        (
            "start of an activity that never has a completion is",
            "starts of activities that never have a completion are",
        ),
    )
    for rows, what, treated in (
        (half.instant, never[0], with_starts if estimated else no_time),
        (half.estimated, unstarted, with_starts),
        (half.begun, never[1], no_time),
        (half.unstarted, unstarted, left_out),
    ):
        if len(rows):
            some = sorted(names[a] for a in np.unique(activity[rows]))
            shown = ", ".join(some[:3]) + (" and more" if len(some) > 3 else "")
            notes.append(f"{counted(len(rows), *what)} {treated[len(rows) > 1]} (of {shown}).")
    if len(half.unfinished):
        starts = counted(len(half.unfinished), "start without a completion is", "starts without a completion are")
        notes.append(f"{starts} left out.")
    return notes
