"""Compiled functions for people's shifts and availability."""

import numpy as np
from numba import njit

from longstride.process.kernel.aims.quantities import note_person
from longstride.process.kernel.duty import begin_day, next_change_hour, note_changes
from longstride.process.kernel.state import NONE


@njit(nogil=True)
def feasible(state, p):  # type: ignore[no-untyped-def]
    """Return whether some waiting task has an available resource that can do it."""
    if state.waiting == 0:
        return False
    lengths, able = state.queue_length, state.able
    for a in range(len(lengths)):  # noqa: SIM110 (a generator is slow to compile)
        if lengths[a] > 0 and able[a] > 0:
            return True
    return False


@njit(nogil=True)
def set_available(state, p, resource, available):  # type: ignore[no-untyped-def]
    """Set whether a resource is available, and count it for all activities that it can do."""
    change = np.int64(available) - np.int64(state.available[resource])
    state.available[resource] = available
    if change != 0:
        for i in range(p.resource_first[resource], p.resource_first[resource + 1]):
            state.able[p.resource_activity[i]] += change


@njit(nogil=True)
def change_shift(state, p):  # type: ignore[no-untyped-def]
    """Start or end the duty of the next resource; a busy one finishes its task first."""
    resource = p.shift_resource[state.shift]
    state.on_duty[resource] = p.shift_on[state.shift]
    set_available(state, p, resource, 1 if state.on_duty[resource] and state.busy_pair[resource] == NONE else 0)
    note_person(state, p, resource)
    state.change_at[resource] = state.time + p.shift_until[state.shift]
    state.change_after[resource] = state.time + p.shift_after[state.shift]
    state.shift += 1
    if state.shift == p.shift_count:
        state.shift = 0
        state.week_start += p.week
    state.next_shift = state.week_start + p.shift_times[state.shift]


@njit(nogil=True)
def change_duty(state, p):  # type: ignore[no-untyped-def]
    """Start or end the duty of all resources that change at this hour, or draw the plans of the next day."""
    hour = np.int64(round(state.time / p.hour)) - 24 * state.day
    if hour == 24:
        begin_day(state, p, state.day + 1)
        return
    for r in range(len(state.finish)):
        on = (state.duty_mask[r] >> hour) & 1
        if on != state.on_duty[r]:
            state.on_duty[r] = on
            state.duty_time[r] += -state.time if on else state.time
            set_available(state, p, r, 1 if on and state.busy_pair[r] == NONE else 0)
            note_person(state, p, r)
            note_changes(state, p, r, 24 * state.day + hour)
    next_change_hour(state, p, hour + 1)
