"""Classes of cases in the kernel: the class of a case, and what its weight adds to the quantities of an objective.

A case of weight w counts as one case in ``amounts``, like every other, and w - 1 times in ``extra``. ``heavy_open``,
``heavy_late`` and ``heavy_waiting`` are the sums of w - 1 over open cases with active tasks, late cases and waiting
tasks. Nothing is added if all cases count once (``weighs`` is 0). Functions work on ``state``, the record of
``state.py``, and ``p``, the record of ``parameters.py``.
"""

from typing import Any

import numpy as np
from numba import njit

from longstride.process.kernel.aims.arrays import CYCLE_TIME, LATE, TARDINESS
from longstride.process.kernel.counter_rng import advance, child, uniform
from longstride.process.scenario.aims import QUANTITIES
from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.routing import Routing
from longstride.process.scenario.scenario import Scenario

BY_CASE = "cycle_time", "tardiness", "late", "waiting", "handovers"
"""Quantities of cases, which count as often as their class says; costs and overtime are those of people."""


def class_arrays(scenario: Scenario, routing: Routing) -> dict[str, Any]:
    """Return the parameters' fields ``class...`` and ``weighs``."""
    aims, names = scenario.aims, scenario.classes
    return {
        "classes": len(names),
        "class_weight": np.array([aims.class_weights.get(name, 1.0) for name in names] or [1.0]),
        "class_of_node": np.array(routing.class_of or [-1], np.int64),
        "weighs": int(aims.weighs),
    }


def activity_weights(p: Any, routing: Routing) -> np.ndarray:
    """Return float64[A], the mean weight of the cases that come to each activity; 1 for one that none reaches."""
    activities = len(p.activity_pairs) - 1
    if not p.weighs:
        return np.ones(activities)
    visits, target, of = routing.expected_visits(), np.array(routing.target), np.array(routing.class_of)
    tasks = (of >= 0) & (np.array(routing.kind) == TASK)
    each = np.bincount(target[tasks], visits[tasks], activities)
    heavy = np.bincount(target[tasks], visits[tasks] * p.class_weight[of[tasks]], activities)
    return np.divide(heavy, each, out=np.ones(activities), where=each > 0.0)


@njit(nogil=True)
def note_class(state, p, case):  # type: ignore[no-untyped-def]
    """Note the class of a case that arrives: the branch that its stream draws at the root of the flow."""
    u, first = uniform(advance(child(state.seed, case + 1))), p.node_first[p.root]
    branch = 0
    while branch < p.classes - 1 and u >= p.branch_cumulative[first + branch]:
        branch += 1
    state.case_class[case] = branch


@njit(nogil=True)
def extra_weight(state, p, case):  # type: ignore[no-untyped-def]
    """Return how much more than once a case counts."""
    return p.class_weight[state.case_class[case]] - 1.0


@njit(nogil=True)
def add_waiting(state, p, case, sign):  # type: ignore[no-untyped-def]
    """Note that a task of a case begins (``sign`` 1) or ends (-1) to wait."""
    state.heavy_waiting += sign * extra_weight(state, p, case)


@njit(nogil=True)
def add_open(state, p, case, sign):  # type: ignore[no-untyped-def]
    """Note that a case begins (``sign`` 1) or ends (-1) to have active tasks."""
    state.heavy_open += sign * extra_weight(state, p, case)


def fill_class_metrics(state: Any, p: Any, metrics: Any, counted: np.ndarray) -> None:
    """Fill the metrics of classes, those of ``class_metrics``; ``counted`` is bool[arrived], the cases that count."""
    of, ages, limits, end = _cases(state, p, len(counted))
    judged = {"mean_cycle_time": (ages, counted), "share_late": (end > limits, counted & (limits < state.time))}
    for metric, (values, cases) in judged.items():
        names = [name for name in metrics.dtype.names if name.startswith(f"{metric} of ")]
        for number, name in enumerate(names):
            own = cases & (of == number)
            if own.any():
                metrics[name] = values[own].mean()


def weighted_metrics(state: Any, p: Any, metrics: Any) -> dict[str, float]:
    """Return quantity -> its mean a case, in which each case counts as often as its class says."""
    counted = state.arrival_time[: state.arrived] >= p.warmup
    _, ages, limits, end = _cases(state, p, len(counted))
    found = {name: float(metrics[metric]) for name, metric in QUANTITIES.items() if metric in metrics.dtype.names}
    weight = p.class_weight[state.case_class[: state.arrived]]
    if counted.any():
        found["cycle_time"] = float((weight * ages)[counted].mean())
        if p.has_due:
            found["tardiness"] = float((weight * np.maximum(end - limits, 0.0))[counted].mean())
    judged = counted & (limits < state.time)
    if judged.any():
        found["late"] = float((weight * (end > limits))[judged].mean())
    for q, name in enumerate(QUANTITIES):
        if name in BY_CASE and q not in (CYCLE_TIME, TARDINESS, LATE):
            found[name] = float(state.totals[q] + state.extra_totals[q]) / max(int(state.arrived), 1)
    return found


def _cases(state: Any, p: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return class, age, due date and end of the cases; the end of an open one is now."""
    end = np.where(state.completion_time[:n] >= 0.0, state.completion_time[:n], state.time)
    limits = state.due_time[:n] if p.has_due else np.full(n, np.inf)
    return state.case_class[:n], end - state.arrival_time[:n], limits, end
