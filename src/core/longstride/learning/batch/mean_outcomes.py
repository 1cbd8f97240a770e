"""Means over further outcomes of each step, which leave less of the simulator's noise in what an update learns from.

A temporal difference has the reward and the value after one outcome of a step. Its mean over several outcomes that are
drawn independently has the same expectation, given state and action, and a smaller variance. (With known probabilities
the expectation itself can be taken: Dai and Gluzman, Stochastic Systems 12(1), 2022.)
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longstride.rollout.outcomes.drawn import Drawn
from longstride.rollout.trajectory import Trajectory


class NextOutcomes(NamedTuple):
    """K further outcomes of T steps, as an update values them."""

    observations: np.ndarray  # float32[T, K, O], after the step
    discounts: np.ndarray  # float64[T, K], from the step to that observation; 0 where the process ended


def with_mean_rewards(trajectory: Trajectory, drawn: Drawn | None) -> Trajectory:
    """Return a trajectory whose rewards are the means over what happened and what was drawn."""
    if drawn is None:
        return trajectory
    total = trajectory.rewards + drawn.rewards.sum(axis=1, dtype=np.float64)
    return trajectory._replace(rewards=(total / (1 + drawn.rewards.shape[1])).astype(np.float32))


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

    So every temporal difference is a mean over outcomes, and nothing that follows has to know.

    Args:
        trajectories: those of a rollout, of T steps each.
        next_values: float32[T] of each, the critic's value after what happened.
        discounts: float64[T] of each.
        outcomes: further ones of each; None for none.
        value: returns the critic's float32[n] values of float32[n, O] observations.
    """
    known = [each for each in outcomes if each is not None]
    if not known:
        return list(trajectories)
    rows = np.concatenate([each.observations.reshape(-1, each.observations.shape[2]) for each in known])
    kept, places = distinct_rows(rows)
    pieces = np.split(value(rows[kept])[places], np.cumsum([each.discounts.size for each in known])[:-1])
    values = iter(pieces)
    changed = []
    for trajectory, after, discount, outcome in zip(trajectories, next_values, discounts, outcomes, strict=True):
        if outcome is None:
            changed.append(trajectory)
            continue
        own = np.where(trajectory.terminated, 0.0, discount * after)
        drawn = (outcome.discounts * next(values).reshape(outcome.discounts.shape)).sum(axis=1)
        mean = (own + drawn) / (1 + outcome.discounts.shape[1])
        changed.append(trajectory._replace(rewards=(trajectory.rewards + (mean - own)).astype(np.float32)))
    return changed


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places int64[m] of one of each kind of rows of float32[n, O], and for each row its kind, int64[n].

    Of counts, many outcomes are alike, and each needs to be valued once. Rows are told apart by a hash of their bits;
    if two of one hash differ, all rows are their own kind.
    """
    bits = np.ascontiguousarray(rows).view(np.uint32).astype(np.uint64)
    weights = np.random.default_rng(0).integers(1 << 63, size=bits.shape[1], dtype=np.uint64) | np.uint64(1)
    _, kept, kinds = np.unique((bits * weights).sum(axis=1), return_index=True, return_inverse=True)
    if (rows[kept[kinds]] == rows).all():
        return kept, kinds
    return np.arange(len(rows)), np.arange(len(rows))
