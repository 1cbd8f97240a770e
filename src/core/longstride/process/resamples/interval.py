"""Intervals of a ratio of two means that hold the errors of episodes, of the log and of mining.

The variance of the logarithm of the ratio has three components. That within is of the episodes' means, by the delta
method. That between is of logs: resamples give it, less what their own episodes add to it. Few blocks may be alike by
chance, so it is at least that of logs which a scenario has written, up to chance. That of mining is the square of its
bias: how far the effect mined back from such logs is from the effect in that scenario.
The quantile is Student's t with the degrees of freedom of Welch and Satterthwaite.
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
    mining: float = 0.0  # square of the bias of mining
    mined_back: int = 2  # simulated logs that it comes from


class Interval(NamedTuple):
    """A 95 % interval of an effect, and the shares of its variance by source; they add up to 1."""

    value: float
    low: float
    high: float
    of_episodes: float
    of_log: float = 0.0
    of_mining: float = 0.0


def effect_of(changed: Sequence[float] | np.ndarray, unchanged: Sequence[float] | np.ndarray) -> Effect:
    """Return the effect of a change on float64[n >= 2], positive figures of the same n episodes."""
    a, b = np.asarray(changed, np.float64), np.asarray(unchanged, np.float64)
    first, second = float(a.mean()), float(b.mean())
    spread = a / first - b / second
    return Effect(math.log(first / second), float(spread.var(ddof=1)) / len(a), len(a))


def log_error(effects: Sequence[Effect], blocks: float, simulated: Sequence[Effect] = ()) -> LogError | None:
    """Return the variance between logs of an effect; None for fewer than two resamples.

    Simulated logs have independent cases, and weeks of a log vary as much as that or more. So if they vary less, that
    is chance, and the likeliest variance under this order is the mean of both, weighted by their degrees of freedom
    (Ayer et al., "An empirical distribution function for sampling with incomplete information", 1955).

    Args:
        effects: the effect on each resample.
        blocks: independent blocks of the log; drawing from n blocks gives (n - 1) / n of the variance between logs.
        simulated: the effect mined from each simulated log.
    """
    if len(effects) < 2:
        return None
    variance = _between(effects) * blocks / max(blocks - 1.0, 1.0)
    freedom = max(min(float(len(effects)), blocks) - 1.0, 1.0)
    if len(simulated) >= 2 and variance < (least := _between(simulated)):
        both = freedom + len(simulated) - 1.0
        variance, freedom = (freedom * variance + (both - freedom) * least) / both, both
    return LogError(max(variance, 0.0), len(effects), freedom)


def _between(effects: Sequence[Effect]) -> float:
    """Return an unbiased estimate of the variance of the effects without that of their own episodes."""
    values = [effect.value for effect in effects]
    return float(np.var(values, ddof=1)) - float(np.mean([effect.variance for effect in effects]))


def bias_of_mining(true: Effect, mined_back: Sequence[Effect]) -> float:
    """Return the square of the bias of effects that are mined back, less what chance alone makes of it."""
    values = np.array([effect.value for effect in mined_back])
    if len(values) < 2:
        return 0.0
    return max(float(values.mean() - true.value) ** 2 - float(values.var(ddof=1)) / len(values) - true.variance, 0.0)


def interval(effect: Effect, error: LogError | None) -> Interval:
    """Return the 95 % interval of an effect; without an error of the log, that of the episodes alone."""
    from scipy.special import stdtrit  # scipy.stats, which has the same quantile, takes half a second to load

    parts = [(effect.variance, effect.episodes - 1.0)]
    parts += [(error.variance, error.freedom), (error.mining, error.mined_back - 1.0)] if error else []
    total = sum(variance for variance, _ in parts)
    if total <= 0.0:
        return Interval(effect.value, effect.value, effect.value, 1.0)
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(total)
    return Interval(effect.value, effect.value - half, effect.value + half, *(part / total for part, _ in parts))
