"""Pairs rows of starts with rows of completions into events, with the times in which they are suspended."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.words.transitions import (
    ABORT,
    COMPLETE,
    MEANINGS,
    RESUME,
    START,
    SUSPEND,
    meaning_of,
)


class Pairs(NamedTuple):
    """The m events made from rows, in the order of their completions' rows."""

    start_row: np.ndarray  # int64[m], row with the start; the completion's own row if it has both times
    end_row: np.ndarray  # int64[m], row with the completion
    unstarted: np.ndarray  # int64, rows of completions without a start
    unfinished: np.ndarray  # int64, rows of starts without a completion
    resting: np.ndarray  # int64, like ``unfinished``: row of the suspension if it is still suspended, else -1
    pauses: np.ndarray  # int64[k, 3], event, row of a suspension, row of its end: a resumption or the completion
    never_resumed: int  # suspensions that only the completion ends
    aborted: int  # starts that are aborted
    stray: int  # suspensions and resumptions of nothing


def pair_lifecycles(texts: dict[str, Coded], time: np.ndarray, whole: np.ndarray) -> Pairs:
    """Pair each completion with the earliest open start of its case, activity and instance, preferably by its person.

    A suspension, a resumption and the end by an abortion belong to an open start in the same way. Other transitions
    (schedule, assign, ...) are ignored.

    Args:
        texts: case, activity, resource and transition of n rows, and the instance if the log has one.
        time: float64[n], time of each row in seconds; rows are taken in this order.
        whole: bool[n], rows that have both start and completion.
    """
    meaning = np.where(whole, -1, meaning_of(texts["transition"]))
    case, activity = texts["case"].code.astype(np.int64), texts["activity"]
    key = case * len(activity.values) + activity.code
    if "instance" in texts:
        key = key * len(texts["instance"].values) + texts["instance"].code
    order = np.argsort(time, kind="stable")
    order = order[(meaning >= 0)[order]]
    walk = _Walk()
    columns = (order, key[order], texts["resource"].code[order], meaning[order])
    for row, what, who, index in zip(*(column.tolist() for column in columns), strict=True):
        walk.take(row, what, who, MEANINGS[index])
    return walk.pairs(np.flatnonzero(whole))


def makes_events(transition: Coded) -> np.ndarray:
    """Return bool[n], whether each row is part of an event."""
    return meaning_of(transition) >= 0


@dataclass(eq=False)
class _Open:
    """An open start."""

    row: int
    who: int
    pauses: list[tuple[int, int]] = field(default_factory=list)  # rows of suspensions and resumptions
    suspended: int = -1  # row of the suspension that lasts


class _Walk:
    """Follows the rows in the order of their times."""

    def __init__(self) -> None:
        self._open: dict[int, list[_Open]] = {}  # open starts by case, activity and instance
        self._ended: list[tuple[_Open, int]] = []
        self._unstarted: list[int] = []
        self._never_resumed = self._aborted = self._stray = 0

    def take(self, row: int, what: int, who: int, meaning: str) -> None:
        """Take a row of a case and activity by a person."""
        if meaning == START:
            self._open.setdefault(what, []).append(_Open(row, who))
            return
        mine = self._open.get(what, [])
        if meaning in (SUSPEND, RESUME):
            mine = [event for event in mine if (event.suspended < 0) == (meaning == SUSPEND)]
        event = next((event for event in mine if event.who == who), mine[0] if mine else None)
        if event is None:
            self._take_without_start(row, meaning)
        elif meaning == SUSPEND:
            event.suspended = row
        elif meaning == RESUME:
            event.pauses.append((event.suspended, row))
            event.suspended = -1
        else:
            self._open[what].remove(event)
            self._end(event, row, meaning)

    def _take_without_start(self, row: int, meaning: str) -> None:
        if meaning == COMPLETE:
            self._unstarted.append(row)
        elif meaning != ABORT:
            self._stray += 1

    def _end(self, event: _Open, row: int, meaning: str) -> None:
        if meaning == ABORT:
            self._aborted += 1
            return
        if event.suspended >= 0:
            self._never_resumed += 1
            event.pauses.append((event.suspended, row))
        self._ended.append((event, row))

    def pairs(self, whole: np.ndarray) -> Pairs:
        """Return the events of the walk and the whole rows."""
        end_row = np.concatenate([np.array([row for _, row in self._ended], np.int64), whole])
        start_row = np.concatenate([np.array([event.row for event, _ in self._ended], np.int64), whole])
        place = np.argsort(end_row, kind="stable")
        number = np.argsort(place, kind="stable")
        pauses = [(int(number[i]), *pause) for i, (event, _) in enumerate(self._ended) for pause in event.pauses]
        left = [event for events in self._open.values() for event in events]
        return Pairs(
            start_row=start_row[place],
            end_row=end_row[place],
            unstarted=np.array(self._unstarted, np.int64),
            unfinished=np.array([event.row for event in left], np.int64),
            resting=np.array([event.suspended for event in left], np.int64),
            pauses=np.array(pauses, np.int64).reshape(-1, 3),
            never_resumed=self._never_resumed,
            aborted=self._aborted,
            stray=self._stray,
        )
