"""Values of cases, such as amounts: tasks are served in their order, and work may depend on them.

``{"case_values": {"column": "amount", "first": "largest", "activities": ["Assess"], "work": {"Assess": [0.5, 1.4]}}}``:
a case of a list has a ``value``. The factors of the service times belong to even steps of the value's place among the
different values of the cases, the smallest first.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.routing import Routing
from longstride.process.scenario.schema import Strict, places

_MOST_RANKS = 30_000
"""Most different priorities: the number of a case must fit beside them into 63 bits."""


class CaseValues(Strict):
    """What the values of cases decide; a case without a value comes last in its queues, and takes the usual time."""

    column: str
    first: Literal["largest", "smallest"]
    activities: list[str] = Field(min_length=1)
    work: dict[str, list[float]] = Field(default_factory=dict)


def problems_of_values(values: CaseValues | None, activities: Sequence[str]) -> Iterator[str]:
    """Yield what is impossible about the values of cases."""
    for name in [*values.activities, *values.work] if values else ():
        if name not in activities:
            yield f"case_values: {name!r} is not one of the scenario's activities."
    for name, factors in values.work.items() if values else ():
        if len(factors) < 2 or min(factors) <= 0.0:
            yield f"case_values.work.{name}: expected at least two factors above 0."


def places_of(values: np.ndarray) -> np.ndarray:
    """Return float64[n], the place of each value among the different ones, 0 .. 1; NaN for NaN."""
    known = np.unique(values[~np.isnan(values)])
    place = np.searchsorted(known, values) / max(len(known) - 1, 1)
    return np.where(np.isnan(values), np.nan, place)


def work_factor(factors: Sequence[float], places: np.ndarray) -> np.ndarray:
    """Return the factor of the service time of a case at each place, float64[n]; 1 for NaN."""
    found = np.interp(places, np.linspace(0.0, 1.0, len(factors)), factors)
    return np.asarray(np.where(np.isnan(places), 1.0, found))


def order_and_work(
    values: CaseValues | None, activities: Sequence[str], of_people: set[str], routing: Routing
) -> dict[str, Any]:
    """Return the fields of the parameters about priorities and factors of work.

    Values take the place of priorities. Between queues they count only if all activities of people have their order.
    """
    priority, work, between = np.array(routing.priority), np.ones(1), 1
    if values is not None:
        index = places(activities)
        target = np.where(np.array(routing.kind) == TASK, routing.target, -1)
        place = places_of(np.array(routing.value))
        ahead = place if values.first == "largest" else 1.0 - place
        ranks = 1 + np.nan_to_num(np.rint(ahead * _MOST_RANKS), nan=-1.0).astype(np.int64)
        priority = np.where(np.isin(target, [index[name] for name in values.activities]), ranks, 0)
        between = 1 if of_people <= set(values.activities) else 2
        work = np.ones(len(target)) if values.work else work
        for name, factors in values.work.items():
            own = target == index[name]
            work[own] = work_factor(factors, place[own])
    differ = bool(priority.any())
    return {
        "has_priorities": between if differ else 0,
        "node_priority": priority.astype(np.int64) if differ else np.zeros(1, np.int64),
        "has_work": int(len(work) > 1),
        "node_work": work,
    }
