"""The usual rules for who works on what next. None of them postpones while a pair is feasible."""

import math

import numpy as np
from numba import njit


@njit(nogil=True)
def random(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Choose uniformly among the feasible pairs."""
    pairs = len(p.pair_mean)
    count = 0
    for pair in range(pairs):
        count += mask[pair]
    skip = np.int64(rng.random() * count)
    for pair in range(pairs):
        if mask[pair]:
            if skip == 0:
                return pair
            skip -= 1
    return pairs


@njit(nogil=True)
def shortest_processing_time(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Choose the feasible pair with the least mean service time, uniformly among equals."""
    chosen, best, equals = len(p.pair_mean), math.inf, 0
    for pair in range(len(p.pair_mean)):
        if mask[pair] and p.pair_mean[pair] <= best:
            equals = equals + 1 if p.pair_mean[pair] == best else 1
            best = p.pair_mean[pair]
            if rng.random() * equals < 1.0:
                chosen = pair
    return chosen


@njit(nogil=True)
def oldest_activity(state, p, mask):  # type: ignore[no-untyped-def]
    """Return the activity in which the oldest case (by arrival) waits that has a feasible pair."""
    oldest, activity = math.inf, -1
    for a in range(len(state.queue_length)):
        if state.queue_length[a] > 0 and mask[p.activity_pairs[a] : p.activity_pairs[a + 1]].any():
            slot = state.queue_head[a]
            for _ in range(state.queue_length[a]):
                # Cases are numbered by arrival.
                if state.slot_case[slot] < oldest:
                    oldest, activity = state.slot_case[slot], a
                slot = state.slot_next[slot]
    return activity


@njit(nogil=True)
def first_in_first_out(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case with a feasible pair, by a uniformly chosen resource."""
    return _resource_by_weight(state, p, mask, rng, False)


@njit(nogil=True)
def logged(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case by a resource chosen as often as the log shows it on this activity."""
    return _resource_by_weight(state, p, mask, rng, True)


@njit(nogil=True)
def _resource_by_weight(state, p, mask, rng, by_habit):  # type: ignore[no-untyped-def]
    activity = oldest_activity(state, p, mask)
    first, end = p.activity_pairs[activity], p.activity_pairs[activity + 1]
    total = 0.0
    for pair in range(first, end):
        total += mask[pair] * (p.pair_habit[pair] if by_habit else 1.0)
    if total == 0.0:  # nobody feasible was ever logged on this activity
        return _resource_by_weight(state, p, mask, rng, False)
    target = rng.random() * total
    chosen = end
    for pair in range(end - 1, first - 1, -1):
        if mask[pair]:
            chosen = pair
            target -= p.pair_habit[pair] if by_habit else 1.0
            if target < 0.0:
                break
    return chosen
