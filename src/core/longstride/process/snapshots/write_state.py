"""Writes a described state into the record of the process simulator, by the simulator's own functions."""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.aims.quantities import expect_due_dates
from longstride.process.kernel.attendance import set_available
from longstride.process.kernel.queues import enqueue, flush, put_late_last
from longstride.process.kernel.state import NONE
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import new_state


def empty_record(simulator: ProcessSimulator) -> np.ndarray:
    """Return an array with one record without cases, for :func:`write_state`."""
    states = new_state(simulator)
    states["slot_next"][0] = np.arange(1, states["slot_next"].shape[1] + 1)
    states["completion_time"][0] = -1.0
    states["next_arrival"] = states["next_shift"] = math.inf
    return states


@njit(nogil=True)
def write_state(state, p, described):  # type: ignore[no-untyped-def]
    """Replace the state in the record by a :class:`longstride.process.snapshots.described.Described`.

    Values that affect only the future stay unset: random streams, the ends of the tasks in work, the next arrival. The
    observation, the mask, the features and the heuristics do not read them.
    """
    _forget(state, p)
    cases = len(described.case_opened)
    state.arrived = state.open = cases
    state.resting = cases if p.has_delays else 0
    for case in range(cases):
        state.arrival_time[case] = described.case_opened[case]
        if p.counts:
            state.case_class[case] = described.case_class[case]
    for i in range(len(described.joined)):
        case, join = described.joined[i, 0], described.joined[i, 1]
        state.joined[case, join] = np.int32(described.joined[i, 2])
    state.time = described.time
    expect_due_dates(state, p)
    for i in range(len(described.waiting_case)):
        state.time = described.waiting_since[i]
        enqueue(state, p, described.waiting_case[i], described.waiting_node[i], np.uint64(0))
    state.time = described.time
    if p.has_batches:
        for a in range(len(state.queue_length)):
            flush(state, p, a)
    if p.late_last:
        put_late_last(state, p)
    for i in range(len(described.work_pair)):
        _begin_work(state, p, described, i)
    for r in range(len(state.finish)):
        state.on_duty[r] = described.on_duty[r]
        state.change_at[r], state.change_after[r] = described.change_at[r], described.change_after[r]
        set_available(state, p, r, 1 if described.on_duty[r] and state.busy_pair[r] == NONE else 0)


@njit(nogil=True)
def _forget(state, p):  # type: ignore[no-untyped-def]
    """Remove the previous state's cases, tasks and people; only used parts are cleared, since a record may be large."""
    for case in range(state.arrived):
        for join in range(len(p.join_size)):
            state.joined[case, join] = 0
        if p.has_delays:
            state.active[case] = state.served[case] = 0
    for slot in range(state.free_slot):  # slots were taken in this order, and none was returned
        state.slot_next[slot] = slot + 1
    state.free_slot = state.waiting = state.timers = state.busy = state.serving = state.decisions = 0
    for a in range(len(state.queue_length)):
        state.queue_head[a] = state.queue_tail[a] = NONE
        state.queue_length[a] = state.able[a] = 0
        if p.has_batches:
            state.gathered[a] = 0
        if p.late_last:
            state.late_entries[a] = 0
    for r in range(len(state.finish)):
        state.available[r], state.busy_pair[r], state.finish[r] = 0, NONE, math.inf


@njit(nogil=True)
def _begin_work(state, p, described, i):  # type: ignore[no-untyped-def]
    """Note that a person works on a task, like ``dynamics.assign`` but without a service time."""
    pair, case = described.work_pair[i], described.work_case[i]
    r = p.pair_resource[pair]
    state.busy_pair[r], state.started[r] = pair, described.work_since[i]
    state.work_case[r], state.work_node[r] = case, described.work_node[i]
    state.busy += 1
    if p.has_delays:
        state.active[case] += 1
        state.resting -= state.active[case] == 1
        state.served[case] += 1
        state.serving += state.served[case] == 1
