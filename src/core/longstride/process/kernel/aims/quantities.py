"""The integrals of the event loop over time, and the quantities that an objective can weigh.

A step adds to ``amounts``, and the reward takes them from there into ``totals``, both float64[Q] in the order of
``QUANTITIES`` and then cases beyond the target. Times are in time units, costs in their currency. Nothing is counted
(``counts`` is 0) if the scenario has no aims. Functions work on ``state``, the record
of ``state.py``, and ``p``, the record of ``parameters.py``.
"""

from typing import Any

import numpy as np
from numba import njit

from longstride.process.kernel.aims.arrays import (
    BEYOND,
    COST,
    CYCLE_TIME,
    HANDOVERS,
    LATE,
    OVERTIME,
    TARDINESS,
    WAITING,
)
from longstride.process.kernel.aims.case_classes import (
    add_open,
    add_waiting,
    extra_weight,
    fill_class_metrics,
    note_class,
    weighted_metrics,
)
from longstride.process.kernel.counter_rng import child, uniform
from longstride.process.kernel.state import NONE
from longstride.process.scenario.aims import OBJECTIVE, OF_ALL, QUANTITIES, SHARE_BEYOND, TIMES, WITH_PROMISE, Aims

DUE_STREAM = 2**36

_OF_EPISODES = {QUANTITIES[name]: q for q, name in enumerate(QUANTITIES) if q in (COST, WAITING, HANDOVERS, OVERTIME)}
"""Metrics that follow from the totals of an episode."""


@njit(nogil=True)
def clear_quantities(state, p):  # type: ignore[no-untyped-def]
    """Set all amounts to 0 in a record that is otherwise clear."""
    for q in range(len(state.amounts)):
        state.amounts[q] = state.totals[q] = 0.0
        state.extra[q] = state.extra_totals[q] = 0.0
    state.heavy_open, state.heavy_late, state.heavy_waiting = 0.0, 0.0, 0.0
    state.paying, state.overworked, state.due_count, state.late_open, state.aged = 0.0, 0, 0, 0, 0
    for r in range(len(state.pays)):
        state.pays[r], state.works_over[r] = 0.0, 0
        note_person(state, p, r)


@njit(nogil=True)
def note_person(state, p, r):  # type: ignore[no-untyped-def]
    """Note what a resource costs and whether it works overtime from now on; call it after each change of either."""
    if p.counts:
        on = state.on_duty[r] != 0
        works = state.busy_pair[r] != NONE and (on or not p.pause)
        pays = p.rate[r] if works or (on and p.paid_on_duty) else 0.0
        over = works and not on
        state.paying += pays - state.pays[r]
        state.overworked += np.int64(over) - np.int64(state.works_over[r])
        state.pays[r], state.works_over[r] = pays, over


@njit(nogil=True)
def note_case(state, p, case):  # type: ignore[no-untyped-def]
    """Give a case that arrives its class and its due date."""
    state.last_person[case], state.case_class[case] = NONE, 0
    if p.classes > 0:
        note_class(state, p, case)
    if p.weighs and not p.has_delays:
        add_open(state, p, case, 1.0)
    if p.has_due:
        state.due_time[case] = state.arrival_time[case] + _allowance(state, p, case)
        _push(state, case)


@njit(nogil=True)
def _allowance(state, p, case):  # type: ignore[no-untyped-def]
    if p.due_by_case:
        return p.due_table[min(case, len(p.due_table) - 1)]
    first = p.due_first[state.case_class[case]]
    steps = p.due_first[state.case_class[case] + 1] - first - 1
    place = uniform(child(child(state.seed, case + 1), DUE_STREAM)) * steps
    low = np.int64(min(place, steps - 1.0))
    return p.due_table[first + low] + (place - low) * (p.due_table[first + low + 1] - p.due_table[first + low])


@njit(nogil=True)
def expect_due_dates(state, p):  # type: ignore[no-untyped-def]
    """Give the cases of a described state their due dates; of allowances that differ in a class, the median one."""
    if p.has_due:
        state.late_open = 0
        allowance = np.empty(len(p.due_first) - 1)
        for c in range(len(allowance)):
            allowance[c] = np.median(p.due_table[p.due_first[c] : p.due_first[c + 1]])
        for case in range(state.arrived):
            state.due_time[case] = state.arrival_time[case] + allowance[state.case_class[case]]
            state.late_open += state.due_time[case] < state.time


@njit(nogil=True)
def note_task(state, p, case, activity, resource):  # type: ignore[no-untyped-def]
    """Count the cost of a task that begins, and its handover if another resource began the case's task before.

    It no longer waits.
    """
    state.amounts[COST] += p.task_cost[activity]
    before = state.last_person[case]
    handed = before != NONE and before != resource
    state.amounts[HANDOVERS] += handed
    if p.weighs:
        add_waiting(state, p, case, -1.0)
        state.extra[HANDOVERS] += handed * extra_weight(state, p, case)
    state.last_person[case] = resource


@njit(nogil=True)
def note_end(state, p, case):  # type: ignore[no-untyped-def]
    """Note that a case ends: it is no longer open, nor late."""
    is_late = p.has_due and state.due_time[case] < state.time
    state.late_open -= is_late
    if p.weighs:
        if is_late:
            state.heavy_late -= extra_weight(state, p, case)
        if not p.has_delays:
            add_open(state, p, case, -1.0)


@njit(nogil=True)
def pass_time(state, p, time):  # type: ignore[no-untyped-def]
    """Move the clock and update the time integrals: of cases in queue or service, of resting cases, of served cases."""
    passed = time - state.time
    state.area += (state.open - state.resting) * passed
    state.resting_time += state.resting * passed
    state.serving_time += state.serving * passed
    if p.counts:
        _count(state, p, time)
    state.time = time


@njit(nogil=True)
def _count(state, p, time):  # type: ignore[no-untyped-def]
    """Add what the time from now to ``time`` costs; nothing else happens in it."""
    amounts, passed = state.amounts, time - state.time
    amounts[COST] += state.paying * passed
    amounts[WAITING] += (state.waiting + state.waiting_more) * passed
    amounts[OVERTIME] += state.overworked * passed
    amounts[TARDINESS] += state.late_open * passed
    if p.weighs:
        state.extra[CYCLE_TIME] += state.heavy_open * passed
        state.extra[WAITING] += state.heavy_waiting * passed
        state.extra[TARDINESS] += state.heavy_late * passed
    while state.due_count > 0 and state.due_time[state.due_heap[0]] < time:
        case = _pop(state)
        if state.completion_time[case] < 0.0:
            state.late_open += 1
            amounts[LATE] += 1.0
            amounts[TARDINESS] += time - state.due_time[case]
            if p.weighs:
                more = extra_weight(state, p, case)
                state.heavy_late += more
                state.extra[LATE] += more
                state.extra[TARDINESS] += more * (time - state.due_time[case])
    while state.aged < state.arrived and state.arrival_time[state.aged] + p.within < time:
        amounts[BEYOND] += state.completion_time[state.aged] < 0.0
        state.aged += 1


@njit(nogil=True)
def take(state, p):  # type: ignore[no-untyped-def]
    """Return the weighted sum of what was added since the last call."""
    state.amounts[CYCLE_TIME] = state.area
    value = 0.0
    for q in range(len(state.amounts)):
        value += p.weights[q] * state.amounts[q]
        state.totals[q] += state.amounts[q]
        state.amounts[q] = 0.0
    if p.weighs:
        for q in range(len(state.extra)):
            value += p.weights[q] * state.extra[q]
            state.extra_totals[q] += state.extra[q]
            state.extra[q] = 0.0
    return value


@njit(nogil=True)
def slack(state, p, case):  # type: ignore[no-untyped-def]
    """Return the time to a case's due date, or to the age of the target; negative if it is past."""
    return limit(state, p, case) - state.time


@njit(nogil=True)
def limit(state, p, case):  # type: ignore[no-untyped-def]
    """Return a case's due date, or the time at which it reaches the age of the target."""
    return state.due_time[case] if p.has_due else state.arrival_time[case] + p.within


@njit(nogil=True)
def _push(state, case):  # type: ignore[no-untyped-def]
    """Add a case to the heap of due dates, the earliest on top."""
    i = state.due_count
    state.due_count += 1
    while i > 0 and state.due_time[state.due_heap[(i - 1) // 2]] > state.due_time[case]:
        state.due_heap[i] = state.due_heap[(i - 1) // 2]
        i = (i - 1) // 2
    state.due_heap[i] = case


@njit(nogil=True)
def _pop(state):  # type: ignore[no-untyped-def]
    """Remove and return the case with the earliest due date."""
    first = state.due_heap[0]
    state.due_count -= 1
    last, count, i = state.due_heap[state.due_count], state.due_count, 0
    while 2 * i + 1 < count:
        least = 2 * i + 1
        if least + 1 < count and state.due_time[state.due_heap[least + 1]] < state.due_time[state.due_heap[least]]:
            least += 1
        if state.due_time[state.due_heap[least]] >= state.due_time[last]:
            break
        state.due_heap[i] = state.due_heap[least]
        i = least
    state.due_heap[i] = last
    return first


def fill_case_quantities(state: Any, p: Any, metrics: Any, counted: np.ndarray) -> None:
    """Fill the metrics that follow from the times of cases; ``counted`` is bool[arrived], those that count.

    Shares are of the cases whose due date, or age of the target, comes before the end of the episode.
    """
    n, names = len(counted), metrics.dtype.names
    arrival, completion = state.arrival_time[:n], state.completion_time[:n]
    end = np.where(completion >= 0.0, completion, state.time)
    limits = {"share_late": state.due_time[:n] if p.has_due else end, SHARE_BEYOND: arrival + p.within}
    for name in filter(names.__contains__, limits):
        judged = counted & (limits[name] < state.time)
        if judged.any():
            metrics[name] = (end > limits[name])[judged].mean()
    if p.classes > 0:
        fill_class_metrics(state, p, metrics, counted)
    if "mean_tardiness" in names and counted.any():
        metrics["mean_tardiness"] = np.maximum(end - state.due_time[:n], 0.0)[counted].mean()


def fill_quantities(state: Any, p: Any, metrics: Any) -> None:
    """Fill the metrics of amounts, a case of the whole episode, then those of the objective and of the promise."""
    names = metrics.dtype.names
    for name in filter(names.__contains__, _OF_EPISODES):
        metrics[name] = state.totals[_OF_EPISODES[name]] / max(state.arrived, 1)
    if OBJECTIVE in names:
        own = weighted_metrics(state, p, metrics) if p.weighs else {}
        weighed = [(w, name) for w, name in zip(p.weights, QUANTITIES, strict=False) if w > 0.0]
        metrics[OBJECTIVE] = sum(w * own.get(name, metrics[QUANTITIES[name]]) for w, name in weighed)
    if WITH_PROMISE in names:
        minimised = OBJECTIVE if OBJECTIVE in names else list(QUANTITIES.values())[p.weights[:BEYOND].argmax()]
        missed = metrics[SHARE_BEYOND] / p.exceptions - 1.0
        metrics[WITH_PROMISE] = metrics[minimised] * (1.0 + max(missed, 0.0))


def metric_units(aims: Aims, time: str) -> dict[str, str]:
    """Return the units of the metrics of aims; ``time`` is the unit of times."""
    times = dict.fromkeys([*OF_ALL, "p95_cycle_time", *(QUANTITIES[name] for name in TIMES)], time)
    units = {name: times.get(name, "share" if name.startswith("share") else "") for name in aims.metrics}
    if OBJECTIVE in units and len(aims.objective) < 2:  # of cases that count more than once
        one = QUANTITIES[next(iter(aims.objective), "cycle_time")]
        units[OBJECTIVE] = units.get(one, times.get(one, ""))
    return units | ({WITH_PROMISE: times.get(aims.minimised, units.get(aims.minimised, ""))} if aims.target else {})
