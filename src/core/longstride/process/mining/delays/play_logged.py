"""Plays episodes under the logged habits: in the log's order of service, by its people as often as in the log."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.kernel.arrivals import draw_arrival
from longstride.process.kernel.attendance import feasible
from longstride.process.kernel.dynamics import assign, clear, process_event
from longstride.process.kernel.parameters import Parameters, as_record
from longstride.process.kernel.queues import FLUSH, NO_CASE, ahead_by_priority, comes_before
from longstride.process.kernel.record_sizes import Sizes
from longstride.process.kernel.state import NONE, state_dtype
from longstride.process.kernel.timers import draw_automatic, is_automatic

_TRIES = 8

_MOST_FACTOR = 4
"""Most events of an episode that are recorded, as a multiple of the expected number."""


class PlayedEvents(NamedTuple):
    """The events of an episode, n in the order of their starts; times in the scenario's unit."""

    case: np.ndarray  # int64[n]
    node: np.ndarray  # int64[n], node of the routing
    resource: np.ndarray  # int64[n], -1 for an automatic task
    queued: np.ndarray  # float64[n], when the task began to wait for a resource
    start: np.ndarray  # float64[n]
    end: np.ndarray  # float64[n]
    state: Any  # state record at the end


def as_logged_record(parameters: Parameters) -> np.ndarray:
    """Return parameters as a record for :func:`play_logged`: batches and late cases begin as in the log."""
    by_policy = np.zeros_like(parameters.batch_by_policy)
    return as_record(parameters._replace(starts_batches=0, batch_by_policy=by_policy, late_last=0))


def play_logged(
    record: np.ndarray, parameters: Parameters, sizes: Sizes, seed: int, *, begin: float = 0.0, cases: int | None = None
) -> PlayedEvents:
    """Play an episode under the logged habits.

    Args:
        record: parameters as :func:`as_logged_record` returns them.
        parameters: the same, for the sizes of the state.
        sizes: sizes of the state.
        seed: seed of the episode.
        begin: time before which no case arrives.
        cases: number of cases, all of which are finished; None for the cases up to the horizon.
    """
    state = np.zeros(1, state_dtype(parameters, sizes)).view(np.recarray)
    most = int(_MOST_FACTOR * sizes.expected_tasks) + 1000
    indices, times = np.empty((most, 3), np.int64), np.empty((most, 3))
    limit = sizes.cases if cases is None else min(cases, sizes.cases)
    state[0]["seed"] = np.uint64(np.random.default_rng(seed).integers(2**53))
    rng = np.random.default_rng([seed, 1])
    count = cached(_play)(state, record[0], rng, indices, times, begin, limit, cases is not None)
    case, node, resource = indices[:count].T
    queued, start, end = times[:count].T
    return PlayedEvents(case, node, resource, queued, start, end, state[0])


@njit(nogil=True)
def _play(states, p, rng, indices, times, begin, cases, finish):  # type: ignore[no-untyped-def]
    """Fill indices (case, node, resource) and times (queued, start, end) of the events; return their number."""
    state, count = states[0], 0
    clear(state, p)
    if begin > 0.0:
        state.next_arrival = begin
        draw_arrival(state, p)
    while state.ended == 0 and count + 1 < len(indices):
        if state.arrived >= cases:
            state.next_arrival = math.inf
            if finish and state.open == 0:
                break
        if automatic_is_next(state, p):
            node, due = state.timer_node[0], state.timer_time[0]
            indices[count] = state.timer_case[0], node, -1
            began = due - draw_automatic(p, node, state.timer_stream[0])
            times[count] = began, began, due
            count += 1
        process_event(state, p)
        while state.ended == 0 and feasible(state, p) and count + 1 < len(indices):
            pair = choose_logged(state, p, rng)
            slot, r = state.queue_head[p.pair_activity[pair]], p.pair_resource[pair]
            indices[count] = state.slot_case[slot], state.slot_node[slot], r
            queued = state.slot_enabled[slot]
            assign(state, p, pair)
            times[count] = queued, state.time, state.finish[r]
            count += 1
            if p.has_batches:
                count = _record_members(state, indices, times, count, r)
    return count


@njit(nogil=True)
def _record_members(state, indices, times, count, r):  # type: ignore[no-untyped-def]
    """Record the further tasks of a batch that a resource has begun; return the number of events."""
    slot = state.work_member[r]
    while slot != NONE and count + 1 < len(indices):
        indices[count] = state.slot_case[slot], state.slot_node[slot], r
        times[count] = state.slot_enabled[slot], state.time, state.finish[r]
        count, slot = count + 1, state.slot_member[slot]
    return count


@njit(nogil=True)
def automatic_is_next(state, p):  # type: ignore[no-untyped-def]
    """Whether the next event is the end of an automatic task."""
    if state.timers == 0 or state.timer_node[0] == FLUSH or not is_automatic(p, state.timer_node[0]):
        return False
    due = state.timer_time[0]
    if state.busy > 0 and state.finish[state.busy_heap[0]] <= due:
        return False
    return due <= state.next_shift and due <= state.next_arrival and due < p.horizon


@njit(nogil=True)
def choose_logged(state, p, rng):  # type: ignore[no-untyped-def]
    """Return a feasible pair of the oldest case, or the longest wait, in proportion to the pair's events in the log.

    The choice is that of the heuristic ``logged``, but without reading every pair: a resource is drawn by habit and
    drawn again if it is not available. A queue whose head has a higher priority comes first.
    """
    oldest, chosen = NO_CASE, -1
    for a in range(len(state.queue_length)):
        if state.queue_length[a] > 0 and state.able[a] > 0:
            if p.longest_wait:
                chosen = a if chosen < 0 or comes_before(state, p, a, chosen) else chosen
                continue
            slot = state.queue_head[a]
            ahead = ahead_by_priority(state, p, a) if p.has_priorities == 1 else 0
            for _ in range(state.queue_length[a]):
                if state.slot_case[slot] - ahead < oldest:
                    oldest, chosen = state.slot_case[slot] - ahead, a
                slot = state.slot_next[slot]
    first, last = p.activity_pairs[chosen], p.activity_pairs[chosen + 1]
    total = p.habit_upto[last] - p.habit_upto[first]
    if total > 0.0:
        for _ in range(_TRIES):
            target = p.habit_upto[first] + rng.random() * total
            pair = np.searchsorted(p.habit_upto[first + 1 : last + 1], target, side="right") + first
            if pair < last and state.available[p.pair_resource[pair]]:
                return pair
    return _among_available(state, p, first, last, rng)


@njit(nogil=True)
def _among_available(state, p, first, last, rng):  # type: ignore[no-untyped-def]
    habit, equal = 0.0, 0.0
    for pair in range(first, last):
        if state.available[p.pair_resource[pair]]:
            habit += p.pair_habit[pair]
            equal += 1.0
    target = rng.random() * (habit if habit > 0.0 else equal)
    chosen = -1
    for pair in range(first, last):
        if state.available[p.pair_resource[pair]]:
            weight = p.pair_habit[pair] if habit > 0.0 else 1.0
            if weight > 0.0 or chosen < 0:
                chosen = pair
                target -= weight
                if target < 0.0:
                    break
    return chosen
