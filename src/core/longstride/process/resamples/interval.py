"""Intervals of a ratio of two means that hold the sampling error of episodes and that of the log.

The variance of the logarithm of the ratio has two components. That within is of the episodes' means, by the delta
method. That between is of logs: resamples give it, less what their own episodes add to it. The quantile is Student's t
with the degrees of freedom of Welch and Satterthwaite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Effect(NamedTuple):
    """The logarithm of a ratio of two means over paired episodes."""

    value: float
    variance: float  # of the value, between sets of episodes
    episodes: int


@dataclass(frozen=True)
class LogError:
    """What the size of the log adds to the variance of an effect."""

    variance: float  # of the logarithm of changed / unchanged, between logs
    resamples: int  # resamples that it comes from
    freedom: float  # degrees of freedom of the variance


class Interval(NamedTuple):
    """A 95 % interval of an effect, and the shares of its variance; they add up to 1."""

    value: float
    low: float
    high: float
    of_episodes: float
    of_log: float


def effect_of(changed: Sequence[float] | np.ndarray, unchanged: Sequence[float] | np.ndarray) -> Effect:
    """Return the effect of a change on float64[n >= 2], positive figures of the same n episodes."""
    a, b = np.asarray(changed, np.float64), np.asarray(unchanged, np.float64)
    first, second = float(a.mean()), float(b.mean())
    spread = a / first - b / second
    return Effect(math.log(first / second), float(spread.var(ddof=1)) / len(a), len(a))


def log_error(effects: Sequence[Effect], blocks: float) -> LogError | None:
    """Return the variance between logs of an effect; None for fewer than two resamples.

    Args:
        effects: the effect on each resample.
        blocks: independent blocks of the log; drawing from n blocks gives (n - 1) / n of the variance between logs.
    """
    if len(effects) < 2:
        return None
    between = float(np.var([effect.value for effect in effects], ddof=1))
    within = float(np.mean([effect.variance for effect in effects]))
    freedom = max(min(float(len(effects)), blocks) - 1.0, 1.0)
    return LogError(max(between - within, 0.0) * blocks / max(blocks - 1.0, 1.0), len(effects), freedom)


def interval(effect: Effect, error: LogError | None) -> Interval:
    """Return the 95 % interval of an effect; without an error of the log, that of the episodes alone."""
    from scipy.special import stdtrit  # scipy.stats, which has the same quantile, takes half a second to load

    parts = [(effect.variance, effect.episodes - 1.0)] + ([(error.variance, error.freedom)] if error else [])
    total = sum(variance for variance, _ in parts)
    if total <= 0.0:
        return Interval(effect.value, effect.value, effect.value, 1.0, 0.0)
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(total)
    within = effect.variance / total
    return Interval(effect.value, effect.value - half, effect.value + half, within, 1.0 - within)
