"""The states of a small scenario as tables: what follows on each state, how fast, and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from longstride.errors import UserError
from research.processes.queue_control import Model, State


@dataclass(frozen=True)
class Problem:
    """A model's states up to a number of open cases, as tables; S states, R resources, P pairs.

    States with fewer free resources come first, so an assignment always leads to an earlier row.

    Attributes:
        codes: int64[S, *], the state of each row.
        cost: float64[S], open cases.
        target: int32[S, 1 + R], the row after an arrival and after the completion of each resource.
        rate: float64[S, 1 + R], of these events in 1 / time unit; 0 where one cannot happen or would leave the table.
        assign: int32[S, P], the row after each assignment, -1 where it is not feasible.
    """

    codes: np.ndarray
    cost: np.ndarray
    target: np.ndarray
    rate: np.ndarray
    assign: np.ndarray


def build_problem(model: Model, most_open: int, most_states: int) -> Problem:
    """Enumerate the states that can be reached from the empty one with at most ``most_open`` cases.

    Raises:
        UserError: there are more than ``most_states``.
    """
    queues, resources = len(model.p.activity_pairs) - 1, len(model.p.on_duty_at_start)
    found: dict[State, list[tuple[str, int, float, State]]] = {}
    waiting: list[State] = [(0,) * (queues + resources)]
    while waiting:
        state = waiting.pop()
        if state not in found:
            if len(found) == most_states:
                raise UserError(f"{most_open} open cases give more than the {most_states:,} states that this solves.")
            found[state] = list(_following(model, state, most_open))
            waiting += [after for *_, after in found[state] if after not in found]
    ordered = sorted(found, key=lambda state: (state[queues:].count(0), state))
    return _tables(model, ordered, found, queues, resources)


def _following(model: Model, state: State, most_open: int) -> Iterator[tuple[str, int, float, State]]:
    """Yield (table, column, rate, state) of everything that can follow on a state."""
    p = model.p
    queues = len(p.activity_pairs) - 1
    if model.open_cases(state) < most_open:
        yield "event", 0, float(p.arrival_rates[0]), model.arrival(state)
    for pair in range(len(p.pair_mean)):
        activity, resource = int(p.pair_activity[pair]), int(p.pair_resource[pair])
        code = state[queues + resource]
        if code and model.activity_of(code) == activity:
            yield "event", 1 + resource, 1.0 / p.pair_mean[pair], model.completion(state, resource, activity)
        if not code and state[activity]:
            after = model.assignment(state, activity, resource)
            if after is not None:
                yield "assignment", pair, 0.0, after


def _tables(model: Model, ordered: list[State], found: dict[State, Any], queues: int, resources: int) -> Problem:
    row = {state: i for i, state in enumerate(ordered)}
    target = np.zeros((len(ordered), 1 + resources), np.int32)
    rate = np.zeros(target.shape)
    assign = np.full((len(ordered), len(model.p.pair_mean)), -1, np.int32)
    for i, state in enumerate(ordered):
        for table, column, speed, after in found[state]:
            if table == "event":
                target[i, column], rate[i, column] = row[after], speed
            else:
                assign[i, column] = row[after]
    cost = np.array([model.open_cases(state) for state in ordered], np.float64)
    return Problem(np.array(ordered, np.int64), cost, target, rate, assign)
