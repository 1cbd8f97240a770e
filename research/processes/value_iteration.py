"""The best policy of a Markov decision problem in continuous time, by uniformisation and value iteration.

Puterman, "Markov Decision Processes" (1994), sections 8.5 (value iteration, average cost) and 11.5 (uniformisation).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from longstride.errors import UserError
from research.processes.decision_problem import Problem

CHUNK = 500
_TIE = 1e-9
"""Values that differ by less (in open cases x time) are equal up to rounding; work is then preferred to postponing."""


@dataclass(frozen=True)
class Solution:
    """The best policy and what it costs.

    Attributes:
        mean: long-run mean cost a time unit (open cases); it lies within ``error`` of this in the truncated problem.
        error: half the distance of the bounds on ``mean``.
        horizon_cost: expected cost a time unit over the horizon of the best policy for it, from the empty state.
        action: int64[S], the best pair in each state, the number of pairs for postpone.
    """

    mean: float
    error: float
    horizon_cost: float
    action: np.ndarray


def solve(problem: Problem, horizon: float, tolerance: float, most_sweeps: int = 200_000) -> Solution:
    """Iterate values until the bounds on the mean cost are within a tolerance of each other.

    Args:
        problem: the problem.
        horizon: time units.
        tolerance: of the bounds' distance, relative to the mean.
        most_sweeps: after which it is given up.

    Raises:
        UserError: the bounds do not come close enough in ``most_sweeps``.
    """
    clock = problem.rate.sum(axis=1).max()  # events a time unit of the uniformised chain
    rate = problem.rate / clock
    tables = problem.cost / clock, problem.target, rate, 1.0 - rate.sum(axis=1), problem.assign
    waiting, deciding = np.zeros((2, len(problem.cost)))
    empty = int(np.flatnonzero(~problem.codes.any(axis=1))[0])
    at_horizon, steps, sweeps = 0.0, round(horizon * clock), 0
    while sweeps < most_sweeps:
        count = min(CHUNK, steps - sweeps) if sweeps < steps else CHUNK
        low, high = _sweep(*tables, waiting, deciding, count)
        sweeps += count
        if sweeps <= steps:
            at_horizon = waiting[empty]
        if high - low <= tolerance * high:
            mean = (low + high) / 2 * clock
            at_horizon += max(0, steps - sweeps) * mean / clock
            action = _best(waiting, deciding, problem.assign)
            return Solution(mean, (high - low) / 2 * clock, at_horizon / horizon, action)
    raise UserError(f"{most_sweeps:,} sweeps do not find the optimum: the resources can hardly carry the arrivals.")


@njit(nogil=True)
def _sweep(cost, target, rate, stay, assign, waiting, deciding, count):
    """Update the values of all states ``count`` times; return bounds on the mean cost of a step.

    ``waiting`` is the expected cost of the steps that are left where nothing is decided before the next event,
    ``deciding`` where assignments can come first.
    """
    low = high = 0.0
    for _ in range(count):
        _decide(waiting, deciding, assign)
        low, high = np.inf, -np.inf
        for i in range(len(cost)):
            value = cost[i] + stay[i] * deciding[i]  # no event: memoryless, so one may as well decide again
            for event in range(target.shape[1]):
                value += rate[i, event] * deciding[target[i, event]]
            change = value - waiting[i]
            low, high = min(low, change), max(high, change)
            waiting[i] = value
    return low, high


@njit(nogil=True)
def _decide(waiting, deciding, assign):
    for i in range(len(waiting)):
        best = waiting[i]
        for pair in range(assign.shape[1]):
            if assign[i, pair] >= 0:
                best = min(best, deciding[assign[i, pair]])
        deciding[i] = best


@njit(nogil=True)
def _best(waiting, deciding, assign):
    """Return the best action of each state; of pairs that are equally good the first."""
    _decide(waiting, deciding, assign)
    action = np.full(len(waiting), assign.shape[1])
    for i in range(len(waiting)):
        for pair in range(assign.shape[1]):
            if assign[i, pair] >= 0 and deciding[assign[i, pair]] <= deciding[i] + _TIE:
                action[i] = pair
                break
    return action
