"""Descriptions of the feasible pairs of a decision, for a policy that scores each with one network.

Arguments are ``state`` (``state.py``) and ``p``, the parameters with the fields of
:func:`longstride.process.kernel.pairs.figures.pair_figures`. Cost and memory grow with the number of feasible pairs and
the skills of the people in them. Times are float64 in the scenario's unit.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.pairs import batches
from longstride.process.kernel.pairs.action_features import branches_behind, time_to_serve
from longstride.process.kernel.pairs.figures import (
    ABLE,
    AGE,
    BEHIND,
    BEST_ELSEWHERE,
    BEST_SLACK,
    CASE_AGE,
    FASTER,
    FREE,
    IS_POSTPONE,
    NEGATIVE_SLACK,
    OTHER_TASKS,
    OTHER_WAITING,
    QUEUE,
    SERVICE,
    SHIFT_LEFT,
    SIZE,
    SKILLS,
    SLACK,
    SLOWER_THAN_FASTEST,
)


@njit(nogil=True)
def describe_actions(state, p, ids, descriptions):  # type: ignore[no-untyped-def]
    """Write ids, int32[P + 1], and descriptions, float32[P + 1, SIZE], of the feasible pairs in their order.

    If policies begin batches, descriptions have the figures of ``batches.py`` at the end. Postpone comes last. Returns
    their number.
    """
    count, best_slack = 0, -3.0
    for a in range(len(state.queue_length)):
        free = _free_people(state, p, a) if state.queue_length[a] > 0 else 0
        if free == 0:
            continue
        first = count
        for pair in range(p.activity_pairs[a], p.activity_pairs[a + 1]):
            if state.available[p.pair_resource[pair]]:
                ids[count] = pair
                _describe_person(state, p, pair, descriptions[count])
                if p.starts_batches:
                    batches.describe_batch(state, p, pair, descriptions[count, SIZE:])
                count += 1
        _describe_task(state, p, a, free, descriptions[first:count])
        _describe_choice(state, p, a, ids[first:count], descriptions[first:count])
        for row in range(first, count):
            best_slack = max(best_slack, descriptions[row, SLACK])
    ids[count] = len(p.pair_mean)
    for k in range(descriptions.shape[1]):
        descriptions[count, k] = 0.0
    descriptions[count, IS_POSTPONE], descriptions[count, BEST_SLACK] = 1.0, best_slack
    return count + 1


@njit(nogil=True)
def _free_people(state, p, a):  # type: ignore[no-untyped-def]
    """Return the number of free people who can do an activity."""
    free = 0
    for pair in range(p.activity_pairs[a], p.activity_pairs[a + 1]):
        free += state.available[p.pair_resource[pair]]
    return free


@njit(nogil=True)
def _describe_person(state, p, pair, row):  # type: ignore[no-untyped-def]
    """Write the columns about a pair's person: other work that waits for this person, and the time until they leave."""
    r, a = p.pair_resource[pair], p.pair_activity[pair]
    first, last = p.resource_first[r], p.resource_first[r + 1]
    activities, tasks, quickest = 0, 0, p.pair_log[pair]
    for k in range(first, last):
        other = p.resource_pairs[k]
        b = p.pair_activity[other]
        if b != a and state.queue_length[b] > 0:
            activities += 1
            tasks += state.queue_length[b]
            quickest = min(quickest, p.pair_log[other])
    for k in range(3):
        row[SLOWER_THAN_FASTEST + k] = p.pair_rule[pair, k]
    row[SERVICE] = p.pair_log[pair]
    row[SKILLS] = math.log(p.skills[r])
    row[OTHER_WAITING], row[OTHER_TASKS] = math.log1p(activities), math.log1p(tasks)
    row[BEST_ELSEWHERE] = p.pair_log[pair] - quickest
    left = min((state.change_at[r] - state.time) / p.pair_mean[pair], 20.0)  # unlimited without shifts
    row[SHIFT_LEFT] = math.log(max(left, 0.05))


@njit(nogil=True)
def _describe_task(state, p, a, free, rows):  # type: ignore[no-untyped-def]
    """Write the columns about the head of an activity's queue, equal in all rows."""
    slot = state.queue_head[a]
    behind = branches_behind(state, p, a)
    queue = math.log1p(state.queue_length[a])
    age = math.log1p((state.time - state.slot_enabled[slot]) / p.service_unit)
    case_age = math.log1p((state.time - state.arrival_time[state.slot_case[slot]]) / p.service_unit)
    free_people, able = math.log(free), math.log(p.able[a])
    for i in range(len(rows)):
        rows[i, BEHIND], rows[i, QUEUE], rows[i, AGE], rows[i, CASE_AGE] = behind, queue, age, case_age
        rows[i, FREE], rows[i, ABLE] = free_people, able
        rows[i, IS_POSTPONE], rows[i, BEST_SLACK] = 0.0, 0.0


@njit(nogil=True)
def _describe_choice(state, p, a, ids, rows):  # type: ignore[no-untyped-def]
    """Write the columns that compare each person with the others who could take the task, now or soon."""
    relief = math.log(max(time_to_serve(state, p, a) / p.service_unit, 1e-300))
    for i in range(len(rows)):
        faster = 0
        for j in range(len(rows)):
            faster += p.pair_log[ids[j]] < p.pair_log[ids[i]]
        rows[i, FASTER] = math.log1p(faster)
        rows[i, SLACK] = min(max(relief - p.pair_log[ids[i]], -3.0), 3.0)
        rows[i, NEGATIVE_SLACK] = min(rows[i, SLACK], np.float32(0.0))
