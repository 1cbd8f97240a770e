"""A scenario as arrays for the compiled simulator."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from longstride.jit_cache.sized_records import sized_dtype
from longstride.process.kernel.aims.arrays import aim_arrays, late_arrays, pair_prices, typical_times
from longstride.process.kernel.aims.case_classes import class_arrays
from longstride.process.kernel.arrivals import arrival_arrays
from longstride.process.kernel.duty import duty_intervals, roster_arrays
from longstride.process.kernel.record_sizes import Sizes, sizes_of
from longstride.process.kernel.service_times import service_arrays, service_mean
from longstride.process.kernel.timers import batch_arrays, clock_arrays, delay_arrays
from longstride.process.scenario.at_once import slots_of, with_slots
from longstride.process.scenario.calendar import leave_arrays
from longstride.process.scenario.case_values import order_and_work
from longstride.process.scenario.routing import Routing, build_routing
from longstride.process.scenario.scenario import HOURS_PER_WEEK, Scenario, Service
from longstride.process.scenario.schema import places


class Parameters(NamedTuple):
    """All parameters of the process simulator; P pairs, A activities, R resources, N nodes. Times in time units.

    The simulator passes it to compiled code as one record (:func:`as_record`): a record is two pointers, but a
    NamedTuple of a hundred arrays would be hundreds of arguments of every function and seconds of compile time.

    A pair is a possible (activity, resource); pairs are numbered activity by activity, in the scenario's order of
    resources. Pair numbers are the actions; action P is postpone.
    """

    pair_activity: np.ndarray  # int64[P]
    pair_resource: np.ndarray  # int64[P]
    pair_mean: np.ndarray  # float64[P], mean service time
    pair_price: np.ndarray  # float64[P], the same and its cost as a time; see aims/arrays.py
    pair_habit: np.ndarray  # float64[P], events of the pair in the log
    habit_upto: np.ndarray  # float64[P + 1], events of all pairs before each in the log
    pair_least_rest: np.ndarray  # float64[P], lower bound of the expected remaining service time
    activity_pairs: np.ndarray  # int64[A + 1], first pair of each activity
    service_kind: np.ndarray  # int64[P], distribution; see service_times.py for this and the next five
    service_scale: np.ndarray  # float64[P]
    service_low: np.ndarray  # float64[P]
    service_high: np.ndarray  # float64[P]
    service_table: np.ndarray  # float64[K]
    service_tail: np.ndarray  # float64[K]
    node_kind: np.ndarray  # int64[N]
    node_target: np.ndarray  # int64[N], activity of a task, number of a join, else -1
    node_first: np.ndarray  # int64[N], first branch of each node
    node_count: np.ndarray  # int64[N], number of branches of each node
    branch_node: np.ndarray  # int64[branches], node that the branch leads to
    branch_cumulative: np.ndarray  # float64[branches], cumulative probability among the node's branches
    node_delay: np.ndarray  # float64[N], open time before each task
    has_priorities: int  # 1 if some cases have a higher priority than others, 2 if only within some queues
    node_priority: np.ndarray  # int64[N], priority of the node's case in queues; one 0 if all are equal
    oldest_case: int  # 1 if each queue serves the oldest case first
    longest_wait: int  # 1 if logged habits choose the queue whose head has waited longest, not that of the oldest case
    has_work: int  # 1 if the work on some tasks depends on the value of their case
    node_work: np.ndarray  # float64[N], factor of the service time of each node's task; one 1 if all are equal
    node_inside: np.ndarray  # int64[N], innermost join around the node, else -1
    root: int  # first node of a case
    join_size: np.ndarray  # int64[joins], branches that each join waits for
    arrival_kind: int  # POISSON, WEEKLY or REPLAY
    arrival_rates: np.ndarray  # float64[1] or float64[168], cases per time unit
    arrival_times: np.ndarray  # float64[cases] of REPLAY
    arrival_gaps: np.ndarray  # float64[*], quantiles of the expected arrivals between two, mean 1; one 0: Poisson
    arrivals_expected: np.ndarray  # float64[169] of WEEKLY, expected arrivals before each hour of the week
    shift_count: int  # weekly shift changes, C
    shift_times: np.ndarray  # float64[C], time since the week began
    shift_resource: np.ndarray  # int64[C]
    shift_on: np.ndarray  # int64[C], 1 if the resource comes
    shift_until: np.ndarray  # float64[C], time to the resource's next change
    shift_after: np.ndarray  # float64[C], time to the change after that
    first_change: np.ndarray  # float64[R], time of the first change
    second_change: np.ndarray  # float64[R], time of the second change
    on_duty_at_start: np.ndarray  # int64[R]
    duty_intervals: np.ndarray  # float64[I, 2], weekly intervals in which a resource could start the activity
    duty_first: np.ndarray  # int64[A + 1], first interval of each activity
    resource_first: np.ndarray  # int64[R + 1], first of each resource's activities
    resource_activity: np.ndarray  # int64[P], activities that each resource can do
    has_delays: int  # 1 if the scenario has external delays
    delay_kind: np.ndarray  # int64[A], distribution of the delay before an activity, -1 for none; see timers.py
    delay_scale: np.ndarray  # float64[A]
    delay_low: np.ndarray  # float64[A]
    delay_high: np.ndarray  # float64[A]
    delay_table: np.ndarray  # float64[*]
    automatic_kind: np.ndarray  # int64[A], distribution of the time of an automatic activity, -1 for the others
    automatic_scale: np.ndarray  # float64[A]
    automatic_low: np.ndarray  # float64[A]
    automatic_high: np.ndarray  # float64[A]
    automatic_table: np.ndarray  # float64[*]
    clock_upto: np.ndarray  # float64[169], open time before each hour of the week; one 0 if all time is open
    has_batches: int  # 1 if some activities are done in batches
    batch_size: np.ndarray  # int64[A], tasks of a full batch, 1 for activities without
    batch_longest: np.ndarray  # float64[A], longest time that the first task of a batch waits for others
    starts_batches: int  # 1 if policies decide when some batches begin
    batch_by_policy: np.ndarray  # int64[A], 1 for the activities of these batches
    has_rosters: int  # 1 if duty is drawn day by day, and for all resources
    pause: int  # 1 if a task rests while its resource is off duty
    roster_stream: np.ndarray  # int64[R], number of the random stream of each resource's plans
    roster_days: int  # days D after which rosters repeat, whole weeks
    roster_first: np.ndarray  # int64[D R + 1], first plan of each resource and day
    roster_cumulative: np.ndarray  # float64[*], cumulative probabilities of its plans
    roster_mask: np.ndarray  # int64[*], hours of each plan, one bit each
    leave_first: np.ndarray  # int64[R + 1], first absence of each resource
    leave_begin: np.ndarray  # int64[*], first hour of each absence, counted from time 0
    leave_end: np.ndarray  # int64[*], hour after its last
    counts: int  # 1 if the scenario has aims; see aims/quantities.py for this and the next ones
    weights: np.ndarray  # float64[Q + 1], weight of each quantity in the reward, and of cases beyond the target
    rate: np.ndarray  # float64[R], cost of a resource for a time unit
    task_cost: np.ndarray  # float64[A]
    paid_on_duty: int  # 1 if resources cost as much while they are idle on duty
    watches: int  # 1 if policies see the time that cases have left: with due dates or a target
    has_due: int  # 1 if cases have due dates
    due_by_case: int  # 1 if due_table has the allowance of each case, 0 for quantiles
    due_table: np.ndarray  # float64[*], allowances of cases, infinite without due dates, class by class
    due_first: np.ndarray  # int64[C + 1], first allowance of each class
    classes: int  # classes of cases, 0 if the flow has none; see aims/case_classes.py
    class_weight: np.ndarray  # float64[C], how often a case of each class counts; one 1 if there are none
    class_of_node: np.ndarray  # int64[N], class whose cases come to a node, -1 for all; one -1 if there are none
    weighs: int  # 1 if some cases do not count once
    within: float  # age of the target, infinite without one
    exceptions: float  # promised share of cases beyond it
    late_last: int  # 1 if queues serve cases last that can no longer be in time; see queues.py
    work_left: np.ndarray  # float64[A], expected work from each activity to the end of a case; one 0 without late_last
    horizon: float
    warmup: float
    hour: float
    week: float
    service_unit: float  # mean of pair_mean
    reward_scale: float  # 1 / expected cases
    max_open_cases: int


def build_parameters(scenario: Scenario, routing: Routing | None = None) -> tuple[Parameters, Sizes]:
    """Convert a checked scenario to arrays; its routing is built unless it is given.

    Raises:
        UserError: a case can never end, or an episode would have too many cases.
    """
    scenario = with_slots(scenario)
    routing = routing or build_routing(scenario.flow, scenario.activities)
    resource_of, activity_of = (places(names).__getitem__ for names in (scenario.resources, scenario.activities))
    pairs = sorted(scenario.service, key=lambda entry: (activity_of(entry.activity), resource_of(entry.resource)))
    activity = np.array([activity_of(entry.activity) for entry in pairs], np.int64)
    activity_pairs = np.searchsorted(activity, range(len(scenario.activities) + 1)).astype(np.int64)
    means = np.array([service_mean(entry) for entry in pairs])
    sizes = sizes_of(scenario, routing)
    resource = np.array([resource_of(entry.resource) for entry in pairs], np.int64)
    aims = aim_arrays(scenario)
    parameters = Parameters(
        pair_activity=activity,
        pair_resource=resource,
        pair_mean=means,
        pair_price=pair_prices(means, activity, resource, aims),
        pair_habit=np.array([float(entry.observations or 0) for entry in pairs]),
        habit_upto=np.cumsum([0.0, *(float(entry.observations or 0) for entry in pairs)]),
        activity_pairs=activity_pairs,
        **service_arrays(pairs),
        **_nodes(routing),
        **order_and_work(scenario.case_values, scenario.activities, {entry.activity for entry in pairs}, routing),
        oldest_case=int(scenario.queue_discipline_within_activity == "oldest case first"),
        longest_wait=int(scenario.queue_discipline_between_activities == "earliest enabled first"),
        **arrival_arrays(scenario),
        **_activities_of(pairs, scenario),
        **_shift_changes(scenario),
        **duty_intervals(scenario),
        **_external(scenario),
        **aims,
        **class_arrays(scenario, routing),
        **late_arrays(scenario, routing, typical_times(means, activity, len(scenario.activities))),
        horizon=scenario.horizon.value,
        warmup=scenario.warmup,
        hour=scenario.hour,
        week=scenario.hour * HOURS_PER_WEEK if scenario.has_clock else math.inf,
        service_unit=float(means.mean()),
        reward_scale=1.0 / sizes.expected_cases,
        max_open_cases=scenario.capacity.open_cases or sizes.cases,
    )
    return parameters, sizes


def _activities_of(pairs: list[Service], scenario: Scenario) -> dict[str, Any]:
    """Return the parameters' fields ``resource...``."""
    able: dict[str, list[int]] = {resource: [] for resource in scenario.resources}
    activity = places(scenario.activities)
    for entry in pairs:
        able[entry.resource].append(activity[entry.activity])
    return {
        "resource_first": np.cumsum([0, *map(len, able.values())]).astype(np.int64),
        "resource_activity": np.array([a for row in able.values() for a in row], np.int64),
    }


def _external(scenario: Scenario) -> dict[str, Any]:
    """Return the fields of arrivals, delays, automatic activities and duty, which no allocation changes."""
    pause = scenario.at_end_of_duty == "pause"
    rosters = scenario.by_the_day
    fixed: dict[str, list[int]] = {}
    for name in scenario.working_hours:
        hours = np.zeros(HOURS_PER_WEEK, np.int64)
        for start, end in scenario.weekly_hours({name}):
            hours[int(start) : int(end)] = 1
        fixed[name] = [int(day @ (1 << np.arange(24))) for day in hours.reshape(7, 24)]
    return {
        "has_delays": int(scenario.has_delays),
        **delay_arrays("delay_", scenario.delays, scenario.activities),
        **delay_arrays("automatic_", scenario.automatic, scenario.activities),
        **clock_arrays(scenario.delay_clock, scenario.hour),
        **batch_arrays(scenario.batches, scenario.activities),
        "has_rosters": int(rosters),
        "roster_stream": _roster_streams(scenario),
        "pause": int(pause),
        **roster_arrays(scenario.rosters if rosters else {}, fixed if rosters else {}, scenario.resources),
        **leave_arrays(scenario.absences, scenario.holidays, scenario.begins, scenario.hour, scenario.resources),
    }


def _roster_streams(scenario: Scenario) -> np.ndarray:
    """Return int64[R], the random stream of each resource's plans: the slots of a person have the same plans."""
    place, person = places(scenario.resources), slots_of(scenario)
    return np.array([place[person.get(name, name)] for name in scenario.resources], np.int64)


def as_record(parameters: Parameters, further: Mapping[str, np.ndarray] = MappingProxyType({})) -> np.ndarray:
    """Return an array of one record: the fields of ``parameters`` and further ones; empty arrays become one zero."""
    columns = {
        name: np.zeros(1, value.dtype) if isinstance(value, np.ndarray) and value.size == 0 else np.asarray(value)
        for name, value in {**parameters._asdict(), **further}.items()
    }
    dtype = sized_dtype((name, column.dtype, column.shape) for name, column in columns.items())
    record = np.zeros(1, dtype).view(np.recarray)
    for name, column in columns.items():
        record[name][0] = column
    return record


def _nodes(routing: Routing) -> dict[str, Any]:
    counts = [len(s) for s in routing.successors]
    return {
        "node_kind": np.array(routing.kind, np.int64),
        "node_target": np.array(routing.target, np.int64),
        "node_first": np.cumsum([0, *counts[:-1]]).astype(np.int64),
        "node_count": np.array(counts, np.int64),
        "branch_node": np.array([n for s in routing.successors for n in s], np.int64),
        "branch_cumulative": np.array([c for p in routing.probabilities for c in np.cumsum(p)], np.float64),
        "node_inside": np.array(routing.inside, np.int64),
        "node_delay": np.array(routing.delay, np.float64),
        "root": routing.root,
        "join_size": np.array(routing.joins or [0], np.int64),
    }


def _shift_changes(scenario: Scenario) -> dict[str, Any]:
    """Return the weekly changes of duty, none with rosters; a resource without working hours is always on duty."""
    if scenario.by_the_day or scenario.at_end_of_duty == "pause":
        scenario = scenario.model_copy(update={"working_hours": {}, "rosters": {}})
    on = np.ones(len(scenario.resources), np.int64)
    changes: list[tuple[float, int, int]] = []
    for r, name in enumerate(scenario.resources):
        intervals = scenario.weekly_hours({name})
        on[r] = any(start == 0.0 for start, _ in intervals)
        through_the_end = bool(intervals) and on[r] == 1 and intervals[-1][1] == HOURS_PER_WEEK
        for start, end in intervals:
            if start > 0.0 or not through_the_end:
                changes.append((start * scenario.hour, 1, r))
            if end < HOURS_PER_WEEK or not through_the_end:
                changes.append(((end % HOURS_PER_WEEK) * scenario.hour, 0, r))
    changes.sort()  # at the same instant, resources that leave come first
    times, coming, resources = np.array(changes).reshape(-1, 3).T
    until, after = np.zeros(len(times)), np.zeros(len(times))
    first, second = np.full(len(on), math.inf), np.full(len(on), math.inf)
    for r in np.unique(resources.astype(np.int64)):
        own = np.flatnonzero(resources == r)
        week = scenario.hour * HOURS_PER_WEEK
        ahead = np.concatenate([times[own], times[own] + week, times[own] + 2 * week])
        until[own], after[own] = ahead[1 : len(own) + 1] - times[own], ahead[2 : len(own) + 2] - times[own]
        first[r], second[r] = ahead[:2]
    return {
        "shift_count": len(changes),
        "shift_times": times,
        "shift_resource": resources.astype(np.int64),
        "shift_on": coming.astype(np.int64),
        "shift_until": until,
        "shift_after": after,
        "first_change": first,
        "second_change": second,
        "on_duty_at_start": on,
    }
