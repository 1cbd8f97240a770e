"""Generalised advantage estimation (Schulman et al., arXiv 1506.02438, equations 11, 12 and 16)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.rollout.trajectory import Trajectory

Total = Callable[[np.ndarray], np.ndarray]
"""Returns the sum of float64[n] over several processes, the same bits on each."""

_SHORTEST_HORIZON = 1 / 700
"""Intervals, below which the discount of one would be 0 in float64."""


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    discounts: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    gae_lambda: float | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return advantages and returns of a rollout, float32[T]; returns, the critic's targets, are advantages + values.

    Args:
        rewards: float32[T], rewards.
        values: float32[T], V(s_t).
        next_values: float32[T], V(s_{t+1}); that of the final observation where an episode is cut.
        discounts: float64[T], discount from t to t + 1.
        terminated: bool[T], whether the process ended after t: the next value is 0.
        ended: bool[T], whether the episode terminated or was truncated after t: the sum over later deltas stops.
        gae_lambda: lambda in [0, 1]; or float64[T], lambda from t to t + 1.
    """
    decays = discounts * gae_lambda
    advantages = _advantages(rewards, values, next_values, discounts, decays, terminated, ended)
    return advantages.astype(np.float32), (advantages + values).astype(np.float32)


@cached
@njit(nogil=True)
def _advantages(rewards, values, next_values, discounts, decays, terminated, ended):  # type: ignore[no-untyped-def]
    """Return float64[T]."""
    advantages = np.empty(len(rewards))
    advantage = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        next_value = 0.0 if terminated[t] else np.float64(next_values[t])
        delta = rewards[t] + discounts[t] * next_value - values[t]  # (11)
        carried = 0.0 if ended[t] else advantage
        advantage = delta + decays[t] * carried  # (16)
        advantages[t] = advantage
    return advantages


def compile_advantages() -> None:
    """Compile :func:`gae`, or load it."""
    no, numbers = np.zeros(1, np.bool_), np.zeros(1, np.float32)
    gae(numbers, numbers, numbers, np.zeros(1), no, no, 1.0)


@cached
@njit(nogil=True)
def discounted_sums(rewards, discounts, ended, carried):  # type: ignore[no-untyped-def]
    """Return float64[T], G_t = r_t + discount_{t-1} G_{t-1} within each episode, and what to carry to the next rollout.

    Rewards float32[T], discounts float64[T] and ends bool[T] are those of :func:`gae`; ``carried`` is the discounted
    sum of the previous rollout, 0 where its last episode ended.
    """
    sums = np.empty(len(rewards))
    for t in range(len(rewards)):
        sums[t] = rewards[t] + carried
        carried = 0.0 if ended[t] else discounts[t] * sums[t]
    return sums, carried


def next_values_of(values: np.ndarray, truncated: np.ndarray, bootstrap_values: np.ndarray) -> np.ndarray:
    """Return float32[T], V(s_{t+1}) of each step of a trajectory, for :func:`gae`.

    ``bootstrap_values`` are float32[1 + cuts], V of the observation after the last step, then of the observation after
    each earlier cut, where the next row belongs to another episode.
    """
    next_values = np.append(values[1:], bootstrap_values[0])
    next_values[:-1][truncated[:-1]] = bootstrap_values[1:]
    return next_values


def standardise(advantages: np.ndarray, total: Total | None = None) -> np.ndarray:
    """Return float32[N] advantages with mean 0 and standard deviation 1; all NaN if the deviation is not finite.

    With a function that adds up numbers over several processes, mean and deviation are those over all of them.
    """
    mean, deviation = mean_and_deviation(advantages, total)
    spread = max(float(deviation), 1e-8)
    standardised: np.ndarray = (advantages - mean) / (spread if np.isfinite(spread) else np.nan)
    return standardised


def mean_and_deviation(values: np.ndarray, total: Total | None) -> tuple[Any, Any]:
    """Return mean and standard deviation of float32[N]: of this process in float32; of all of them from float64 sums.

    Those of several processes are rounded to float32, as one process computes in it.
    """
    if total is None:
        return values.mean(), values.std()
    count, mean = total(np.array([len(values), values.sum(dtype=np.float64)]))
    mean /= count
    squares = total(np.array([np.square(values.astype(np.float64) - mean).sum()]))[0]
    return np.float32(mean), np.float32(np.sqrt(squares / count))


def discount_of(horizon: float) -> float:
    """Return the discount that looks so many intervals ahead: after them a reward has 1 / e of its weight."""
    return math.exp(-1.0 / max(horizon, _SHORTEST_HORIZON))


def step_discounts(gamma: float, elapsed: np.ndarray, mean_interval: float, per: str) -> np.ndarray:
    """Return float64[T], the discount (or the critic's lambda) from each step to the next; or of any other shape.

    Gamma is per step, or per ``mean_interval`` of simulated time, of which float64[T] ``elapsed`` from each step to the
    next. By time, a step that takes none is not discounted (a semi-Markov decision process: Bradtke and Duff,
    "Reinforcement learning methods for continuous-time Markov decision problems", 1994).
    """
    if per == "time":
        return np.asarray(gamma ** (elapsed / mean_interval), np.float64)
    return np.full(np.shape(elapsed), gamma)


def control_variate_coefficient(
    trajectories: Sequence[Trajectory],
    values: Sequence[np.ndarray],
    next_values: Sequence[np.ndarray],
    discounts: Sequence[np.ndarray],
    total: Total | None = None,
) -> float:
    """Return what a unit of the control variate adds to a TD error: the slope of least squares through the origin.

    The variate has mean 0 whatever is done, so that subtracting it from the rewards changes no expectation, and least
    squares takes out as much variance as one factor can (Owen, "Monte Carlo theory, methods and examples", 2013,
    section 8.9). Fitted to the data that it is used on, it has an error of the order of one over their number.
    Values, next values and discounts of each trajectory are those of :func:`gae`. ``total`` is that of
    :func:`standardise`.
    """
    covariance = variance = 0.0
    for t, value, next_value, discount in zip(trajectories, values, next_values, discounts, strict=True):
        variate = t.control_variate.astype(np.float64)
        errors = t.rewards + discount * np.where(t.terminated, 0.0, next_value) - value
        covariance, variance = covariance + float(variate @ errors), variance + float(variate @ variate)
    if total is not None:
        covariance, variance = total(np.array([covariance, variance])).tolist()
    return covariance / variance if variance > 0.0 else 0.0
