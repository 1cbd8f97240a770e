"""Pairs rows of starts with rows of completions into events, with the times in which they are suspended."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
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
        time: float64[n], time of each row in seconds; rows are taken in this order, and those of one
            moment in an order that does not depend on the file.
        whole: bool[n], rows that have both start and completion.
    """
    meaning = np.where(whole, -1, meaning_of(texts["transition"]))
    case, activity = texts["case"].code.astype(np.int64), texts["activity"]
    key = case * len(activity.values) + activity.code
    if "instance" in texts:
        key = key * len(texts["instance"].values) + texts["instance"].code
    who = texts["resource"]
    order = np.lexsort((who.alphabetical(), meaning, key, time))
    order = order[(meaning >= 0)[order]]
    at_once = (np.diff(key[order]) == 0) & (np.diff(time[order]) == 0)
    moment = np.cumsum(np.append(0, ~at_once))[: len(order)]
    walk, columns = _Walk(), (moment, order, key[order], who.code[order], meaning[order])
    for _, rows in groupby(zip(*(column.tolist() for column in columns), strict=True), itemgetter(0)):
        walk.take_moment([_Step(row, what, who, MEANINGS[index]) for _, row, what, who, index in rows])
    return walk.pairs(np.flatnonzero(whole))


def makes_events(transition: Coded) -> np.ndarray:
    """Return bool[n], whether each row is part of an event."""
    return meaning_of(transition) >= 0


class _Step(NamedTuple):
    """A row that changes an event."""

    row: int
    what: int  # case, activity and instance
    who: int
    meaning: str


@dataclass(eq=False)
class _Open:
    """A started event."""

    row: int
    who: int
    number: int  # events that were started before
    pauses: list[tuple[int, int]] = field(default_factory=list)  # rows of suspensions and resumptions
    suspended: int = -1  # row of the suspension that lasts
    ended: bool = False


_Heap = list[tuple[int, _Open]]
"""Events by their numbers."""


class _OpenEvents:
    """The open events of a case, activity and instance; finding one among n takes log n steps."""

    def __init__(self) -> None:
        self.events: dict[int, _Open] = {}  # by number
        self._heaps: dict[tuple[int, bool], _Heap] = {}  # by person and suspension; with those that left it since

    def add(self, event: _Open) -> None:
        """Add an event that began, or was suspended or resumed."""
        self.events[event.number] = event
        for who in (event.who, _ANYONE):
            heappush(self._heaps.setdefault((who, event.suspended >= 0), []), (event.number, event))

    def find(self, who: int, meaning: str) -> _Open | None:
        """Return the earliest event to which a row with a meaning may belong, preferably of its person."""
        states = {SUSPEND: (False,), RESUME: (True,)}.get(meaning, (False, True))
        for person in (who, _ANYONE):
            found = [event for state in states if (event := self._first(person, state))]
            if found:
                return min(found, key=lambda event: event.number)
        return None

    def _first(self, who: int, suspended: bool) -> _Open | None:
        heap = self._heaps.get((who, suspended), [])
        while heap and (heap[0][1].ended or (heap[0][1].suspended >= 0) != suspended):
            heappop(heap)
        return heap[0][1] if heap else None


_ANYONE = -1


class _Walk:
    """Follows the rows in the order of their times."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenEvents] = {}  # by case, activity and instance
        self._ended: list[tuple[_Open, int]] = []
        self._unstarted: list[int] = []
        self._begun = self._never_resumed = self._aborted = self._stray = 0

    def take_moment(self, steps: list[_Step]) -> None:
        """Take the rows of a case, activity and moment, in the order of :data:`MEANINGS` as far as they fit.

        A suspension comes before the resumption of the same moment, unless the event is suspended already.
        """
        resumptions = deque(step for step in steps if step.meaning == RESUME)
        for step in steps:
            if step.meaning == RESUME:
                continue
            while resumptions and self._find(resumptions[0]):
                self._take(resumptions.popleft())
            self._take(step)
        for step in resumptions:
            self._take(step)

    def _find(self, step: _Step) -> _Open | None:
        return self._open[step.what].find(step.who, step.meaning) if step.what in self._open else None

    def _take(self, step: _Step) -> None:
        if step.meaning == START:
            event = _Open(step.row, step.who, self._begun)
            self._begun += 1
            self._open.setdefault(step.what, _OpenEvents()).add(event)
            return
        found = self._find(step)
        if found is None:
            self._take_without_start(step.row, step.meaning)
        elif step.meaning == SUSPEND:
            found.suspended = step.row
            self._open[step.what].add(found)
        elif step.meaning == RESUME:
            found.pauses.append((found.suspended, step.row))
            found.suspended = -1
            self._open[step.what].add(found)
        else:
            found.ended = True
            del self._open[step.what].events[found.number]
            if not self._open[step.what].events:
                del self._open[step.what]
            self._end(found, step.row, step.meaning)

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
        left = [event for of_task in self._open.values() for event in of_task.events.values()]
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
