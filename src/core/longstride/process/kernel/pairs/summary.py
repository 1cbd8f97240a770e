"""A summary of the process whose size depends neither on the number of people nor on the number of activities.

Arguments are those of :mod:`longstride.process.kernel.pairs.describe`.
"""

import math

from numba import njit

SIZE = 24
"""Number of figures of a summary."""


@njit(nogil=True)
def summarise(state, p, summary):  # type: ignore[no-untyped-def]
    """Write float32[SIZE]: cases and queues, work, people, and the clock if the hour matters.

    Figures 0 to 3 are log(1 + x) of the open cases, of the waiting tasks, and of both over the number of people. Then
    come those of :func:`_queues`, of :func:`_people` and, from 20 on, sine and cosine of the hour of the day and of the
    week.
    """
    people = p.people
    summary[0], summary[1] = math.log1p(state.open), math.log1p(state.waiting)
    summary[2], summary[3] = math.log1p(state.open / people), math.log1p(state.waiting / people)
    _queues(state, p, summary)
    _people(state, p, summary)
    if math.isfinite(p.week):
        day = 2.0 * math.pi * state.time / (24.0 * p.hour)
        summary[20], summary[21] = math.sin(day), math.cos(day)
        summary[22], summary[23] = math.sin(day / 7.0), math.cos(day / 7.0)


@njit(nogil=True)
def _queues(state, p, summary):  # type: ignore[no-untyped-def]
    """Write figures 4 to 13.

    The share of activities with a queue, and the share of those that a free person can do; logarithms of the three
    longest queues, of the mean and highest age of a queue's head, of the work ahead of waiting cases over the number of
    people, of the most work of an activity over its people; and the work without a logarithm.
    """
    activities = len(state.queue_length)
    waiting, served, ages, oldest, work, most = 0, 0, 0.0, 0.0, 0.0, 0.0
    first = second = third = 0
    for a in range(activities):
        length = state.queue_length[a]
        if length == 0:
            continue
        waiting += 1
        for pair in range(p.activity_pairs[a], p.activity_pairs[a + 1]):
            if state.available[p.pair_resource[pair]]:
                served += 1
                break
        if length > first:
            first, second, third = length, first, second
        elif length > second:
            second, third = length, second
        elif length > third:
            third = length
        age = math.log1p((state.time - state.slot_enabled[state.queue_head[a]]) / p.service_unit)
        ages += age
        oldest = max(oldest, age)
        work += length * p.work_ahead[a]
        most = max(most, length * p.activity_share[a])
    work /= p.people
    summary[4], summary[5] = waiting / activities, served / max(waiting, 1)
    summary[6], summary[7], summary[8] = math.log1p(first), math.log1p(second), math.log1p(third)
    summary[9], summary[10] = ages / max(waiting, 1), oldest
    summary[11], summary[12], summary[13] = math.log1p(work), math.log1p(most), work


@njit(nogil=True)
def _people(state, p, summary):  # type: ignore[no-untyped-def]
    """Write figures 14 to 19.

    The shares of people who are free, busy and on duty; log(1 + free people); the work ahead of cases in service over
    the number of people; and the mean of e / (e + mean) over busy people, with the elapsed time e of their tasks.
    """
    people = p.people
    free, busy, on_duty, work, elapsed = 0, 0, 0, 0.0, 0.0
    for r in range(len(state.finish)):
        free += state.available[r]
        on_duty += state.on_duty[r]
        pair = state.busy_pair[r]
        if pair >= 0:
            busy += 1
            work += p.work_ahead[p.pair_activity[pair]]
            since = state.time - state.started[r]
            elapsed += since / (since + p.pair_mean[pair])
    summary[14], summary[15], summary[16] = free / people, busy / people, on_duty / people
    summary[17], summary[18] = math.log1p(free), work / people
    summary[19] = elapsed / max(busy, 1)
