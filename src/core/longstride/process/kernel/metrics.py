"""Metrics of a finished episode of the process simulator, and a lower bound for every policy."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.kernel.aims import quantities
from longstride.process.kernel.aims.quantities import note_case
from longstride.process.kernel.arrivals import draw_arrival
from longstride.process.kernel.counter_rng import advance, child, uniform
from longstride.process.kernel.dynamics import clear, draw_branch, stream_after_join
from longstride.process.kernel.parameters import Parameters
from longstride.process.kernel.service_times import draw_service
from longstride.process.kernel.timers import is_automatic, rest_ends
from longstride.process.scenario.aims import OF_ALL, Aims, class_metrics
from longstride.process.scenario.nodes import FORK, JOIN, TASK, XOR

SHARES = "mean_world_time", "mean_people_time", "mean_work_time"
"""Metrics that split the time of a case; "world" is the documented key of external delays."""


def metrics_dtype(people: int, has_delays: bool, aims: Aims, classes: Sequence[str] = ()) -> np.dtype:
    """Return the dtype of an episode's metrics: times in the scenario's unit, utilisation as a share of time on duty.

    Cycle times cover cases that arrived after the warm-up; an open case counts with its age at the end. The mean
    utilisation covers all resources together: their time at work over their time on duty. With external delays the
    time of a case is also split: into work while a task of the case is served, waiting for people while a task waits
    for a resource but none is served, and external delay otherwise.
    """
    scalars = [*OF_ALL, "cases_finished", "cases_open", "decisions", "mean_utilisation"]
    scalars += [*(SHARES if has_delays else ()), *aims.metrics, *class_metrics(aims, classes)]
    return np.dtype([*((name, np.float64) for name in scalars), ("utilisation", np.float64, (people,))])


def metric_units(time_unit: str, has_delays: bool, aims: Aims, classes: Sequence[str] = ()) -> dict[str, str]:
    """Return the unit of each metric for a scenario's unit of time."""
    time = "time units" if time_unit == "abstract" else time_unit
    times = dict.fromkeys((*OF_ALL, *(SHARES if has_delays else ())), time)
    shares = dict.fromkeys(("mean_utilisation", "utilisation"), "share")
    numbers = {"cases_finished": "cases", "cases_open": "cases", "decisions": "steps"}
    units = {**times, **numbers, **shares, **quantities.metric_units(aims, time)}
    return units | {name: units[metric] for name, (metric, _) in class_metrics(aims, classes).items()}


def episode_metrics(state: Any, p: Parameters, metrics: Any) -> None:
    """Fill the record ``metrics`` from the state at the end of an episode."""
    summarise_cycle_times(state, p, metrics)
    working = np.where(state.busy_pair >= 0, state.time - state.started, 0.0)
    if p.pause:
        working = np.minimum(working, state.work)
    on_duty = duty_so_far(state, p)
    metrics.decisions = state.decisions
    at_work = state.busy_time + working
    of_people = (np.bincount(p.roster_stream, each) for each in (at_work, on_duty))  # of all slots of each
    work, duty = (each[: len(metrics.utilisation)] for each in of_people)
    metrics.utilisation[:] = work / np.maximum(duty, 1e-9)
    metrics.mean_utilisation = at_work.sum() / max(on_duty.sum(), 1e-9)
    if p.has_delays and state.arrived > 0:
        external, work = state.resting_time / state.arrived, state.serving_time / state.arrived
        ages = np.where(state.completion_time >= 0.0, state.completion_time, state.time) - state.arrival_time
        metrics.mean_world_time, metrics.mean_work_time = external, work
        metrics.mean_people_time = max(ages[: state.arrived].mean() - external - work, 0.0)
    quantities.fill_quantities(state, p, metrics)


def summarise_cycle_times(state: Any, p: Parameters, metrics: Any) -> None:
    """Fill the metrics that follow from the times at which cases arrive, are due and end."""
    arrival, completion = state.arrival_time[: state.arrived], state.completion_time[: state.arrived]
    counted = arrival >= p.warmup
    arrival, completion = arrival[counted], completion[counted]
    finished = completion >= 0.0
    metrics.cases_finished, metrics.cases_open = finished.sum(), (~finished).sum()
    if len(arrival) > 0:
        cycle_times = np.where(finished, completion, state.time) - arrival
        metrics.mean_cycle_time = cycle_times.mean()
        metrics.median_cycle_time, metrics.p90_cycle_time = np.quantile(cycle_times, (0.5, 0.9))
        if "p95_cycle_time" in metrics.dtype.names:
            metrics.p95_cycle_time = np.quantile(cycle_times, 0.95)
    quantities.fill_case_quantities(state, p, metrics, counted)


def duty_so_far(state: Any, p: Parameters) -> np.ndarray:
    """Return float64[R], the time on duty of each resource in an episode so far."""
    if p.has_rosters:
        return np.asarray(state.duty_time + np.where(state.on_duty != 0, state.time, 0.0))
    return time_on_duty(p, float(state.time))


def time_on_duty(p: Parameters, end: float) -> np.ndarray:
    """Return float64[R], the time on duty of each resource from time 0 to ``end``."""
    if p.shift_count == 0:
        return np.full(len(p.on_duty_at_start), end)
    weeks = np.arange(math.ceil(end / p.week)) * p.week
    times = (weeks[:, None] + p.shift_times).ravel()
    # Changes at time 0 are already in on_duty_at_start.
    happened = (times > 0.0) & (times < end)
    resource, on = np.tile(p.shift_resource, len(weeks))[happened], np.tile(p.shift_on, len(weeks))[happened]
    sign = np.where(on == 1, -1.0, 1.0)
    count = len(p.on_duty_at_start)
    total = np.bincount(resource, sign * times[happened], count)
    on_at_end = p.on_duty_at_start - np.bincount(resource, sign, count)
    return np.asarray(total + on_at_end * end)


def lower_bound(state: Any, p: Parameters, metrics: Any) -> None:
    """Fill the metrics of a lower bound: an episode in which no task waits for a busy resource.

    Arrivals, branches and random numbers are those of the episode of this seed. Each task starts as soon as a resource
    that can do it is on duty, and takes the service time of the fastest. No policy finishes any case earlier: service
    times are quantiles of one number per task, so no resource is faster than the fastest.

    Call it after ``reset``; the state afterwards holds the bound's completions.
    """
    run_unhindered(state, p)
    summarise_cycle_times(state, p, metrics)


@cached
@njit(nogil=True)
def run_unhindered(state, p):  # type: ignore[no-untyped-def]
    """Simulate the episode of a state's seed with as many copies of each resource as needed."""
    clear(state, p)
    while state.next_arrival < p.horizon and state.arrived < len(state.arrival_time):
        case = state.arrived
        state.arrival_time[case] = state.next_arrival
        state.arrived += 1
        if p.counts:
            note_case(state, p, case)
        end = unhindered_completion(p, state.next_arrival, child(state.seed, case + 1), len(state.stack_node))
        if end < p.horizon:
            state.completion_time[case] = end
        draw_arrival(state, p)
    state.time = p.horizon


@njit(nogil=True)
def unhindered_completion(p, arrival, case_stream, size):  # type: ignore[no-untyped-def]
    """Return the completion time of a case whose resources are never busy with another case.

    ``size`` is the number of nodes that one token can lead to at one time.
    """
    nodes, streams, times = np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size)
    joined, join_time = np.zeros(len(p.join_size), np.int64), np.zeros(len(p.join_size))
    nodes[0], streams[0], times[0], depth = p.root, case_stream, arrival, 1
    end = arrival
    while depth > 0:
        depth -= 1
        node, stream, time = nodes[depth], streams[depth], times[depth]
        kind, first = p.node_kind[node], p.node_first[node]
        if kind == FORK:
            for i in range(p.node_count[node]):
                nodes[depth], streams[depth], times[depth] = p.branch_node[first + i], child(stream, i), time
                depth += 1
            continue
        branch = first
        if kind == TASK and is_automatic(p, node):
            time, stream = rest_ends(p, node, stream, time), advance(stream)
        elif kind == TASK:
            if p.has_delays:
                time = rest_ends(p, node, stream, time)
            stream = advance(stream)
            time = first_on_duty(p, p.node_target[node], time) + fastest_service(p, node, uniform(stream))
        elif kind == XOR:
            stream = advance(stream)
            branch = draw_branch(p, node, uniform(stream))
        elif kind == JOIN:
            join = p.node_target[node]
            joined[join] += 1
            join_time[join] = max(join_time[join], time)
            if joined[join] < p.join_size[join]:
                continue
            time, stream = join_time[join], stream_after_join(case_stream, join)
        else:
            end = max(end, time)
            continue
        nodes[depth], streams[depth], times[depth] = p.branch_node[branch], stream, time
        depth += 1
    return end


@njit(nogil=True)
def first_on_duty(p, activity, time):  # type: ignore[no-untyped-def]
    """Return the earliest time, not before ``time``, at which a resource that can do an activity is on duty."""
    first, last = p.duty_first[activity], p.duty_first[activity + 1] - 1
    if p.duty_intervals[last, 1] == math.inf:
        return time
    week = math.floor(time / p.week) * p.week
    if time == week and week > 0.0 and p.duty_intervals[last, 1] == p.week:
        return time  # the last moment of a shift that ends with the week
    for i in range(first, last + 1):
        if time <= week + p.duty_intervals[i, 1]:  # a resource that leaves at this instant may still start
            return max(time, week + p.duty_intervals[i, 0])
    return week + p.week + p.duty_intervals[first, 0]


@njit(nogil=True)
def fastest_service(p, node, u):  # type: ignore[no-untyped-def]
    """Return the least u-quantile of the service times of the pairs that can do the task of a node; u in [0, 1).

    The time of a batch is drawn for its first case, so the least time of all bounds that of the others.
    """
    fastest, activity = math.inf, p.node_target[node]
    if p.has_batches and p.has_work and p.batch_size[activity] > 1:
        return 0.0
    if p.has_batches and p.batch_size[activity] > 1:
        u = 0.0
    for pair in range(p.activity_pairs[activity], p.activity_pairs[activity + 1]):
        fastest = min(fastest, draw_service(p, pair, node, u))
    return fastest
