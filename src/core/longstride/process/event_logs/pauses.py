"""Suspensions of events, and the stretches of work between them."""

from typing import NamedTuple

import numpy as np


class Pauses(NamedTuple):
    """The k suspensions of the events of a log; those of an event follow one another."""

    event: np.ndarray  # int64[k], index of the event
    start: np.ndarray  # float64[k], seconds like the start of the event
    end: np.ndarray  # float64[k], seconds
    start_offset: np.ndarray  # float64[k], seconds that the wall clock is ahead
    end_offset: np.ndarray  # float64[k], seconds that the wall clock is ahead
    resource: np.ndarray  # int64[k], index of the person who worked before, negative if the log names none

    def taken(self, events: np.ndarray, count: int) -> "Pauses":
        """Return the suspensions of some of ``count`` events, int64[m], numbered and ordered like these."""
        number = np.full(count, -1)
        number[events] = np.arange(len(events))
        event = number[self.event]
        order = np.lexsort((self.end, self.start, event))[(event < 0).sum() :]
        _, *columns = self
        return Pauses(event[order], *(column[order] for column in columns))

    def counted_from(self, midnight: float, offset: float, people: np.ndarray) -> "Pauses":
        """Return the suspensions with times counted from a wall-clock midnight, given with the offset there.

        ``people``, int64[R + 1], are the new numbers of the persons.
        """
        begin = midnight - offset
        return self._replace(
            start=self.start - begin,
            end=self.end - begin,
            start_offset=self.start_offset - offset,
            end_offset=self.end_offset - offset,
            resource=people[self.resource],
        )


def no_pauses() -> Pauses:
    """Return no suspension."""
    index, times = np.empty(0, np.int64), np.empty(0)
    return Pauses(index, times, times, times, times, index)


class Stretches(NamedTuple):
    """The m stretches of work on the n events of a log: the whole event, or its parts between suspensions."""

    event: np.ndarray  # int64[m]
    resource: np.ndarray  # int64[m], negative for none
    start: np.ndarray  # float64[m], seconds of real time
    end: np.ndarray  # float64[m], seconds of real time
    clock_start: np.ndarray  # float64[m], wall-clock seconds
    clock_end: np.ndarray  # float64[m], wall-clock seconds

    def total(self, values: np.ndarray, events: int) -> np.ndarray:
        """Return float64[n], the sums of float64[m] by event."""
        return np.bincount(self.event, values, events)


def without_pauses(whole: Stretches, pauses: Pauses) -> Stretches:
    """Return the stretches of work of whole events outside of their suspensions."""
    if not len(pauses.event):
        return whole
    ahead = pauses.start_offset, pauses.end_offset
    begin = np.concatenate([whole.start, pauses.end]), np.concatenate([whole.clock_start, pauses.end + ahead[1]])
    over = np.concatenate([whole.end, pauses.start]), np.concatenate([whole.clock_end, pauses.start + ahead[0]])
    event = np.concatenate([whole.event, pauses.event])
    # The stretches of an event begin and end by turns, so the i-th start belongs to the i-th end.
    starts, ends = np.lexsort((begin[0], event)), np.lexsort((over[0], event))
    worked, mine = over[0][ends] > begin[0][starts], event[starts]
    worked |= np.append(np.diff(mine) > 0, True)  # the last one stays, so that each event has a stretch of its person
    starts, ends = starts[worked], ends[worked]
    # The person of the event ends its last stretch; a suspension ends the stretch of its own person.
    resource = np.concatenate([whole.resource, pauses.resource])[ends]
    resource = np.where(resource >= 0, resource, whole.resource[event[starts]])
    return Stretches(event[starts], resource, begin[0][starts], over[0][ends], begin[1][starts], over[1][ends])
