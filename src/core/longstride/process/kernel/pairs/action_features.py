"""Action features: expected delays in the near future, computed from the state.

A fast resource that will soon be free can be better than a slow one that is free now. That depends on all resources
that can do the activity, on their current tasks and shifts. A network learns this slowly from raw figures, so it is
computed here. Arguments are ``state`` (``state.py``), ``p`` (``parameters.py``) and int64 indices: resource r and
activity a. Times are float64 in the scenario's unit.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.heuristics import first_queue, urgency
from longstride.process.kernel.pairs import batches
from longstride.process.kernel.policy_prior import LONGEST, OLDEST, URGENCY
from longstride.process.kernel.queues import NO_CASE, comes_before, oldest_of
from longstride.process.kernel.service_times import mean_residual

_MOST_TASKS = 16
"""Tasks of a queue that are assigned one by one; the time for a longer queue is extrapolated in proportion."""


@njit(nogil=True)
def action_features(state, p, mask, features):  # type: ignore[no-untyped-def]
    """Write the features of each feasible pair.

    Feature 0 is the logarithm of the time to serve the queue over the pair's own mean service time, within +-3. If the
    objective weighs costs, both contain them as times. Feature
    1 is feature 0 if that is negative: another resource is expected to finish sooner, although it is not free now. With
    a prior that serves the oldest case or the longest wait, feature 1 is 1 for the pairs that do, else 0. With the
    prior ``atc`` it is the :func:`urgency <longstride.process.kernel.heuristics.urgency>` of the pair less that of the
    most urgent one, <= 0.
    Feature 2 exists if cases have parallel branches; see :func:`branches_behind`. The last two exist if policies begin
    batches; see :func:`longstride.process.kernel.pairs.batches.describe_batch`. ``mask`` is bool[P + 1], the feasible
    pairs and postpone; ``features`` is float32[P + 1, 2 to 5], zeros that are overwritten for feasible pairs.
    """
    oldest = oldest_case(state, p, mask) if p.second_feature == OLDEST else NO_CASE
    first = first_queue(state, p, mask) if p.second_feature == LONGEST else -1
    most = most_urgent(state, p, mask) if p.second_feature == URGENCY else 0.0
    usual = features.shape[1] - (batches.SIZE if p.starts_batches else 0)
    for a in range(len(state.queue_length)):
        relief = behind = -1.0
        waits = np.float32(1.0 if oldest < NO_CASE and oldest_of(state, p, a) == oldest else 0.0)
        for pair in range(p.activity_pairs[a], p.activity_pairs[a + 1]):
            if mask[pair]:
                if relief < 0.0:
                    relief = time_to_serve(state, p, a)
                    behind = branches_behind(state, p, a)
                slack = np.float32(min(max(math.log(max(relief, 1e-300) / p.pair_price[pair]), -3.0), 3.0))
                features[pair, 0] = slack
                features[pair, 1] = waits if p.second_feature == OLDEST else min(slack, np.float32(0.0))
                if p.second_feature == LONGEST:
                    features[pair, 1] = 0.0 if comes_before(state, p, first, a) else 1.0
                if p.second_feature == URGENCY:
                    features[pair, 1] = urgency(state, p, pair) - most
                if usual > 2:
                    features[pair, 2] = behind
                if p.starts_batches:
                    batches.describe_batch(state, p, pair, features[pair, usual:])


@njit(nogil=True)
def oldest_case(state, p, mask):  # type: ignore[no-untyped-def]
    """Return the number of the oldest case that waits for an activity with a feasible pair."""
    oldest = NO_CASE
    for a in range(len(state.queue_length)):
        for pair in range(p.activity_pairs[a], p.activity_pairs[a + 1]):
            if mask[pair]:
                oldest = min(oldest, oldest_of(state, p, a))
                break
    return oldest


@njit(nogil=True)
def most_urgent(state, p, mask):  # type: ignore[no-untyped-def]
    """Return the largest urgency of the feasible pairs; -inf if there is none."""
    most = -math.inf
    for pair in range(len(p.pair_mean)):
        if mask[pair]:
            most = max(most, urgency(state, p, pair))
    return most


@njit(nogil=True)
def time_until_ready(state, p, r):  # type: ignore[no-untyped-def]
    """Return the expected time until a resource can begin a task: its current task is done and it is on duty."""
    wait, pair = 0.0, state.busy_pair[r]
    if pair >= 0:
        wait = mean_residual(
            p.service_kind[pair],
            p.service_scale[pair],
            p.service_low[pair],
            p.service_high[pair],
            p.service_table,
            p.service_tail,
            state.time - state.started[r],
        )
    if state.on_duty[r]:
        return wait if state.time + wait < state.change_at[r] else state.change_after[r] - state.time
    return max(wait, state.change_at[r] - state.time)


@njit(nogil=True)
def least_wait(state, p, r):  # type: ignore[no-untyped-def]
    """Return a cheap lower bound of :func:`time_until_ready`, without its logarithm and two erfc."""
    change = state.change_at[r] - state.time
    if not state.on_duty[r]:
        return change
    pair = state.busy_pair[r]
    return min(p.pair_least_rest[pair], change) if pair >= 0 else 0.0


@njit(nogil=True)
def time_to_serve(state, p, a):  # type: ignore[no-untyped-def]
    """Return the expected time to serve an activity's queue, if its resources did nothing else.

    Each task goes to the resource that would finish it first (list scheduling), with mean service times in place of
    random ones, and with their costs if the objective weighs costs. :func:`time_until_ready` is expensive, so it is
    computed only for a resource that might be next.
    """
    first, last = p.activity_pairs[a], p.activity_pairs[a + 1]
    done, asked, resource, price = state.done, state.asked, p.pair_resource, p.pair_price
    for pair in range(first, last):
        done[pair], asked[pair] = least_wait(state, p, resource[pair]) + price[pair], 0
    tasks = min(state.queue_length[a], _MOST_TASKS)
    served = 0
    while True:
        chosen = first
        for pair in range(first + 1, last):
            if done[pair] < done[chosen]:
                chosen = pair
        if asked[chosen] == 0:
            done[chosen] = time_until_ready(state, p, resource[chosen]) + price[chosen]
            asked[chosen] = 1
            continue
        served += 1
        if served == tasks:
            break
        done[chosen] += price[chosen]
    earliest = done[chosen]
    for pair in range(first, last):  # features must not change the record
        done[pair], asked[pair] = 0.0, 0
    return earliest * state.queue_length[a] / tasks


@njit(nogil=True)
def branches_behind(state, p, a):  # type: ignore[no-untyped-def]
    """Return the share of the sibling branches of a queue's head that are neither done nor in service.

    0 means that no other queue delays the case: the case has no parallel branches, or this branch starts last.
    """
    slot = state.queue_head[a]
    case, join = state.slot_case[slot], p.node_inside[state.slot_node[slot]]
    if join < 0 or p.join_size[join] == 1:
        return 0.0
    others = p.join_size[join] - 1
    behind = others - state.joined[case, join]
    for r in range(len(state.busy_pair)):
        if state.busy_pair[r] >= 0 and state.work_case[r] == case and p.node_inside[state.work_node[r]] == join:
            behind -= 1
    return behind / others
