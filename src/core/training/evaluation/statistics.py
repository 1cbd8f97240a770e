"""Pairs of measurements become a ratio or a difference with its interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Paired:
    """A mean over pairs, with 95 % intervals; they are None for a single pair.

    Of few pairs a bootstrap interval is too narrow: of five normal values it holds the true mean 83 times in 100,
    Student's t, which takes them for normal, 95 times. So the second is what is shown, and the first stands beside it.

    Attributes:
        value: the mean, of ratios the geometric one.
        low: lower end, Student's t.
        high: upper end, Student's t.
        bootstrap_low: lower end, percentile bootstrap over pairs.
        bootstrap_high: upper end, percentile bootstrap over pairs.
    """

    value: float
    low: float | None = None
    high: float | None = None
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> Paired | None:
    """Return b / a over pairs, by their logarithms; None where a value is not above 0."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not (np.all(first > 0) and np.all(second > 0)):
        return None
    return _mean_and_ends(np.log(second / first), np.exp)


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Paired:
    """Return b - a over pairs."""
    return _mean_and_ends(np.asarray(b, np.float64) - np.asarray(a, np.float64), np.asarray)


def _mean_and_ends(values: np.ndarray, back: Callable[[np.ndarray], np.ndarray]) -> Paired:
    """Return the mean of values and the ends of its two intervals.

    Args:
        values: float64[pairs].
        back: what all five numbers are taken through.
    """
    from scipy.stats import t

    mean, count = values.mean(), len(values)
    if count == 1:
        return Paired(float(back(mean)))
    half = t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count)
    drawn = np.random.default_rng(0).integers(count, size=(_RESAMPLES, count))  # always the same: no luck in a report
    ends = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return Paired(*back(np.array([mean, mean - half, mean + half, *ends])).tolist())
