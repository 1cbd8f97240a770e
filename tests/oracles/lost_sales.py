"""The lost-sales problem by value iteration, from its definition, in NumPy and plain loops."""

import itertools

import numpy as np
from scipy import stats

MEAN = 5


def demand_law(demand):
    return stats.poisson(MEAN) if demand == "poisson" else stats.geom(1 / (1 + MEAN), loc=-1)


def most_units(demand, penalty, lead_time):
    """Return stock and orders beyond which no best policy goes: the newsvendor's level of lead time + 1 periods."""
    periods = lead_time + 1
    law = stats.poisson(MEAN * periods) if demand == "poisson" else stats.nbinom(periods, 1 / (1 + MEAN))
    return int(law.ppf(penalty / (penalty + 1)))


def optimal_cost(demand, penalty, lead_time, tolerance=1e-4):
    """Return the middle and half the distance of bounds on the least average cost a period (Odoni 1969)."""
    law, most = demand_law(demand), most_units(demand, penalty, lead_time)
    pmf = law.pmf(np.arange(3000))
    units = np.arange(most + 1)
    left = units[:, None] - np.arange(3000)
    cost = (pmf * (np.maximum(left, 0) + penalty * np.maximum(-left, 0))).sum(axis=1)
    after = np.zeros((most + 1, most + 1))  # stock before demand -> stock after it
    for stock in units:
        after[stock, 1 : stock + 1] = pmf[:stock][::-1]
        after[stock, 0] = law.sf(stock - 1)
    shape = (most + 1,) * lead_time
    total = sum(np.indices(shape))
    value, high, low = np.zeros(shape), np.inf, 0.0
    while high - low > tolerance:
        new = one_sweep(value, after, total, most) + cost.reshape(-1, *(1,) * (lead_time - 1))
        change = (new - value)[total <= most]
        low, high, value = change.min(), change.max(), new
    return (low + high) / 2, (high - low) / 2


def one_sweep(value, after, total, most):
    """Return the least expected value after a period: the state is stock, then the orders of 1, 2, .. periods."""
    lead_time, best = value.ndim, np.full(value.shape, np.inf)
    for order in range(most + 1):
        expected = np.full(value.shape, np.inf)
        if lead_time == 1:
            for stock in range(most + 1 - order):
                expected[stock] = after[stock, : stock + 1] @ value[order : order + stock + 1]
        else:
            for orders in itertools.product(range(most + 1 - order), repeat=lead_time - 1):
                for stock in range(most + 1 - order - sum(orders)):
                    rest = (slice(orders[0], orders[0] + stock + 1), *orders[1:], order)
                    expected[(stock, *orders)] = after[stock, : stock + 1] @ value[rest]
        best = np.where(total + order <= most, np.minimum(best, expected), best)
    return np.where(np.isfinite(best), best, 0.0)
