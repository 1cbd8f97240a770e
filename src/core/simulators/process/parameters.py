"""A scenario as the arrays that the compiled simulator reads."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from core.errors import UserError
from core.simulators.process import service_times
from core.simulators.process.routing import TASK, Routing, build_routing
from core.simulators.process.scenario import DAYS, HOURS_PER_WEEK, Scenario, Service, hour_of

POISSON, WEEKLY, REPLAY = range(3)

_MOST_CASES = 20_000_000
"""Of an episode; their state would fill about a gigabyte."""


class Parameters(NamedTuple):
    """Everything the process simulator knows; P pairs, A activities, R resources, N nodes. Times in time units.

    The simulator hands it to compiled code as one record (:func:`as_record`): a record is one pointer with known
    offsets, where a NamedTuple of 30 arrays would be 200 arguments of every function and seconds of compile time.

    A pair is an (activity, resource) that is possible; pairs are numbered activity by activity, in the scenario's
    order of resources. Pair numbers are the actions; action P is postpone.
    """

    pair_activity: np.ndarray
    pair_resource: np.ndarray
    pair_mean: np.ndarray
    pair_excess: np.ndarray
    pair_habit: np.ndarray
    pair_least_rest: np.ndarray
    activity_pairs: np.ndarray
    service_kind: np.ndarray
    service_scale: np.ndarray
    service_low: np.ndarray
    service_high: np.ndarray
    service_table: np.ndarray
    service_tail: np.ndarray
    node_kind: np.ndarray
    node_target: np.ndarray
    node_first: np.ndarray
    node_count: np.ndarray
    branch_node: np.ndarray
    branch_cumulative: np.ndarray
    node_inside: np.ndarray
    root: int
    join_size: np.ndarray
    arrival_kind: int
    arrival_rates: np.ndarray
    arrival_times: np.ndarray
    arrivals_expected: np.ndarray
    shift_count: int
    shift_times: np.ndarray
    shift_resource: np.ndarray
    shift_on: np.ndarray
    shift_until: np.ndarray
    shift_after: np.ndarray
    first_change: np.ndarray
    second_change: np.ndarray
    on_duty_at_start: np.ndarray
    duty_intervals: np.ndarray
    duty_first: np.ndarray
    horizon: float
    warmup: float
    hour: float
    week: float
    service_unit: float
    reward_scale: float
    max_open_cases: int


class Sizes(NamedTuple):
    """Sizes of the state record and facts about a nominal episode."""

    cases: int
    waiting: int
    expected_cases: float
    expected_tasks: float
    max_steps: int


def build_parameters(scenario: Scenario) -> tuple[Parameters, Sizes]:
    """Turn a checked scenario into arrays.

    Raises:
        UserError: a case of the scenario can never end.
    """
    routing = build_routing(scenario.flow, scenario.activities)
    pairs = _ordered_pairs(scenario)
    means = np.array([service_mean(s) for s in pairs])
    rates, times, kind = _arrivals(scenario)
    sizes = _sizes(scenario, routing, rates, times)
    shifts = _shift_changes(scenario)
    intervals, first = _duty_intervals(scenario, pairs)
    parameters = Parameters(
        pair_activity=np.array([scenario.activities.index(s.activity) for s in pairs], np.int64),
        pair_resource=np.array([scenario.resources.index(s.resource) for s in pairs], np.int64),
        pair_mean=means,
        pair_excess=_excess(pairs, means),
        pair_habit=np.array([float(s.observations or 0) for s in pairs]),
        activity_pairs=np.searchsorted(
            [scenario.activities.index(s.activity) for s in pairs], range(len(scenario.activities) + 1)
        ).astype(np.int64),
        **_services(pairs),
        **_nodes(routing),
        arrival_kind=kind,
        arrival_rates=rates,
        arrival_times=times,
        arrivals_expected=np.append(0.0, np.cumsum(rates * scenario.hour)) if kind == WEEKLY else np.zeros(1),
        **shifts,
        duty_intervals=intervals,
        duty_first=first,
        horizon=scenario.horizon.value,
        warmup=scenario.warmup,
        hour=scenario.hour,
        week=scenario.hour * HOURS_PER_WEEK if has_clock(scenario) else math.inf,
        service_unit=float(means.mean()),
        reward_scale=1.0 / sizes.expected_cases,
        max_open_cases=scenario.capacity.open_cases or sizes.cases,
    )
    return parameters, sizes


def as_record(parameters: Parameters) -> np.ndarray:
    """Return an array of one record with the fields of ``parameters``; empty arrays become one zero."""
    columns = {
        name: np.zeros(1, value.dtype) if isinstance(value, np.ndarray) and value.size == 0 else np.asarray(value)
        for name, value in parameters._asdict().items()
    }
    dtype = np.dtype([(name, column.dtype, column.shape) for name, column in columns.items()])
    record = np.zeros(1, dtype).view(np.recarray)
    for name, column in columns.items():
        record[name][0] = column
    return record


def has_clock(scenario: Scenario) -> bool:
    """Whether the hour of the week matters in this scenario."""
    return bool(scenario.working_hours) or scenario.arrivals.rates is not None


def service_mean(entry: Service) -> float:
    """Return the mean service time of a pair, in time units."""
    if entry.quantiles is not None:
        return service_times.table_mean(np.array(entry.quantiles))
    if entry.low is not None and entry.high is not None:
        return (entry.low + entry.high) / 2
    assert entry.mean is not None  # the scenario was checked
    return entry.mean


def _excess(pairs: list[Service], means: np.ndarray) -> np.ndarray:
    """Return by how much each pair's mean service time exceeds that of the fastest who can do the activity."""
    fastest: dict[str, float] = {}
    for entry, mean in zip(pairs, means, strict=True):
        fastest[entry.activity] = min(mean, fastest.get(entry.activity, math.inf))
    return np.array([mean - fastest[entry.activity] for entry, mean in zip(pairs, means, strict=True)])


def _ordered_pairs(scenario: Scenario) -> list[Service]:
    def order(s: Service) -> tuple[int, int]:
        return scenario.activities.index(s.activity), scenario.resources.index(s.resource)

    return sorted(scenario.service, key=order)


def _services(pairs: list[Service]) -> dict[str, Any]:
    rows: list[tuple[int, float, float, float]] = []
    tables, tails = [np.zeros(0)], [np.zeros(0)]
    for entry in pairs:
        scale, low, high = entry.mean or 1.0, entry.low or 0.0, entry.high or 0.0
        if entry.quantiles is not None:
            low = float(sum(map(len, tables)))
            high = low + len(entry.quantiles)
            tables.append(np.array(entry.quantiles))
            tails.append(service_times.table_tails(tables[-1]))
        if entry.cv is not None:
            low = math.sqrt(math.log1p(entry.cv**2))
        rows.append((service_times.KINDS[entry.distribution], scale, low, high))
    kinds, scales, lows, highs = zip(*rows, strict=True)
    return {
        "pair_least_rest": np.array([service_times.least_residual(*row[:3]) for row in rows]),
        "service_kind": np.array(kinds, np.int64),
        "service_scale": np.array(scales, np.float64),
        "service_low": np.array(lows, np.float64),
        "service_high": np.array(highs, np.float64),
        "service_table": np.concatenate(tables),
        "service_tail": np.concatenate(tails),
    }


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
        "root": routing.root,
        "join_size": np.array(routing.joins or [0], np.int64),
    }


def _arrivals(scenario: Scenario) -> tuple[np.ndarray, np.ndarray, int]:
    arrivals = scenario.arrivals
    if arrivals.times is not None:
        return np.zeros(1), np.array(arrivals.times, np.float64), REPLAY
    if arrivals.rates is not None:
        return np.array(arrivals.rates, np.float64), np.zeros(1), WEEKLY
    return np.array([arrivals.rate], np.float64), np.zeros(1), POISSON


def _expected_cases(scenario: Scenario, rates: np.ndarray, times: np.ndarray) -> float:
    if scenario.arrivals.times is not None:
        return float(max(1, (times < scenario.horizon.value).sum()))
    if scenario.arrivals.rates is None:
        return float(rates[0] * scenario.horizon.value)
    hours = scenario.horizon.value / scenario.hour
    weeks, rest = divmod(hours, HOURS_PER_WEEK)
    whole, part = divmod(rest, 1.0)
    partial = rates[: int(whole)].sum() + rates[int(whole) % HOURS_PER_WEEK] * part
    return float((weeks * rates.sum() + partial) * scenario.hour)


def _sizes(scenario: Scenario, routing: Routing, rates: np.ndarray, times: np.ndarray) -> Sizes:
    """Size the state so that a stable process cannot reach it: eight standard deviations above the mean."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = _expected_cases(scenario, rates, times)
    if not expected <= _MOST_CASES:  # NaN included
        raise UserError(
            f"an episode would have {expected:.3g} cases; shorten the horizon to at most {_MOST_CASES:,} of them."
        )
    expected = max(1.0, expected)
    cases = int(expected + 8 * math.sqrt(expected) + 100)
    waiting = scenario.capacity.waiting_tasks or cases * routing.width
    task = np.array(routing.kind) == TASK
    visits = float(routing.expected_visits()[task].sum())
    if visits == 0.0:
        raise UserError("flow: no case ever reaches an activity, so there is nothing to decide.")
    tasks = expected * visits
    weeks = scenario.horizon.value / (scenario.hour * HOURS_PER_WEEK) if scenario.working_hours else 0.0
    changes = sum(2 * len(s.days) for shifts in scenario.working_hours.values() for s in shifts) * (weeks + 1)
    # A decision is an assignment or a postponement; at most one postponement follows each event.
    most = 2 * visits * cases + cases + changes
    return Sizes(cases, waiting, expected, tasks, int(1.1 * most) + 100)


def _shift_changes(scenario: Scenario) -> dict[str, Any]:
    """List the weekly times at which somebody comes or goes; those without working hours are always there."""
    on = np.ones(len(scenario.resources), np.int64)
    changes: list[tuple[float, int, int]] = []
    for r, name in enumerate(scenario.resources):
        intervals = _weekly(scenario, {name})
        on[r] = any(start == 0.0 for start, _ in intervals)
        through_the_end = bool(intervals) and on[r] == 1 and intervals[-1][1] == HOURS_PER_WEEK
        for start, end in intervals:
            if start > 0.0 or not through_the_end:
                changes.append((start * scenario.hour, 1, r))
            if end < HOURS_PER_WEEK or not through_the_end:
                changes.append(((end % HOURS_PER_WEEK) * scenario.hour, 0, r))
    changes.sort()  # at one instant those who leave come first
    columns = list(zip(*changes, strict=True)) or [(), (), ()]
    return {
        "shift_count": len(changes),
        "shift_times": np.array(columns[0], np.float64),
        "shift_resource": np.array(columns[2], np.int64),
        "shift_on": np.array(columns[1], np.int64),
        "on_duty_at_start": on,
        **_following_changes(columns[0], columns[2], len(on), scenario.hour * HOURS_PER_WEEK),
    }


def _following_changes(
    times: Sequence[float], who: Sequence[int], resources: int, week: float
) -> dict[str, np.ndarray]:
    """Return, for each shift change, how long until the next two changes of the same resource, and each one's first."""
    until, after = np.zeros(len(times)), np.zeros(len(times))
    first, second = np.full(resources, math.inf), np.full(resources, math.inf)
    for r in set(who):
        own = [i for i, resource in enumerate(who) if resource == r]
        starts = np.array([times[i] for i in own])
        ahead = np.concatenate([starts, starts + week, starts + 2 * week])
        until[own], after[own] = ahead[1 : len(own) + 1] - starts, ahead[2 : len(own) + 2] - starts
        first[r], second[r] = ahead[:2]
    return {"shift_until": until, "shift_after": after, "first_change": first, "second_change": second}


def _weekly(scenario: Scenario, names: set[str]) -> list[tuple[float, float]]:
    """Return the merged hours of the week in which at least one of some resources is on duty."""
    if any(name not in scenario.working_hours for name in names):
        return [(0.0, float(HOURS_PER_WEEK))]
    pieces = sorted(
        (24.0 * DAYS.index(day) + hour_of(shift.from_), 24.0 * DAYS.index(day) + hour_of(shift.to))
        for name in names
        for shift in scenario.working_hours[name]
        for day in shift.days
    )
    merged: list[tuple[float, float]] = []
    for start, end in pieces:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _duty_intervals(scenario: Scenario, pairs: list[Service]) -> tuple[np.ndarray, np.ndarray]:
    """Return, activity by activity, the weekly intervals in which somebody could start it, and where each begins."""
    hour = scenario.hour if scenario.working_hours else math.nan
    rows: list[tuple[float, float]] = []
    first = [0]
    for activity in scenario.activities:
        able = {s.resource for s in pairs if s.activity == activity}
        always = any(name not in scenario.working_hours for name in able)
        rows += [(0.0, math.inf)] if always else [(a * hour, b * hour) for a, b in _weekly(scenario, able)]
        first.append(len(rows))
    return np.array(rows, np.float64), np.array(first, np.int64)
