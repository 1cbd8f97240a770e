"""Classical rules for queueing networks: each station serves the class with the largest index among those with jobs.

Of equal indices the first class has it. A rule is named by its index; ``*_of_one`` is for a network in which one
station decides and returns the action, the others write one.
"""

from typing import Any

import numpy as np
from numba import njit

C_MU, MAX_WEIGHT, MAX_PRESSURE, LAST, FIRST = range(5)


@njit(nogil=True)
def _index(state: Any, parameters: Any, option: int, rule: int) -> float:
    """Return the index of a station's class."""
    k, rate = parameters.option_class[option], parameters.option_rate[option]
    cost, after = parameters.holding_cost[k], parameters.next_class[k]
    if rule == C_MU:
        return cost * rate  # type: ignore[no-any-return]
    if rule == MAX_WEIGHT:
        return cost * rate * state.queue[k]  # type: ignore[no-any-return]
    if rule == MAX_PRESSURE:
        downstream = parameters.holding_cost[after] * state.queue[after] if after >= 0 else 0.0
        return rate * (cost * state.queue[k] - downstream)  # type: ignore[no-any-return]
    visits = 0  # that are left
    while k >= 0:
        k, visits = parameters.next_class[k], visits + 1
    return float(-visits if rule == LAST else visits)


@njit(nogil=True)
def _best(state: Any, parameters: Any, mask: np.ndarray, choice: int, rule: int) -> int:
    """Return the allowed value of a choice with the largest index."""
    begin, best, value = parameters.option_begin[choice], -1, -np.inf
    for option in range(begin, parameters.option_begin[choice + 1]):
        if mask[option]:
            index = _index(state, parameters, option, rule)
            if index > value:
                best, value = option - begin, index
    return best


@njit(nogil=True)
def _write(state: Any, parameters: Any, mask: np.ndarray, action: np.ndarray, rule: int) -> None:
    """Write the best value of each choice."""
    for choice in range(len(action)):
        action[choice] = _best(state, parameters, mask, choice, rule)


def c_mu(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray) -> None:
    """Prefer the class whose cost falls fastest: holding cost times service rate."""
    _write(state, parameters, mask, action, C_MU)


def max_weight(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray) -> None:
    """Weigh the c-mu index by the jobs of the class."""
    _write(state, parameters, mask, action, MAX_WEIGHT)


def max_pressure(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray) -> None:
    """Weigh the rate by the cost of the jobs here less that of the jobs at the next class (Tassiulas 1992)."""
    _write(state, parameters, mask, action, MAX_PRESSURE)


def last_first(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray) -> None:
    """Last buffer first served: prefer the class with the fewest visits left."""
    _write(state, parameters, mask, action, LAST)


def c_mu_of_one(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """See :func:`c_mu`."""
    return _best(state, parameters, mask, 0, C_MU)


def max_weight_of_one(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """See :func:`max_weight`."""
    return _best(state, parameters, mask, 0, MAX_WEIGHT)


def max_pressure_of_one(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """See :func:`max_pressure`."""
    return _best(state, parameters, mask, 0, MAX_PRESSURE)


def last_first_of_one(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """See :func:`last_first`."""
    return _best(state, parameters, mask, 0, LAST)


def first_first_of_one(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """First buffer first served: prefer the class with the most visits left."""
    return _best(state, parameters, mask, 0, FIRST)
