"""The aims of a scenario as arrays for the compiled simulator."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from longstride.process.scenario.aims import LAST, QUANTITIES, TIMES, Aims, Due
from longstride.process.scenario.routing import Routing
from longstride.process.scenario.scenario import Scenario

CYCLE_TIME, TARDINESS, LATE, COST, WAITING, HANDOVERS, OVERTIME, BEYOND = range(len(QUANTITIES) + 1)
"""Indices of what an objective can weigh, and of the cases beyond a target."""

_PATIENCE = 0.1
"""Cost of waiting in an objective without it, as a share of the cost of work: only the policy prior uses it."""


def aim_arrays(scenario: Scenario) -> dict[str, Any]:
    """Return the parameters' fields from ``counts`` on to ``exceptions``."""
    aims, hour = scenario.aims, length_of_hour(scenario)
    due, costs, target = aims.due, aims.costs, aims.target
    rows = [_allowances(due.by_class.get(name, due) if due else None) for name in scenario.classes or [""]]
    tasks = costs.per_task if costs else {}
    return {
        "counts": int(aims != Aims() or bool(scenario.classes)),
        "weights": np.array([*weights_of(scenario), 0.0]),
        "rate": np.array(costs.rates(scenario.resources) if costs else [0.0] * len(scenario.resources)) / hour,
        "task_cost": np.array([tasks.get(name, 0.0) for name in scenario.activities]),
        "paid_on_duty": int(costs is not None and costs.paid == "on duty"),
        "watches": int(due is not None or target is not None),
        "has_due": int(due is not None),
        "due_by_case": int(due is not None and due.each is not None),
        "due_table": np.array([allowance for row in rows for allowance in row], np.float64),
        "due_first": np.cumsum([0, *map(len, rows)]).astype(np.int64),
        "within": target.within if target else math.inf,
        "exceptions": 1.0 - target.share if target else 1.0,
    }


def _allowances(due: Due | None) -> list[float]:
    """Return the allowances of a class; without due dates they are infinite."""
    return due.quantiles or due.each or [due.after or 0.0] * 2 if due else [math.inf] * 2


def late_arrays(scenario: Scenario, routing: Routing, typical: np.ndarray) -> dict[str, Any]:
    """Return the parameters' fields ``late_last`` and ``work_left``; ``typical`` is :func:`typical_times`."""
    last = scenario.aims.late_cases == LAST
    return {"late_last": int(last), "work_left": routing.expected_work_ahead(typical) if last else np.zeros(1)}


def typical_times(means: np.ndarray, activity: np.ndarray, activities: int) -> np.ndarray:
    """Return float64[A], the harmonic mean of the service times of each activity's pairs.

    Automatic activities need no person, so they are no work: almost 0.
    """
    counts = np.bincount(activity, minlength=activities)
    speed = np.bincount(activity, 1.0 / means, activities)
    nearly_none = np.full(activities, 1e-9 * float(means.mean()))
    return np.asarray(np.divide(counts, speed, out=nearly_none, where=counts > 0))


def length_of_hour(scenario: Scenario) -> float:
    """Return the time units of an hour, which rates and weights are for; 1 if the unit is abstract."""
    return 1.0 if scenario.time_unit == "abstract" else scenario.hour


def weights_of(scenario: Scenario) -> list[float]:
    """Return the weight of each quantity, of times for a time unit; 1 for the only quantity of an objective."""
    objective = scenario.aims.objective or {next(iter(QUANTITIES)): 1.0}
    if len(objective) == 1:
        return [float(name in objective) for name in QUANTITIES]
    hour = length_of_hour(scenario)
    return [objective.get(name, 0.0) / (hour if name in TIMES else 1.0) for name in QUANTITIES]


def due_share(weights: np.ndarray, service_unit: float, tardiness_alone: bool = False) -> float:
    """Return the share of due dates in what a delay costs, 0 .. 1, or that of tardiness alone.

    A late case costs as much as a mean service time.
    """
    due = float(weights[TARDINESS] + weights[LATE] / service_unit)
    part = float(weights[TARDINESS]) if tardiness_alone else due
    return part / (due + float(weights[[CYCLE_TIME, WAITING]].sum())) if due else 0.0


def pair_prices(means: np.ndarray, activity: np.ndarray, resource: np.ndarray, aims: Mapping[str, Any]) -> np.ndarray:
    """Return float64[P], the mean service time of each pair and its cost as a time: what it costs over that of waiting.

    Without a weight of costs, or where people cost as much when they are idle, that is the mean service time.

    Args:
        means: float64[P], mean service times.
        activity: int64[P].
        resource: int64[P].
        aims: the fields of :func:`aim_arrays`.
    """
    weights = aims["weights"]
    if not weights[COST]:
        return means
    rates = np.zeros_like(aims["rate"]) if aims["paid_on_duty"] else aims["rate"]
    costs = weights[COST] * (rates[resource] * means + aims["task_cost"][activity])
    waiting = float(weights[[CYCLE_TIME, WAITING, TARDINESS]].sum())
    return np.asarray(means + costs / (waiting or _PATIENCE * max(float((costs / means).mean()), 1e-9)))
