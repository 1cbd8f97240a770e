"""Timers of external delays: a binary heap in the state, and the clock by which delays elapse.

Timers are ordered by time, ties by case and node. Functions work on ``state``, the record of ``state.py``, and ``p``,
the record of ``parameters.py``. Delays are open time: ``delay_clock`` gives the weight of each hour of the week.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from longstride.process.kernel.counter_rng import child, uniform
from longstride.process.kernel.service_times import service_arrays, service_time
from longstride.process.scenario.schema import Batch, Delay, places

DELAY_STREAM, AUTOMATIC_STREAM = 2**34, 2**35
_NOTHING = -1


def delay_arrays(prefix: str, delays: Sequence[Delay], activities: Sequence[str]) -> dict[str, Any]:
    """Return ``prefix`` + kind, scale, low, high, each [A], and table of activities' times; kind -1 means none."""
    columns: dict[str, np.ndarray] = {"kind": np.full(len(activities), _NOTHING, np.int64)}
    columns |= {name: np.zeros(len(activities)) for name in ("scale", "low", "high")}
    table = np.zeros(1)
    if delays:
        arrays = service_arrays(delays)
        place = places(activities)
        at = [place[delay.activity] for delay in delays]
        for name, column in columns.items():
            column[at] = arrays[f"service_{name}"]
        table = arrays["service_table"]
    return {prefix + name: column for name, column in {**columns, "table": table}.items()}


def clock_arrays(weights: Sequence[float] | None, hour: float) -> dict[str, Any]:
    """Return ``clock_upto``, float64[169], the open time before each hour of the week; one 0 if all time is open."""
    if weights is None:
        return {"clock_upto": np.zeros(1)}
    return {"clock_upto": np.append(0.0, np.cumsum(np.array(weights, np.float64))) * hour}


def batch_arrays(batches: Sequence[Batch], activities: Sequence[str]) -> dict[str, Any]:
    """Return the parameters' fields ``has_batches`` and ``batch...``."""
    size, longest = np.ones(len(activities), np.int64), np.full(len(activities), math.inf)
    by_policy = np.zeros(len(activities), np.int64)
    for batch in batches:
        a = places(activities)[batch.activity]
        size[a], longest[a] = batch.size, math.inf if batch.longest is None else batch.longest
        by_policy[a] = batch.start == "policy"
    return {
        "has_batches": int(bool(batches)),
        "batch_size": size,
        "batch_longest": longest,
        "starts_batches": int(by_policy.any()),
        "batch_by_policy": by_policy,
    }


@njit(nogil=True)
def open_time_until(p, time):  # type: ignore[no-untyped-def]
    """Return the open time from time 0 to a time."""
    if len(p.clock_upto) == 1:
        return time
    hours = time / p.hour
    week = math.floor(hours / 168.0)
    rest = hours - 168.0 * week
    k = np.int64(min(rest, 167.0))
    return week * p.clock_upto[168] + p.clock_upto[k] + (rest - k) * (p.clock_upto[k + 1] - p.clock_upto[k])


@njit(nogil=True)
def after_open_time(p, time, delay):  # type: ignore[no-untyped-def]
    """Return the end of a delay that begins at a time; an end in a closed hour moves to the next open hour."""
    if len(p.clock_upto) == 1:
        return time + delay
    target = open_time_until(p, time) + delay
    total = p.clock_upto[168]
    week = math.floor(target / total)
    rest = min(max(target - week * total, 0.0), total)
    k = min(np.searchsorted(p.clock_upto, rest, side="right") - 1, 167)
    rate = p.clock_upto[k + 1] - p.clock_upto[k]
    part = (rest - p.clock_upto[k]) / rate if rate > 0.0 else 1.0
    return max(time, (168.0 * week + k + part) * p.hour)


@njit(nogil=True)
def draw_delay(p, node, stream):  # type: ignore[no-untyped-def]
    """Return the delay before a task, in open time; ``stream`` is the case's stream when it reaches the task."""
    delay, a = p.node_delay[node], p.node_target[node]
    if p.delay_kind[a] >= 0:
        u = uniform(child(stream, DELAY_STREAM))
        delay += service_time(p.delay_kind[a], p.delay_scale[a], p.delay_low[a], p.delay_high[a], p.delay_table, u)
    return delay


@njit(nogil=True)
def draw_automatic(p, node, stream):  # type: ignore[no-untyped-def]
    """Return the duration of an automatic task."""
    a, u = p.node_target[node], uniform(child(stream, AUTOMATIC_STREAM))
    return service_time(
        p.automatic_kind[a], p.automatic_scale[a], p.automatic_low[a], p.automatic_high[a], p.automatic_table, u
    )


@njit(nogil=True)
def is_automatic(p, node):  # type: ignore[no-untyped-def]
    """Return whether a task is automatic: it needs no person."""
    return p.automatic_kind[p.node_target[node]] >= 0


@njit(nogil=True)
def rest_ends(p, node, stream, time):  # type: ignore[no-untyped-def]
    """Return the time at which a reached task begins to wait for a resource, or ends if it is automatic."""
    delay = draw_delay(p, node, stream)
    end = after_open_time(p, time, delay) if delay > 0.0 else time
    return end + draw_automatic(p, node, stream) if is_automatic(p, node) else end


@njit(nogil=True)
def _before(state, i, time, case, node):  # type: ignore[no-untyped-def]
    """Return whether the timer at index ``i`` is due before a timer with these values."""
    if state.timer_time[i] != time:
        return state.timer_time[i] < time
    if state.timer_case[i] != case:
        return state.timer_case[i] < case
    return state.timer_node[i] < node


@njit(nogil=True)
def _put(state, i, time, case, node, stream):  # type: ignore[no-untyped-def]
    state.timer_time[i], state.timer_case[i], state.timer_node[i] = time, case, node
    state.timer_stream[i] = stream


@njit(nogil=True)
def _move(state, i, j):  # type: ignore[no-untyped-def]
    """Copy the timer at index ``i`` to index ``j``."""
    _put(state, j, state.timer_time[i], state.timer_case[i], state.timer_node[i], state.timer_stream[i])


@njit(nogil=True)
def set_timer(state, time, case, node, stream):  # type: ignore[no-untyped-def]
    """Add a timer; return False if the heap is full."""
    i = state.timers
    if i >= len(state.timer_time):
        return False
    state.timers += 1
    while i > 0 and not _before(state, (i - 1) // 2, time, case, node):
        _move(state, (i - 1) // 2, i)
        i = (i - 1) // 2
    _put(state, i, time, case, node, stream)
    return True


@njit(nogil=True)
def drop_timer(state):  # type: ignore[no-untyped-def]
    """Remove the timer that is due first, at index 0."""
    state.timers -= 1
    last, i = state.timers, 0
    time, case, node = state.timer_time[last], state.timer_case[last], state.timer_node[last]
    while 2 * i + 1 < last:
        least, right = 2 * i + 1, 2 * i + 2
        if right < last and _before(
            state, right, state.timer_time[least], state.timer_case[least], state.timer_node[least]
        ):
            least = right
        if not _before(state, least, time, case, node):
            break
        _move(state, least, i)
        i = least
    _put(state, i, time, case, node, state.timer_stream[last])


@njit(nogil=True)
def push_busy(state, resource):  # type: ignore[no-untyped-def]
    """Add a resource to the heap of busy resources, the first to finish on top, ties by number."""
    i = state.busy
    state.busy += 1
    state.busy_heap[i] = resource
    while i > 0:
        above = (i - 1) // 2
        if not _finishes_before(state, state.busy_heap[i], state.busy_heap[above]):
            return
        state.busy_heap[i], state.busy_heap[above] = state.busy_heap[above], state.busy_heap[i]
        i = above


@njit(nogil=True)
def pop_busy(state):  # type: ignore[no-untyped-def]
    """Remove the resource on top of the heap."""
    state.busy -= 1
    last, i = state.busy, 0
    state.busy_heap[0] = state.busy_heap[last]
    while 2 * i + 1 < last:
        least = 2 * i + 1
        if least + 1 < last and _finishes_before(state, state.busy_heap[least + 1], state.busy_heap[least]):
            least += 1
        if not _finishes_before(state, state.busy_heap[least], state.busy_heap[i]):
            return
        state.busy_heap[i], state.busy_heap[least] = state.busy_heap[least], state.busy_heap[i]
        i = least


@njit(nogil=True)
def _finishes_before(state, r, s):  # type: ignore[no-untyped-def]
    return state.finish[r] < state.finish[s] or (state.finish[r] == state.finish[s] and r < s)
