"""Heuristics: the usual rules of assignment; none postpones while a pair is feasible, except for a batch.

Each takes the state record, the parameters, the mask bool[P + 1] and a generator, and returns an action, int64.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.aims.quantities import slack
from longstride.process.kernel.queues import NO_CASE, ahead_by_priority, all_late, comes_before, oldest_of, only_ready

_NEVER = 1e12
"""What puts a due date after all others, in time units."""

_FAR = 30.0
"""Spare times before a due date from which a case is equally far from it, in mean service times."""


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
    """Choose the feasible pair with the least mean service time, uniformly among ties."""
    return _least(p.pair_mean, mask, rng)


@njit(nogil=True)
def cheapest(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Choose the feasible pair with the least expected cost of the person's time and the task, uniformly among ties."""
    costs = np.empty(len(p.pair_mean))
    for pair in range(len(costs)):
        costs[pair] = p.pair_mean[pair] * p.rate[p.pair_resource[pair]] + p.task_cost[p.pair_activity[pair]]
    return _least(costs, mask, rng)


@njit(nogil=True)
def earliest_due_date(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the activity whose queue's head has the earliest due date, by the fastest of its available people.

    If late cases come last, so do queues of late cases alone.
    """
    due, times = np.full(len(state.queue_length), math.inf), np.full(len(p.pair_mean), math.inf)
    for pair in range(len(times)):
        a = p.pair_activity[pair]
        if mask[pair]:
            due[a] = state.due_time[state.slot_case[state.queue_head[a]]] + (_NEVER if all_late(state, p, a) else 0.0)
    first = due.min()
    for pair in range(len(times)):
        if mask[pair] and due[p.pair_activity[pair]] == first:
            times[pair] = p.pair_mean[pair]
    return _least(times, mask, rng)


@njit(nogil=True)
def weighted_shortest_processing_time(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Choose the feasible pair with the least mean service time over the weight of the case, uniformly among ties.

    With linear costs of waiting that is the c-mu rule (Cox and Smith, Queues, 1961).
    """
    times = np.full(len(p.pair_mean), math.inf)
    for pair in range(len(times)):
        if mask[pair]:
            case = state.slot_case[state.queue_head[p.pair_activity[pair]]]
            times[pair] = p.pair_mean[pair] / p.class_weight[state.case_class[case]]
    return _least(times, mask, rng)


@njit(nogil=True)
def apparent_tardiness_cost(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Choose the feasible pair with the largest :func:`urgency`, uniformly among ties."""
    figures = np.full(len(p.pair_mean), math.inf)
    for pair in range(len(figures)):
        if mask[pair]:
            figures[pair] = -urgency(state, p, pair)
    return _least(figures, mask, rng)


@njit(nogil=True)
def urgency(state, p, pair):  # type: ignore[no-untyped-def]
    """Return the logarithm of what a delay of the pair's case costs over the time that the pair takes.

    The apparent tardiness cost (Vepsalainen and Morton, Management Science 33, 1987): the weight of a case over its
    service time, times exp(-s) of its tardiness, where s is the time that it can spare before its due date, beyond its
    remaining work, in mean service times. A case that can no longer be in time counts for tardiness alone, since it is
    late anyway. If the objective also weighs the cycle time, that part does not wait for the due date; if it weighs
    costs, the service time contains them as times.
    """
    a = p.pair_activity[pair]
    case = state.slot_case[state.queue_head[a]]
    spare = slack(state, p, case) / p.service_unit - p.work_ahead[a]
    soon = math.exp(-min(max(spare, 0.0), _FAR))
    rate = 1.0 - p.due_share + p.tardy_share * soon
    rate += (p.due_share - p.tardy_share) * (soon if spare >= 0.0 else math.exp(-_FAR))
    delay = p.class_weight[state.case_class[case]] * rate
    return math.log(max(delay * p.service_unit / p.pair_price[pair], 1e-300))


@njit(nogil=True)
def _least(figures, mask, rng):  # type: ignore[no-untyped-def]
    """Return the feasible pair with the least figure, float64[P], uniformly among ties; postpone without one."""
    chosen, best, equals = len(figures), math.inf, 0
    for pair in range(len(figures)):
        if mask[pair] and figures[pair] <= best:
            equals = equals + 1 if figures[pair] == best else 1
            best = figures[pair]
            if rng.random() * equals < 1.0:
                chosen = pair
    return chosen


@njit(nogil=True)
def first_in_first_out(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case with a feasible pair, by one of its feasible pairs, chosen uniformly."""
    return _serve_oldest(state, p, mask, rng, False)


@njit(nogil=True)
def logged(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case; choose its resource in proportion to the resource's events of this activity in the log.

    If the log shows that, serve the task that has waited longest instead. Batches begin when they are ready.
    """
    return _serve_oldest(state, p, only_ready(state, p, mask, True) if p.starts_batches else mask, rng, True)


@njit(nogil=True)
def full_batches(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case, but begin a batch only when it is full."""
    return _serve_oldest(state, p, only_ready(state, p, mask, False), rng, False)


@njit(nogil=True)
def ready_batches(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case, but begin a batch only when it is ready: full, or its first task has waited enough."""
    return _serve_oldest(state, p, only_ready(state, p, mask, True), rng, False)


@njit(nogil=True)
def oldest_waiting(state, p, mask):  # type: ignore[no-untyped-def]
    """Return int64[A], the number of the oldest case in each activity's queue; ``NO_CASE`` if no pair is feasible.

    Cases are numbered by arrival. A queue whose head has a higher priority has a lower number, unless priorities hold
    for some activities only.
    """
    oldest = np.full(len(state.queue_length), NO_CASE)
    for a in range(len(oldest)):
        if mask[p.activity_pairs[a] : p.activity_pairs[a + 1]].any():
            oldest[a] = oldest_of(state, p, a)
            if p.has_priorities == 1:
                oldest[a] -= ahead_by_priority(state, p, a)
    return oldest


@njit(nogil=True)
def first_queue(state, p, mask):  # type: ignore[no-untyped-def]
    """Return the activity with a feasible pair whose queue's head has waited longest, -1 if no pair is feasible."""
    first = -1
    for a in range(len(state.queue_length)):
        if mask[p.activity_pairs[a] : p.activity_pairs[a + 1]].any() and (
            first < 0 or comes_before(state, p, a, first)
        ):
            first = a
    return first


@njit(nogil=True)
def longest_waiting(state, p, mask):  # type: ignore[no-untyped-def]
    """Return int64[A], 0 for the activities whose queue's head has waited longest, ``NO_CASE`` for the others."""
    found, first = np.full(len(state.queue_length), NO_CASE), first_queue(state, p, mask)
    for a in range(len(found)):
        if mask[p.activity_pairs[a] : p.activity_pairs[a + 1]].any() and not comes_before(state, p, first, a):
            found[a] = 0
    return found


@njit(nogil=True)
def _serve_oldest(state, p, mask, rng, by_habit):  # type: ignore[no-untyped-def]
    by_wait = by_habit and p.longest_wait != 0
    oldest = longest_waiting(state, p, mask) if by_wait else oldest_waiting(state, p, mask)
    case = oldest.min()
    postpone = len(p.pair_mean)
    if case == NO_CASE:
        return postpone
    habit, equal = 0.0, 0.0
    for pair in range(postpone):
        if mask[pair] and oldest[p.pair_activity[pair]] == case:
            habit += p.pair_habit[pair]
            equal += 1.0
    habitual = by_habit and habit > 0.0  # the log may show no feasible resource on this activity
    target = rng.random() * (habit if habitual else equal)
    chosen = postpone
    for pair in range(postpone):
        if mask[pair] and oldest[p.pair_activity[pair]] == case:
            weight = p.pair_habit[pair] if habitual else 1.0
            if weight > 0.0:
                chosen = pair
                target -= weight
                if target < 0.0:
                    break
    return chosen
