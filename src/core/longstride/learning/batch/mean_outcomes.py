"""Means over further outcomes of each step, which leave less of the simulator's noise in what an update learns from.

A temporal difference has the reward and the value after one outcome of a step. Its mean over several outcomes that are
drawn independently has the same expectation, given state and action, and a smaller variance. (With known probabilities
the expectation itself can be taken: Dai and Gluzman, Stochastic Systems 12(1), 2022.)
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longstride.rollout.outcomes.drawn import Drawn, hashes_of
from longstride.rollout.trajectory import Trajectory

_BLOCK = 16 << 20
"""Bytes of observations among which equal ones are looked for at once."""


class NextOutcomes(NamedTuple):
    """K further outcomes of T steps, as an update values them."""

    observations: np.ndarray  # float32[T, K, O], after the step
    discounts: np.ndarray  # float64[T, K], from the step to that observation; 0 where the process ended


def rewards_of(trajectory: Trajectory, drawn: Drawn | None) -> np.ndarray:
    """Return float32[T, 1 + K], the rewards of what happened and of what was drawn."""
    return np.concatenate([trajectory.rewards[:, None], *([] if drawn is None else [drawn.rewards])], axis=1)


def mean_rewards(rewards: np.ndarray) -> np.ndarray:
    """Return float32[T], the means over the outcomes of float32[T, 1 + K]."""
    return rewards[:, 0] if rewards.shape[1] == 1 else rewards.mean(axis=1, dtype=np.float64).astype(np.float32)


def with_mean_rewards(trajectory: Trajectory, drawn: Drawn | None) -> Trajectory:
    """Return a trajectory whose rewards are the means over what happened and what was drawn."""
    return trajectory if drawn is None else trajectory._replace(rewards=mean_rewards(rewards_of(trajectory, drawn)))


def next_outcomes(drawn: Drawn | None, discount: Callable[[np.ndarray], np.ndarray]) -> NextOutcomes | None:
    """Return the outcomes with the discounts of their elapsed times, float64[T, K]; None without any."""
    if drawn is None:
        return None
    return NextOutcomes(drawn.observations, np.where(drawn.terminated, 0.0, discount(drawn.elapsed)))


def with_mean_values(
    trajectories: Sequence[Trajectory],
    next_values: Sequence[np.ndarray],
    discounts: Sequence[np.ndarray],
    outcomes: Sequence[NextOutcomes | None],
    value: Callable[[np.ndarray], np.ndarray],
) -> list[Trajectory]:
    """Return trajectories whose rewards make up for what the means of the discounted next values are above their own.

    So every temporal difference is a mean over outcomes, and nothing that follows has to know. Their rewards already
    are such means.

    Args:
        trajectories: those of a rollout, of T steps each.
        next_values: float32[T] of each, the critic's value after what happened.
        discounts: float64[T] of each.
        outcomes: further ones of each; None for none.
        value: returns the critic's float32[n] values of float32[n, O] observations.
    """
    known = [each.observations.reshape(-1, each.observations.shape[2]) for each in outcomes if each is not None]
    if not known:
        return list(trajectories)
    values, changed = iter(values_of_rows(known, value)), []
    for trajectory, after, discount, outcome in zip(trajectories, next_values, discounts, outcomes, strict=True):
        if outcome is None:
            changed.append(trajectory)
            continue
        own = np.where(trajectory.terminated, 0.0, discount * after)
        drawn = (outcome.discounts * next(values).reshape(outcome.discounts.shape)).sum(axis=1)
        mean = (own + drawn) / (1 + outcome.discounts.shape[1])
        changed.append(trajectory._replace(rewards=(trajectory.rewards + (mean - own)).astype(np.float32)))
    return changed


def values_of_rows(parts: Sequence[np.ndarray], value: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """Return the values float32[n] of the rows of each part, float32[n, O]; of equal rows one is valued."""
    starts = np.cumsum([0, *map(len, parts)])
    found, at_once = np.empty(starts[-1], np.float32), max(_BLOCK // (4 * parts[0].shape[1]), 1)
    for begin in range(0, len(found), at_once):
        end = min(begin + at_once, len(found))
        inside = zip(parts, np.maximum(begin - starts[:-1], 0), np.maximum(end - starts[:-1], 0), strict=True)
        rows = np.concatenate([part[first:last] for part, first, last in inside])
        kept, kinds = distinct_rows(rows)
        found[begin:end] = value(rows[kept])[kinds]
    return np.split(found, starts[1:-1])


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places int64[m] of one of each kind of rows of float32[n, O], and for each row its kind, int64[n].

    Rows are told apart by a hash of their bits; if two of one hash differ, all rows are their own kind.
    """
    _, kept, kinds = np.unique(hashes_of(rows), return_index=True, return_inverse=True)
    if (rows[kept[kinds]] == rows).all():
        return kept, kinds
    return np.arange(len(rows)), np.arange(len(rows))
