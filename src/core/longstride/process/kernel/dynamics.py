"""The event loop of the process simulator: arrivals, routing, service, shifts, and the integral behind the reward.

Every function works on ``state``, the record of ``state.py``, and ``p``, the record of ``parameters.py``. Simultaneous
events are processed in the order completion, end of a delay, shift change, arrival; completions in the order of the
resources, ends of delays in that of the cases. Times are float64 in its unit, indices int64, random streams uint64.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.aims import quantities
from longstride.process.kernel.aims.case_classes import add_open
from longstride.process.kernel.arrivals import draw_arrival
from longstride.process.kernel.attendance import change_duty, change_shift, feasible, set_available
from longstride.process.kernel.counter_rng import advance, child, uniform
from longstride.process.kernel.duty import begin_day, mask_of, note_changes, pause_until_done
from longstride.process.kernel.queues import FLUSH, enqueue, flush, put_late_last, serve
from longstride.process.kernel.service_times import draw_service
from longstride.process.kernel.state import CASES_FULL, NONE, OPEN_CASES_FULL, WAITING_FULL
from longstride.process.kernel.timers import drop_timer, is_automatic, pop_busy, push_busy, rest_ends, set_timer
from longstride.process.scenario.nodes import FORK, JOIN, TASK, XOR

JOIN_STREAM = 2**32

_FEW_BRANCHES = 16
"""Most branches for a linear search; a flow of cases has thousands, which are searched by bisection."""


@njit(nogil=True)
def start(state, p, rng):  # type: ignore[no-untyped-def]
    """Fill the record for an empty process at time 0 and run to the first step."""
    state.seed = np.uint64(rng.random() * 2.0**53)
    clear(state, p)
    run_to_step(state, p)


@njit(nogil=True)
def clear(state, p):  # type: ignore[no-untyped-def]
    """Fill the record for an empty process at time 0 and draw the first arrival of its seed."""
    state.arrival_stream = child(state.seed, 0)
    state.time, state.area, state.next_arrival, state.week_start = 0.0, 0.0, 0.0, 0.0
    state.arrived, state.open, state.waiting, state.waiting_more = 0, 0, 0, 0
    state.decisions, state.ended, state.overflow = 0, 0, 0
    # Loops instead of slices: Numba takes seconds longer to compile slice assignments.
    for case in range(len(state.completion_time)):
        state.completion_time[case] = -1.0
        for join in range(len(p.join_size)):
            state.joined[case, join] = 0
    state.busy, state.timers, state.resting, state.serving = 0, 0, 0, 0
    state.resting_time, state.serving_time = 0.0, 0.0
    for case in range(len(state.active)):
        state.active[case] = state.served[case] = 0
    for a in range(len(state.able)):
        state.able[a] = 0
    for r in range(len(state.finish)):
        state.on_duty[r] = mask_of(state, p, r, 0) & 1 if p.has_rosters else p.on_duty_at_start[r]
        state.available[r] = 0
        set_available(state, p, r, state.on_duty[r])
        state.duty_time[r], state.work[r] = 0.0, 0.0
        state.busy_pair[r] = NONE
        state.finish[r], state.busy_time[r] = math.inf, 0.0
        state.change_at[r], state.change_after[r] = p.first_change[r], p.second_change[r]
    for a in range(len(state.queue_length)):
        state.queue_head[a] = state.queue_tail[a] = NONE
        state.queue_length[a] = 0
        if p.has_batches:
            state.gathered[a] = 0
        if p.late_last:
            state.late_entries[a] = 0
    for pair in range(len(state.done)):
        state.done[pair], state.asked[pair] = 0.0, 0
    for i in range(len(state.slot_next)):
        state.slot_next[i] = i + 1
    state.free_slot, state.shift = 0, 0
    state.next_shift = p.shift_times[0] if p.shift_count > 0 else math.inf
    if p.has_rosters:
        begin_day(state, p, 0)
        for r in range(len(state.finish)):
            note_changes(state, p, r, 0)
    quantities.clear_quantities(state, p)
    draw_arrival(state, p)


@njit(nogil=True)
def run_to_step(state, p):  # type: ignore[no-untyped-def]
    """Process at least one event, then further events until a pair is feasible or the episode ends."""
    while state.ended == 0:
        process_event(state, p)
        if feasible(state, p):
            if p.late_last:
                put_late_last(state, p)
            return


@njit(nogil=True)
def process_event(state, p):  # type: ignore[no-untyped-def]
    """Process the next event; the episode ends at the horizon or at a capacity."""
    finish = state.finish[state.busy_heap[0]] if state.busy > 0 else math.inf
    due = state.timer_time[0] if state.timers > 0 else math.inf
    time = min(finish, due, state.next_shift, state.next_arrival)
    if time >= p.horizon:
        quantities.pass_time(state, p, p.horizon)
        state.ended = 1
        return
    quantities.pass_time(state, p, time)
    if finish <= time:
        complete(state, p, state.busy_heap[0])
    elif due <= time:
        end_delay(state, p)
    elif state.next_shift <= time:
        if p.has_rosters:
            change_duty(state, p)
        else:
            change_shift(state, p)
    else:
        arrive(state, p)
    if state.overflow != 0:
        state.ended = 1


@njit(nogil=True)
def arrive(state, p):  # type: ignore[no-untyped-def]
    """Open a case and draw the next arrival."""
    case = state.arrived
    if case >= len(state.arrival_time):
        state.overflow = CASES_FULL
        return
    if state.open >= p.max_open_cases:
        state.overflow = OPEN_CASES_FULL
        return
    state.arrival_time[case] = state.time
    state.arrived += 1
    state.open += 1
    if p.has_delays:
        state.resting += 1
    if p.counts:
        quantities.note_case(state, p, case)
    draw_arrival(state, p)
    move(state, p, case, p.root, child(state.seed, case + 1))


@njit(nogil=True)
def move(state, p, case, node, stream):  # type: ignore[no-untyped-def]
    """Move a case's token into a node and further, until every token waits, has joined, or has left."""
    depth = 1
    state.stack_node[0] = node
    state.stack_stream[0] = stream
    while depth > 0:
        depth -= 1
        node, stream = state.stack_node[depth], state.stack_stream[depth]
        kind, first = p.node_kind[node], p.node_first[node]
        if kind == TASK:
            if p.has_delays:
                end = rest_ends(p, node, stream, state.time)
                if end > state.time or is_automatic(p, node):
                    if not set_timer(state, end, case, node, stream):
                        state.overflow = WAITING_FULL
                    continue
            enqueue(state, p, case, node, stream)
        elif kind == XOR:
            stream = advance(stream)
            state.stack_node[depth] = p.branch_node[draw_branch(p, node, uniform(stream))]
            state.stack_stream[depth] = stream
            depth += 1
        elif kind == FORK:
            for i in range(p.node_count[node] - 1, -1, -1):
                state.stack_node[depth] = p.branch_node[first + i]
                state.stack_stream[depth] = child(stream, i)
                depth += 1
        elif kind == JOIN:
            join = p.node_target[node]
            state.joined[case, join] += 1
            if state.joined[case, join] == p.join_size[join]:
                state.stack_node[depth] = p.branch_node[first]
                # Derived from the join, not from the last branch: the same random numbers under every policy.
                state.stack_stream[depth] = stream_after_join(child(state.seed, case + 1), join)
                depth += 1
        else:
            state.completion_time[case] = state.time
            state.open -= 1
            if p.has_delays:
                state.resting -= 1
            if p.counts:
                quantities.note_end(state, p, case)


@njit(nogil=True)
def end_delay(state, p):  # type: ignore[no-untyped-def]
    """Handle the timer that is due: its task joins a queue, or its case continues after an automatic task."""
    case, node, stream = state.timer_case[0], state.timer_node[0], state.timer_stream[0]
    drop_timer(state)
    if node == FLUSH:
        flush(state, p, case)
    elif is_automatic(p, node):
        move(state, p, case, p.branch_node[p.node_first[node]], advance(stream))
    else:
        enqueue(state, p, case, node, stream)


@njit(nogil=True)
def stream_after_join(case_stream, join):  # type: ignore[no-untyped-def]
    """Return the stream of a case after a join; it differs from the stream of every branch."""
    return child(child(case_stream, JOIN_STREAM), join)


@njit(nogil=True)
def draw_branch(p, node, u):  # type: ignore[no-untyped-def]
    """Return the branch of an XOR node for a uniform number u in [0, 1)."""
    branch = p.node_first[node]
    last = branch + p.node_count[node] - 1
    while last - branch > _FEW_BRANCHES:
        middle = (branch + last) // 2
        if u >= p.branch_cumulative[middle]:
            branch = middle + 1
        else:
            last = middle
    while branch < last and u >= p.branch_cumulative[branch]:
        branch += 1
    return branch


@njit(nogil=True)
def assign(state, p, pair):  # type: ignore[no-untyped-def]
    """Give the head of an activity's queue to a resource and draw the service time."""
    activity, resource = p.pair_activity[pair], p.pair_resource[pair]
    slot = state.queue_head[activity]
    state.queue_head[activity] = state.slot_next[slot]
    state.queue_length[activity] -= 1
    if p.late_last:
        state.late_entries[activity] = min(state.late_entries[activity], state.queue_length[activity])
    state.waiting -= 1
    stream = advance(state.slot_stream[slot])
    state.work_case[resource], state.work_node[resource] = state.slot_case[slot], state.slot_node[slot]
    state.work_stream[resource] = stream
    state.busy_pair[resource] = pair
    set_available(state, p, resource, 0)
    state.started[resource] = state.time
    state.work[resource] = draw_service(p, pair, state.slot_node[slot], uniform(stream))
    state.finish[resource] = state.time + state.work[resource]
    if p.pause and p.has_rosters:
        state.finish[resource] = pause_until_done(state, p, resource, state.time, state.work[resource])
    push_busy(state, resource)
    if p.counts:
        quantities.note_task(state, p, state.slot_case[slot], activity, resource)
        quantities.note_person(state, p, resource)
    if p.has_delays:
        serve(state, state.slot_case[slot])
    if p.has_batches:
        if state.gathered[activity] > 0 and state.gather_head[activity] == slot:
            state.gathered[activity] = 0  # a policy begins the batch that gathers
        member = state.work_member[resource] = state.slot_member[slot]
        while member != NONE:
            serve(state, state.slot_case[member])
            state.waiting_more -= 1
            if p.counts:
                quantities.note_task(state, p, state.slot_case[member], activity, resource)
            member = state.slot_member[member]
    state.slot_next[slot] = state.free_slot
    state.free_slot = slot


@njit(nogil=True)
def complete(state, p, resource):  # type: ignore[no-untyped-def]
    """End a service: make the resource available if it is still on duty, and move the case to its next node."""
    case, node, stream = state.work_case[resource], state.work_node[resource], state.work_stream[resource]
    state.busy_time[resource] += state.work[resource] if p.pause else state.time - state.started[resource]
    pop_busy(state)
    state.busy_pair[resource] = NONE
    state.finish[resource] = math.inf
    set_available(state, p, resource, state.on_duty[resource])
    quantities.note_person(state, p, resource)
    _leave(state, p, case, node, stream)
    if p.has_batches:
        slot = state.work_member[resource]
        while slot != NONE:
            case, node, stream = state.slot_case[slot], state.slot_node[slot], advance(state.slot_stream[slot])
            member = state.slot_member[slot]
            state.slot_next[slot], state.free_slot = state.free_slot, slot
            _leave(state, p, case, node, stream)
            slot = member


@njit(nogil=True)
def _leave(state, p, case, node, stream):  # type: ignore[no-untyped-def]
    """Move a case on from a task that was served."""
    if p.has_delays:
        state.active[case] -= 1
        state.served[case] -= 1
        state.resting += state.active[case] == 0
        if p.weighs and state.active[case] == 0:
            add_open(state, p, case, -1.0)
        state.serving -= state.served[case] == 0
    move(state, p, case, p.branch_node[p.node_first[node]], stream)
