"""The aims of a scenario as arrays for the compiled simulator."""

import math
from typing import Any

import numpy as np

from longstride.process.scenario.aims import QUANTITIES, TIMES, Aims
from longstride.process.scenario.scenario import Scenario


def aim_arrays(scenario: Scenario) -> dict[str, Any]:
    """Return the parameters' fields from ``counts`` to ``within``."""
    aims, hour = scenario.aims, length_of_hour(scenario)
    due, costs, target = aims.due, aims.costs, aims.target
    row = (due.quantiles or due.each or [due.after] * 2) if due else [math.inf] * 2
    tasks = costs.per_task if costs else {}
    return {
        "counts": int(aims != Aims()),
        "weights": np.array([*weights_of(scenario), 0.0]),
        "rate": np.array(costs.rates(scenario.resources) if costs else [0.0] * len(scenario.resources)) / hour,
        "task_cost": np.array([tasks.get(name, 0.0) for name in scenario.activities]),
        "paid_on_duty": int(costs is not None and costs.paid == "on duty"),
        "watches": int(due is not None or target is not None),
        "has_due": int(due is not None),
        "due_by_case": int(due is not None and due.each is not None),
        "due_table": np.array(row, np.float64),
        "within": target.within if target else math.inf,
    }


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
