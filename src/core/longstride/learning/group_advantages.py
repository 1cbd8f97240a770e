"""Advantages within groups of trajectories that share a start and the random streams of the simulator; no critic.

What an action is worth is the sum of the rewards after it, less what the other members of its group had from the same
simulated time on: the leave-one-out mean, which does not depend on the action, so that the gradient stays unbiased
(Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019). Common random numbers make the
sums of a group alike but for its actions.
"""

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.rollout.trajectory import Trajectory


class Segment(NamedTuple):
    """The K steps of one episode in a member's trajectory.

    Attributes:
        rows: places of these steps in the trajectory.
        begins: float64[K + 1], time of each step from the segment's start, and of its end.
        rewards: float64[K], of the steps.
        discounts: float64[K], from each step to the next.
        complete: whether the episode ended there, and was not only interrupted by the end of the rollout.
    """

    rows: slice
    begins: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray
    complete: bool


class GroupAdvantages(NamedTuple):
    """Advantages of a group's members, float64[T] of each, and bool[T]: which steps a comparison was possible for.

    In ``identical`` of the comparisons no member fared differently from the others, so that nothing is learned there.
    """

    advantages: list[np.ndarray]
    compared: list[np.ndarray]
    comparisons: int
    identical: int


def group_advantages(
    trajectories: Sequence[Trajectory], discounts: Sequence[np.ndarray], by_deviation: bool = False
) -> GroupAdvantages:
    """Return the advantages of the members of one group, with float64[T] discounts of each.

    The n-th episodes of the members are compared with each other. Where the rollout interrupts one, the comparison ends
    there for all, because the others' later rewards have no counterpart. Time is the simulator's clock, or steps where
    it has none. With ``by_deviation`` advantages are divided by the deviation of the members' whole sums.
    """
    clocked = any(t.elapsed.any() for t in trajectories)
    members = [segments_of(t, d, clocked) for t, d in zip(trajectories, discounts, strict=True)]
    advantages = [np.zeros(t.steps) for t in trajectories]
    compared = [np.zeros(t.steps, np.bool_) for t in trajectories]
    comparisons = identical = 0
    for episode in zip_longest(*members):
        present = [i for i, segment in enumerate(episode) if segment is not None]
        if len(present) < 2:
            continue
        differences, before_end = _compare([episode[i] for i in present], by_deviation)
        different = any(difference[use].any() for difference, use in zip(differences, before_end, strict=True))
        comparisons, identical = comparisons + 1, identical + (not different)
        for i, difference, use in zip(present, differences, before_end, strict=True):
            rows = episode[i].rows
            advantages[i][rows], compared[i][rows] = np.where(use, difference, 0.0), use & different
    return GroupAdvantages(advantages, compared, comparisons, identical)


def segments_of(trajectory: Trajectory, discounts: np.ndarray, clocked: bool) -> list[Segment]:
    """Return the episodes of a trajectory, or their parts in it; without a clock a step takes 1."""
    ended = trajectory.terminated | trajectory.truncated
    edges = [0, *(np.flatnonzero(ended) + 1).tolist()]
    edges += [trajectory.steps] if edges[-1] < trajectory.steps else []
    elapsed = trajectory.elapsed if clocked else np.ones(trajectory.steps)
    segments = []
    for begin, end in pairwise(edges):
        rows = slice(begin, end)
        begins = np.concatenate([[0.0], np.cumsum(elapsed[rows])])
        rewards = trajectory.rewards[rows].astype(np.float64)
        segments.append(Segment(rows, begins, rewards, discounts[rows], bool(ended[end - 1])))
    return segments


@cached
@njit(nogil=True)
def rewards_to_go(rewards, discounts):  # type: ignore[no-untyped-def]
    """Return float64[K + 1], the discounted sum of the rewards from each of K steps on, and 0 at the end."""
    sums = np.zeros(len(rewards) + 1)
    for k in range(len(rewards) - 1, -1, -1):
        sums[k] = rewards[k] + discounts[k] * sums[k + 1]
    return sums


def from_time_on(segment: Segment, sums: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return float64[M], what a member still had to get at the M times of another's steps; 0 after its end.

    ``sums`` are its :func:`rewards_to_go`. A reward counts as spread evenly over its step. Of several steps at one time
    the n-th of the other is compared with the n-th here, or with the last.
    """
    nth = np.arange(len(times)) - np.searchsorted(times, times, side="left")
    first, after = (np.searchsorted(segment.begins[:-1], times, side=side) for side in ("left", "right"))
    k = np.maximum(np.minimum(first + nth, after - 1), 0)  # the step under way where none begins
    duration = segment.begins[k + 1] - segment.begins[k]
    left = np.where(duration > 0.0, (segment.begins[k + 1] - times) / np.where(duration > 0.0, duration, 1.0), 1.0)
    rest = left * segment.rewards[k] + segment.discounts[k] ** left * sums[k + 1]
    return np.where(times < segment.begins[-1], rest, np.where(times == segment.begins[k], sums[k], 0.0))


def _compare(segments: Sequence[Segment], by_deviation: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return advantages of each segment's steps, float64[K], and bool[K]: which begin before the comparison ends."""
    end = min((segment.begins[-1] for segment in segments if not segment.complete), default=np.inf)
    segments = [_until(segment, end) for segment in segments]
    sums = [rewards_to_go(segment.rewards, segment.discounts) for segment in segments]
    before_end = [segment.begins[:-1] < end for segment in segments]
    spread = _deviation(np.array([each[0] for each in sums])) if by_deviation else 0.0
    advantages = []
    for i, segment in enumerate(segments):
        times = segment.begins[:-1]
        others = [from_time_on(other, sums[j], times) for j, other in enumerate(segments) if j != i]
        # A mean of differences, as a mean of equal numbers need not be that number.
        difference = np.mean([sums[i][:-1] - other for other in others], axis=0)
        advantages.append(difference / spread if spread > 0.0 else difference)
    return advantages, before_end


def _until(segment: Segment, end: float) -> Segment:
    """Return a segment whose rewards end at a time; of a step under way only its share is left."""
    if segment.begins[-1] <= end:
        return segment
    duration = np.diff(segment.begins)
    share = np.clip((end - segment.begins[:-1]) / np.where(duration > 0.0, duration, 1.0), 0.0, 1.0)
    share = np.where(duration > 0.0, share, segment.begins[:-1] < end)
    return segment._replace(rewards=segment.rewards * share, begins=np.minimum(segment.begins, end))


def _deviation(worth: np.ndarray) -> float:
    """Return the standard deviation of float64[G] members, exactly 0 where they are equal."""
    return float(np.std(worth - worth[0]))
