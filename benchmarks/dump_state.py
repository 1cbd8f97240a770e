"""Describes the state of a running simulation as JSON, for tests and benchmarks."""

import math
from typing import Any

import numpy as np

from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.names import Names


def dump_state(record: Any, simulator: ProcessSimulator, names: Names | None = None) -> dict[str, Any]:
    """Return JSON values of a :class:`longstride.process.snapshots.schema.ProcessState`.

    Cases are named by their numbers. Times are numbers of the scenario's unit, so that nothing is rounded.

    Args:
        record: state record of the simulator.
        simulator: simulator that plays.
        names: names of its scenario, to save the time of finding them.
    """
    names = names or Names(simulator)
    scenario, p = simulator.scenario, simulator.parameters
    is_open = record.completion_time[: record.arrived] < 0.0
    cases = [{"case": str(c), "since": float(record.arrival_time[c])} for c in np.flatnonzero(is_open)]
    in_work = []
    for r in np.flatnonzero(record.busy_pair >= 0):
        task = _task(record.work_case[r], record.work_node[r], p, names)
        in_work.append({**task, "person": scenario.resources[r], "since": float(record.started[r])})
    timers = range(record.timers)
    changes = zip(scenario.resources, record.change_at.tolist(), record.change_after.tolist(), strict=True)
    return {
        "time": float(record.time),
        "waiting": [task for a in range(len(scenario.activities)) for task in _queue(record, a, p, names)],
        "in_work": in_work,
        "on_shift": [scenario.resources[r] for r in np.flatnonzero(record.on_duty)],
        "cases": cases,
        "resting": [_task(record.timer_case[i], record.timer_node[i], p, names) for i in timers],
        "next_changes": {name: [first, then] for name, first, then in changes if math.isfinite(then)},
    }


def _queue(record: Any, activity: int, p: Any, names: Names) -> list[dict[str, Any]]:
    """Return the tasks that wait for an activity, the first one first."""
    tasks, slot = [], record.queue_head[activity]
    for _ in range(record.queue_length[activity]):
        task = _task(record.slot_case[slot], record.slot_node[slot], p, names)
        tasks.append({**task, "since": float(record.slot_enabled[slot])})
        slot = record.slot_next[slot]
    return tasks


def _task(case: int, node: int, p: Any, names: Names) -> dict[str, Any]:
    place = names.places.place_of.get(int(node), 0)
    activity = names.scenario.activities[p.node_target[node]]
    return {"case": str(case), "activity": activity, **({"place": place} if place else {})}
