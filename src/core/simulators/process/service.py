"""Service-time distributions, sampled by inversion so that one uniform number is one service."""

import math
from statistics import NormalDist

import numpy as np
from numba import njit

EXPONENTIAL, CONSTANT, UNIFORM, LOGNORMAL, QUANTILES = range(5)
KINDS = {
    "exponential": EXPONENTIAL,
    "constant": CONSTANT,
    "uniform": UNIFORM,
    "lognormal": LOGNORMAL,
    "quantiles": QUANTILES,
}

_TABLE_SIZE = 4097


def lognormal_table(cv: float) -> np.ndarray:
    """Return quantiles of a lognormal with mean 1 and the given coefficient of variation.

    The table has even steps of probability (step 1/4096, its two ends at half a step) and is read by linear
    interpolation; it is rescaled so that the mean of what is sampled is exactly 1.
    """
    sigma = math.sqrt(math.log1p(cv * cv))
    probabilities = np.linspace(0.0, 1.0, _TABLE_SIZE)
    half = 0.5 / (_TABLE_SIZE - 1)
    normal = NormalDist()
    values = np.array([math.exp(sigma * normal.inv_cdf(min(max(q, half), 1.0 - half))) for q in probabilities])
    return values / table_mean(values)


def table_mean(values: np.ndarray) -> float:
    """Return the mean of the distribution whose quantile function interpolates these values linearly."""
    return float((values[:-1] + values[1:]).mean() / 2.0)


@njit(nogil=True)
def service_time(kind, mean, low, high, table, u):  # type: ignore[no-untyped-def]
    """Return the u-quantile of a service-time distribution.

    Args:
        kind: one of the constants above.
        mean: mean of an exponential or constant time; scale of a table.
        low, high: range of a uniform time; for tables, first index and one past the last in ``table``.
        table: float64[*], all tables of a scenario one after another, each in even steps of probability.
        u: float64 in [0, 1).
    """
    if kind == EXPONENTIAL:
        return -mean * math.log1p(-u)
    if kind == CONSTANT:
        return mean
    if kind == UNIFORM:
        return low + (high - low) * u
    start, end = np.int64(low), np.int64(high)
    position = u * (end - start - 1)
    k = np.int64(position)
    fraction = position - k
    return mean * (table[start + k] * (1.0 - fraction) + table[start + k + 1] * fraction)
