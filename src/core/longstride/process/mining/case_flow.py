"""The flow of a scenario as a list of the log's cases, each with its order of events and its delays."""

from typing import Any

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.case_order import CaseOrder
from longstride.process.scenario.classes import CLASSES

MOST_EVENTS = 60_000
"""Most events of the cases in a scenario; from a longer log, cases are chosen evenly by cycle time."""

_DIGITS = 6
_SECOND = 1 / 3600


def choose_cases(log: EventLog, cases: CaseOrder, weights: np.ndarray) -> np.ndarray:
    """Return the cases of the scenario, int64[*], with at most ``MOST_EVENTS`` events in all.

    From a longer log every k-th case is chosen in the order of cycle times, which keeps their distribution.
    """
    kept = np.flatnonzero(weights > 1e-3)
    step = int(np.ceil(np.diff(cases.first)[kept].sum() / MOST_EVENTS))
    if step <= 1:
        return kept
    begun, ended = log.case_times()
    by_length = kept[np.argsort((ended - begun)[kept], kind="stable")]
    return np.sort(by_length[step // 2 :: step])


def case_flow(
    log: EventLog,
    cases: CaseOrder,
    kept: np.ndarray,
    weights: np.ndarray,
    priorities: np.ndarray,
    delays: np.ndarray,
) -> dict[str, Any]:
    """Return the flow of a scenario.

    In a log with classes each class has its own flow; ``kept`` is then in their order (:func:`in_classes`).

    Args:
        log: event log.
        cases: order of its events.
        kept: cases of the scenario, int64[*].
        weights: weight of each case of the log, float64[cases].
        priorities: priority of each, int64[cases].
        delays: delay before each event in the order of ``cases``, float64[n], open hours.
    """
    if log.classes is None:
        return _flow(log, cases, kept, weights, priorities, delays)
    of, total, parts = log.classes.of_case[kept], float(weights[kept].sum()), []
    for c in np.unique(of).tolist():
        own = kept[of == c]
        flow = _flow(log, cases, own, weights, priorities, delays)
        parts.append({"name": log.classes.names[c], "p": float(weights[own].sum()) / total, "flow": flow})
    return {CLASSES: parts}


def in_classes(log: EventLog, kept: np.ndarray) -> np.ndarray:
    """Return some cases of a log, int64[*], in the order of their classes."""
    return kept if log.classes is None else kept[np.argsort(log.classes.of_case[kept], kind="stable")]


def _flow(
    log: EventLog, cases: CaseOrder, kept: np.ndarray, weights: np.ndarray, priorities: np.ndarray, delays: np.ndarray
) -> dict[str, Any]:
    """Return the flow of some cases; the arguments are those of :func:`case_flow`."""
    activity = log.activity[cases.order].tolist()
    rounded = np.where(delays < _SECOND, 0.0, delays).tolist()
    content = []
    for c in kept.tolist():
        first, tasks = int(cases.first[c]), []
        for i in range(first, int(cases.first[c + 1])):
            task: dict[str, Any] = {"task": log.activities[activity[i]]}
            if rounded[i] > 0.0:
                task["delay"] = float(f"{rounded[i]:.{_DIGITS}g}")
            after = [j - first for j in cases.after[i]]
            if after != ([i - first - 1] if i > first else []):
                task["after"] = after
            tasks.append(task)
        weight = float(f"{weights[c]:.{_DIGITS}g}")
        case: dict[str, Any] = {} if weight == 1.0 else {"weight": weight}
        if priorities[c]:
            case["priority"] = int(priorities[c])
        if log.column is not None and not np.isnan(log.column.of_case[c]):
            case["value"] = float(log.column.of_case[c])
        content.append(case | {"tasks": tasks})
    return {"cases": content}


def events_of_tasks(cases: CaseOrder, kept: np.ndarray) -> np.ndarray:
    """Return int64[*], the event (its index in ``cases``) of each task node of the routing, in the order of nodes."""
    return np.concatenate([np.arange(cases.first[c + 1] - 1, cases.first[c] - 1, -1) for c in kept])
