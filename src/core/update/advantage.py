"""Generalised advantage estimation (Schulman et al., arXiv 1506.02438, equations 11, 12 and 16)."""

import numpy as np
from numba import njit

from core.kernels.cache import cached


@cached
@njit(nogil=True)
def gae(rewards, values, next_values, discounts, terminated, ended, gae_lambda):  # type: ignore[no-untyped-def]
    """Return advantages and returns of a rollout.

    Args:
        rewards: float32[T].
        values: float32[T], V(s_t).
        next_values: float32[T], V(s_{t+1}), of the final observation where an episode is cut.
        discounts: float64[T], the discount from t to t + 1.
        terminated: bool[T]; nothing follows, the next value is 0.
        ended: bool[T], terminated or truncated; the sum over future deltas stops.
        gae_lambda: float in [0, 1].

    Returns:
        advantages float32[T] and returns float32[T] = advantages + values (the targets of the critic).
    """
    steps = len(rewards)
    advantages = np.empty(steps, np.float32)
    returns = np.empty(steps, np.float32)
    advantage = 0.0
    for t in range(steps - 1, -1, -1):
        following = 0.0 if terminated[t] else np.float64(next_values[t])
        delta = rewards[t] + discounts[t] * following - values[t]  # (11)
        carried = 0.0 if ended[t] else advantage
        advantage = delta + discounts[t] * gae_lambda * carried  # (16)
        advantages[t] = advantage
        returns[t] = advantage + values[t]
    return advantages, returns


@cached
@njit(nogil=True)
def discounted_sums(rewards, discounts, ended, carried):  # type: ignore[no-untyped-def]
    """Return G_t = r_t + discount_{t-1} G_{t-1} of a rollout, beginning anew after the end of an episode.

    Args:
        rewards: float32[T].
        discounts: float64[T], the discount from t to t + 1.
        ended: bool[T], terminated or truncated after t.
        carried: float, what the rollout before left.

    Returns:
        float64[T], and what this rollout leaves to the next: the last sum, discounted; 0 if its episode ended.
    """
    sums = np.empty(len(rewards))
    for t in range(len(rewards)):
        sums[t] = rewards[t] + carried
        carried = 0.0 if ended[t] else discounts[t] * sums[t]
    return sums, carried


def following_values(values: np.ndarray, truncated: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """Return float32[T], the value of what follows each decision of a rollout, for :func:`gae`.

    Args:
        values: float32[T], V(s_t).
        truncated: bool[T], an episode was cut after t.
        beyond: float32[1 + cuts], V of the observation after the last decision, then of those after each earlier cut:
            the next row's is the first of another episode.
    """
    following = np.append(values[1:], beyond[0])
    following[:-1][truncated[:-1]] = beyond[1:]
    return following


def step_discounts(gamma: float, elapsed: np.ndarray, mean_interval: float, per: str) -> np.ndarray:
    """Return float64[T], the discount from each decision to the next.

    Args:
        gamma: discount per decision, or per ``mean_interval`` of simulated time.
        elapsed: float64[T], simulated time from decision t to t + 1.
        mean_interval: simulated time between two decisions on average, > 0.
        per: ``"decision"`` or ``"time"``; by time a decision that takes none is not discounted (a semi-Markov
            decision process: Bradtke and Duff, "Reinforcement learning methods for continuous-time Markov decision
            problems", 1994).
    """
    if per == "time":
        return np.asarray(gamma ** (elapsed / mean_interval), np.float64)
    return np.full(len(elapsed), gamma)
