"""Service-time distributions, sampled by inversion: one uniform number gives one service time.

A distribution is a kind (int64) and three float64. ``mean`` is the mean of an exponential, constant or lognormal time
and the scale of a table. ``low`` is the least uniform time, the sigma of a lognormal time, or a table's first index.
``high`` is the greatest uniform time or one past the table's last index. A table holds quantiles in even steps of
probability. All tables of a scenario follow each other in ``table``, float64[K]. Times are in the scenario's unit.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from longstride.process.scenario.scenario import Service
from longstride.process.scenario.schema import Delay

EXPONENTIAL, CONSTANT, UNIFORM, LOGNORMAL, QUANTILES = range(5)
_KINDS = "exponential", "constant", "uniform", "lognormal", "quantiles"

_CENTRE = np.array(
    [
        [2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
         1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080],
        [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
         5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0],
    ]
)  # fmt: skip
_MIDDLE = np.array(
    [
        [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
         3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734],
        [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
         6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0],
    ]
)  # fmt: skip
_TAIL = np.array(
    [
        [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
         2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720],
        [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
         1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0],
    ]
)  # fmt: skip


def service_mean(entry: Service) -> float:
    """Return the mean service time of a checked entry of a scenario, in time units."""
    if entry.quantiles is not None:
        return table_mean(np.array(entry.quantiles))
    if entry.low is not None and entry.high is not None:
        return (entry.low + entry.high) / 2
    assert entry.mean is not None  # the scenario was checked
    return entry.mean


def service_arrays(entries: Sequence[Service] | Sequence[Delay]) -> dict[str, Any]:
    """Return the parameters' arrays ``service_...`` and ``pair_least_rest`` for the entries of all pairs."""
    rows: list[tuple[int, float, float, float]] = []
    tables, tails, held = [np.zeros(0)], [np.zeros(0)], 0
    for entry in entries:
        scale, low, high = entry.mean or 1.0, entry.low or 0.0, entry.high or 0.0
        if entry.quantiles is not None:
            low, high = float(held), float(held + len(entry.quantiles))
            held += len(entry.quantiles)
            tables.append(np.array(entry.quantiles))
            tails.append(_table_tails(tables[-1]))
        if entry.cv is not None:
            low = math.sqrt(math.log1p(entry.cv**2))
        rows.append((_KINDS.index(entry.distribution), scale, low, high))
    kinds, scales, lows, highs = zip(*rows, strict=True)
    return {
        "pair_least_rest": np.array([least_residual(*row[:3]) for row in rows]),
        "service_kind": np.array(kinds, np.int64),
        "service_scale": np.array(scales, np.float64),
        "service_low": np.array(lows, np.float64),
        "service_high": np.array(highs, np.float64),
        "service_table": np.concatenate(tables),
        "service_tail": np.concatenate(tails),
    }


def table_mean(values: np.ndarray) -> float:
    """Return the mean of the distribution whose quantile function interpolates float64[K] linearly."""
    return float((values[:-1] + values[1:]).mean() / 2.0)


def _table_tails(values: np.ndarray) -> np.ndarray:
    """Return float64[K], the sum of the step means from each of the K values of a table to the last."""
    steps = (values[:-1] + values[1:]) / 2.0
    return np.append(np.cumsum(steps[::-1])[::-1], 0.0)


@njit(nogil=True)
def normal_quantile(u):  # type: ignore[no-untyped-def]
    """Return the u-quantile of the standard normal distribution, 0 < u < 1, to about 1e-16.

    Algorithm AS 241 (PPND16) of M. J. Wichura, Applied Statistics 37 (1988) 477-484.
    """
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * _ratio(_CENTRE, r)
    r = math.sqrt(-math.log(u if q < 0.0 else 1.0 - u))
    value = _ratio(_MIDDLE, r - 1.6) if r <= 5.0 else _ratio(_TAIL, r - 5.0)
    return -value if q < 0.0 else value


@njit(nogil=True)
def mean_residual(kind, mean, low, high, table, tail, elapsed):  # type: ignore[no-untyped-def]
    """Return the expected remaining time of a service, E[S - e | S > e] with e = ``elapsed``, float64; 0 if overdue.

    ``tail``, float64[K], holds for each value of a table the sum of the step means after it.
    """
    if kind == EXPONENTIAL:
        return mean
    if kind == CONSTANT:
        return max(0.0, mean - elapsed)
    if kind == UNIFORM:
        return max(0.0, (max(low, elapsed) + high) / 2.0 - elapsed)
    if kind == LOGNORMAL:
        return _lognormal_residual(mean, low, elapsed)
    return _table_residual(mean, np.int64(low), np.int64(high), table, tail, elapsed)


def _lognormal_in_python(mean: float, sigma: float, elapsed: float) -> float:
    """Return E[S - e | S > e] = mean P(Z > z - sigma) / P(Z > z) - e, with z such that S > e means Z > z."""
    if elapsed <= 0.0 or sigma == 0.0:
        return max(0.0, mean - elapsed)
    z = math.log(elapsed / mean) / sigma + sigma / 2.0
    survivors = math.erfc(z / math.sqrt(2.0))
    if survivors < 1e-290:  # so far out that rounding destroys the ratio of the two tails
        return elapsed * sigma / z
    return mean * math.erfc((z - sigma) / math.sqrt(2.0)) / survivors - elapsed


_lognormal_residual = njit(nogil=True)(_lognormal_in_python)


@njit(nogil=True)
def _table_residual(mean, start, end, table, tail, elapsed):  # type: ignore[no-untyped-def]
    """Return E[S - e | S > e] for a quantile function that is linear between the values of a table."""
    e = elapsed / mean
    if e >= table[end - 1]:
        return 0.0
    k = start + np.searchsorted(table[start:end], e, side="right")  # the first entry beyond e
    share, inner = 0.0, 0.0
    if k > start:
        share = (table[k] - e) / (table[k] - table[k - 1])
        inner = share * (table[k] + e) / 2.0
    return mean * ((tail[k] + inner) / (end - 1 - k + share)) - elapsed


def least_residual(kind: int, mean: float, sigma: float) -> float:
    """Return a lower bound of :func:`mean_residual` over all elapsed times; 0 if the remaining time falls to 0.

    The remaining time of a lognormal service falls, then rises again before the hazard rate reaches its maximum. At
    that maximum the logarithm of the elapsed time is less than 1 / sigma standard deviations above its mean.
    """
    if kind == EXPONENTIAL:
        return mean
    if kind != LOGNORMAL or sigma == 0.0:
        return 0.0
    elapsed = np.exp(sigma * np.linspace(-6.0, 6.0 + 1.0 / sigma, 500) - sigma**2 / 2.0)
    least = min(_lognormal_in_python(1.0, sigma, float(e)) for e in elapsed)  # compiling it would take longer
    return 0.99 * mean * least  # the minimum may lie between two of these points


@njit(nogil=True)
def _ratio(coefficients, r):  # type: ignore[no-untyped-def]
    """Return the quotient of two polynomials; float64[2, 8] holds their coefficients, highest power first."""
    numerator, denominator = 0.0, 0.0
    for k in range(coefficients.shape[1]):
        numerator = numerator * r + coefficients[0, k]
        denominator = denominator * r + coefficients[1, k]
    return numerator / denominator


@njit(nogil=True)
def draw_service(p, pair, node, u):  # type: ignore[no-untyped-def]
    """Return the u-quantile of the time of a pair for the task of a node; u in [0, 1)."""
    time = service_time(
        p.service_kind[pair], p.service_scale[pair], p.service_low[pair], p.service_high[pair], p.service_table, u
    )
    return time * p.node_work[node] if p.has_work else time


@njit(nogil=True)
def service_time(kind, mean, low, high, table, u):  # type: ignore[no-untyped-def]
    """Return the u-quantile of a service time, float64; u is a float64 in [0, 1)."""
    if kind == EXPONENTIAL:
        return -mean * math.log1p(-u)
    if kind == CONSTANT:
        return mean
    if kind == UNIFORM:
        return low + (high - low) * u
    if kind == LOGNORMAL:
        return mean * math.exp(low * normal_quantile(u) - 0.5 * low * low) if u > 0.0 else 0.0
    start, end = np.int64(low), np.int64(high)
    position = u * (end - start - 1)
    k = np.int64(position)
    fraction = position - k
    return mean * (table[start + k] * (1.0 - fraction) + table[start + k + 1] * fraction)
