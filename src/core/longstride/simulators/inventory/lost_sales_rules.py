"""Classical rules for lost sales; each returns the units to order, no more than is allowed."""

from typing import Any

import numpy as np
from numba import njit


def base_stock(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Fill stock and orders up to a level; the best level is in ``lost_sales_figures``."""
    return int(min(max(0, parameters.level - state.pipeline.sum()), parameters.largest_order))


def capped_base_stock(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Fill stock and orders up to a level, but order no more than a cap (Xin 2021)."""
    return int(min(max(0, parameters.capped_level - state.pipeline.sum()), parameters.cap))


def constant_order(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Order the same each period, always below the mean demand (Reiman 2004)."""
    return int(min(parameters.constant, parameters.most - state.pipeline.sum()))


def myopic(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Order so that the expected cost of the one period in which the order arrives is least (Morton 1971).

    That is the smallest order with which this period's demand is met with a probability of penalty / (penalty + 1).
    """
    in_stock = _stock_at_arrival(state.pipeline, parameters.probability)
    wanted = parameters.penalty / (parameters.penalty + 1.0)
    largest = min(parameters.largest_order, parameters.most - state.pipeline.sum())
    for order in range(largest):
        met = 0.0
        for units in range(len(in_stock)):
            met += in_stock[units] * parameters.distribution[units + order]
        if met >= wanted:
            return order
    return int(largest)


@njit(nogil=True)
def _stock_at_arrival(pipeline: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Return the distribution of the stock that an order of now meets, float64[units on the way and in stock + 1]."""
    before, after = np.zeros(pipeline.sum() + 1), np.zeros(pipeline.sum() + 1)
    before[pipeline[0]] = 1.0
    most = pipeline[0]
    for period in range(len(pipeline)):
        arriving = pipeline[period + 1] if period + 1 < len(pipeline) else 0
        after[:] = 0.0
        for units in range(most + 1):
            rest = before[units]
            for demand in range(units):
                after[units - demand + arriving] += before[units] * probability[demand]
                rest -= before[units] * probability[demand]
            after[arriving] += rest
        before, after, most = after, before, most + arriving
    return before
