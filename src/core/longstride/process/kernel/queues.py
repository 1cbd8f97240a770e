"""Queues of waiting tasks, and batches: tasks of one activity that one person does together.

A batch is one entry of its activity's queue. Its first task has the entry's slot, and the others follow in
``slot_member``. Tasks gather until the batch has its size, or until the first has waited for the longest time; a timer
with the node ``FLUSH`` tells that. Gathering is no waiting for people. If policies decide when batches begin, tasks
gather in an entry of the queue: they wait for people, and the timer is only a moment to decide at. An entry of a case
with a higher priority goes before those with a lower one; that of a batch is its first task's. Of equal priorities the
first to wait is the first, or the oldest case. If late cases come last (``late_last``), queues are in another order:
first the cases that can still be in time, that with the earliest due date ahead, then the ``late_entries`` of the
others, in the order in which that was noticed. Functions work on ``state``, the record of ``state.py``, and ``p``, the
record of ``parameters.py``.
"""

import numpy as np
from numba import njit

from longstride.process.kernel.aims.case_classes import add_open, add_waiting
from longstride.process.kernel.aims.quantities import limit, slack
from longstride.process.kernel.state import NONE, WAITING_FULL
from longstride.process.kernel.timers import set_timer

NO_CASE = np.int64(2**62)
"""Number of no case, higher than all others."""

_AFTER_ALL = np.int64(2**61)
"""What puts the number of a case after all others, but before ``NO_CASE``."""

FLUSH = -1
"""Node of a timer that tells that the first task of a batch has waited for the longest time."""


@njit(nogil=True)
def enqueue(state, p, case, node, stream):  # type: ignore[no-untyped-def]
    """Append a task to its activity's queue, or to the batch that gathers there."""
    slot = state.free_slot
    if slot >= len(state.slot_next):
        state.overflow = WAITING_FULL
        return
    state.free_slot = state.slot_next[slot]
    state.slot_case[slot], state.slot_node[slot] = case, node
    state.slot_stream[slot], state.slot_enabled[slot] = stream, state.time
    activity = p.node_target[node]
    if p.has_batches:
        state.slot_member[slot] = NONE
        if p.batch_size[activity] > 1:
            _gather(state, p, activity, slot)
            return
    _append(state, p, activity, slot)


@njit(nogil=True)
def _append(state, p, activity, slot):  # type: ignore[no-untyped-def]
    """Add an entry to a queue: at its end, behind the last one with at least its rank, or by its due date."""
    if p.late_last:
        _insert_by_due_date(state, p, activity, slot)
    elif (p.has_priorities or p.oldest_case) and _goes_ahead(state, p, activity, slot):
        _insert(state, p, activity, slot)
    else:
        state.slot_next[slot] = NONE
        if state.queue_length[activity] == 0:
            state.queue_head[activity] = slot
        else:
            state.slot_next[state.queue_tail[activity]] = slot
        state.queue_tail[activity] = slot
    state.queue_length[activity] += 1
    state.waiting += 1
    if p.weighs:
        add_waiting(state, p, state.slot_case[slot], 1.0)
    if p.has_delays:
        _activate(state, p, state.slot_case[slot])


@njit(nogil=True)
def _rank(state, p, slot):  # type: ignore[no-untyped-def]
    """Return the rank of an entry in its queue, the highest first: by its priority, then perhaps by the case's age."""
    rank = p.node_priority[state.slot_node[slot]] if p.has_priorities else 0
    return (rank << 48) - state.slot_case[slot] if p.oldest_case else rank


@njit(nogil=True)
def _goes_ahead(state, p, activity, slot):  # type: ignore[no-untyped-def]
    """Return whether an entry has a higher rank than the last of a queue."""
    if state.queue_length[activity] == 0:
        return False
    return _rank(state, p, slot) > _rank(state, p, state.queue_tail[activity])


@njit(nogil=True)
def _insert(state, p, activity, slot):  # type: ignore[no-untyped-def]
    """Insert an entry before the first of a queue with a lower rank, which there is."""
    rank, before, following = _rank(state, p, slot), NONE, state.queue_head[activity]
    while _rank(state, p, following) >= rank:
        before, following = following, state.slot_next[following]
    _link(state, activity, slot, before, following)


@njit(nogil=True)
def _insert_by_due_date(state, p, activity, slot):  # type: ignore[no-untyped-def]
    """Insert an entry among those that can still be in time, behind the last one that is due no later."""
    due, before, following = limit(state, p, state.slot_case[slot]), NONE, state.queue_head[activity]
    for _ in range(state.queue_length[activity] - state.late_entries[activity]):
        if limit(state, p, state.slot_case[following]) > due:
            break
        before, following = following, state.slot_next[following]
    _link(state, activity, slot, before, following)


@njit(nogil=True)
def _link(state, activity, slot, before, following):  # type: ignore[no-untyped-def]
    """Put an entry between two of a queue; ``NONE`` is no entry."""
    state.slot_next[slot] = following
    if before == NONE:
        state.queue_head[activity] = slot
    else:
        state.slot_next[before] = slot
    if following == NONE:
        state.queue_tail[activity] = slot


@njit(nogil=True)
def put_late_last(state, p):  # type: ignore[no-untyped-def]
    """Move the entries to the end of their queues that can no longer be in time, even if they were served now."""
    tolerance = 1e-9 * p.service_unit
    for a in range(len(state.queue_length)):
        while state.late_entries[a] < state.queue_length[a]:
            slot = state.queue_head[a]
            if slack(state, p, state.slot_case[slot]) >= p.work_left[a] - tolerance:
                break
            state.late_entries[a] += 1
            if state.queue_length[a] > 1:
                state.queue_head[a] = state.slot_next[slot]
                _link(state, a, slot, state.queue_tail[a], NONE)


@njit(nogil=True)
def all_late(state, p, activity):  # type: ignore[no-untyped-def]
    """Return whether late cases come last, and no case of a queue can still be in time."""
    return p.late_last != 0 and state.late_entries[activity] == state.queue_length[activity]


@njit(nogil=True)
def oldest_of(state, p, activity):  # type: ignore[no-untyped-def]
    """Return the number of the oldest case of a queue, by arrival, ``NO_CASE`` if none waits.

    If late cases come last, it is that of the head, and higher than all others if that is late: the head is served.
    """
    oldest, slot = NO_CASE, state.queue_head[activity]
    if p.late_last and state.queue_length[activity] > 0:
        return state.slot_case[slot] + (_AFTER_ALL if all_late(state, p, activity) else 0)
    for _ in range(state.queue_length[activity]):
        oldest = min(oldest, state.slot_case[slot])
        slot = state.slot_next[slot]
    return oldest


@njit(nogil=True)
def comes_before(state, p, a, b):  # type: ignore[no-untyped-def]
    """Return whether the head of queue a has waited longer than that of b, unless priorities differ between queues.

    Of equal waits the older case comes first. If late cases come last, so do queues of late cases alone.
    """
    first, second = state.queue_head[a], state.queue_head[b]
    if p.late_last and all_late(state, p, a) != all_late(state, p, b):
        return all_late(state, p, b)
    if p.has_priorities == 1:
        ahead = ahead_by_priority(state, p, a) - ahead_by_priority(state, p, b)
        if ahead != 0:
            return ahead > 0
    if state.slot_enabled[first] != state.slot_enabled[second]:
        return state.slot_enabled[first] < state.slot_enabled[second]
    return state.slot_case[first] < state.slot_case[second]


@njit(nogil=True)
def ahead_by_priority(state, p, activity):  # type: ignore[no-untyped-def]
    """Return by how much the head of a queue comes before cases of priority 0, in numbers of cases, which are fewer."""
    return p.node_priority[state.slot_node[state.queue_head[activity]]] << 48


@njit(nogil=True)
def _activate(state, p, case):  # type: ignore[no-untyped-def]
    state.active[case] += 1
    if state.active[case] == 1:
        state.resting -= 1
        if p.weighs:
            add_open(state, p, case, 1.0)


@njit(nogil=True)
def serve(state, case):  # type: ignore[no-untyped-def]
    """Count a task of a case that is served."""
    state.served[case] += 1
    if state.served[case] == 1:
        state.serving += 1


@njit(nogil=True)
def _gather(state, p, activity, slot):  # type: ignore[no-untyped-def]
    """Add a task to the batch of an activity; a batch joins the queue at full size, or at once for a policy."""
    by_policy = p.batch_by_policy[activity] != 0
    if state.gathered[activity] == 0:
        state.gather_head[activity] = slot
        due = state.time + p.batch_longest[activity]
        if due < p.horizon and not set_timer(state, due, activity, FLUSH, np.uint64(0)):
            state.overflow = WAITING_FULL
        if by_policy:
            _append(state, p, activity, slot)
    else:
        state.slot_member[state.gather_tail[activity]] = slot
        if by_policy:
            _join(state, p, slot)
    state.gather_tail[activity] = slot
    state.gathered[activity] += 1
    if state.gathered[activity] == p.batch_size[activity]:
        if by_policy:
            state.gathered[activity] = 0
        else:
            _release(state, p, activity)


@njit(nogil=True)
def _join(state, p, slot):  # type: ignore[no-untyped-def]
    """Count a task that waits behind the first one of its batch."""
    state.waiting_more += 1
    if p.weighs:
        add_waiting(state, p, state.slot_case[slot], 1.0)
    _activate(state, p, state.slot_case[slot])


@njit(nogil=True)
def _release(state, p, activity):  # type: ignore[no-untyped-def]
    """Let the tasks that have gathered join the queue as one entry."""
    state.gathered[activity] = 0
    head = state.gather_head[activity]
    _append(state, p, activity, head)
    state.slot_enabled[head] = state.time
    slot = state.slot_member[head]
    while slot != NONE:
        state.slot_enabled[slot] = state.time
        _join(state, p, slot)
        slot = state.slot_member[slot]


@njit(nogil=True)
def flush(state, p, activity):  # type: ignore[no-untyped-def]
    """Release a batch whose first task has waited for the longest time, unless policies decide when it begins."""
    if state.gathered[activity] > 0 and not p.batch_by_policy[activity]:
        began = state.slot_enabled[state.gather_head[activity]]
        if began + p.batch_longest[activity] <= state.time:
            _release(state, p, activity)


@njit(nogil=True)
def tasks_at_head(state, p, activity):  # type: ignore[no-untyped-def]
    """Return the number of tasks of the head of a queue that policies begin."""
    gathers = state.gathered[activity] > 0 and state.gather_head[activity] == state.queue_head[activity]
    return state.gathered[activity] if gathers else p.batch_size[activity]


@njit(nogil=True)
def only_ready(state, p, mask, in_time):  # type: ignore[no-untyped-def]
    """Return bool[P + 1], the mask without the batches that are not full.

    With ``in_time`` it keeps those whose first task has waited for the longest time.
    """
    ready = mask.copy()
    for a in range(len(state.queue_length)):
        if p.batch_by_policy[a] and state.queue_length[a] > 0 and tasks_at_head(state, p, a) < p.batch_size[a]:
            began = state.slot_enabled[state.queue_head[a]]
            if not (in_time and began + p.batch_longest[a] <= state.time):
                ready[p.activity_pairs[a] : p.activity_pairs[a + 1]] = False
    return ready
