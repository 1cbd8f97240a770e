"""Who plays and learns what: pure functions of counts, the same on every rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.learning.minibatches import Minibatches
from longstride.text import counted


@dataclass(frozen=True)
class Share:
    """The environment instances of a rank, one after another: number of the first, and how many they are."""

    first: int
    count: int

    def of(self, instances: int) -> int:
        """Return how many of the first so many instances are in the share."""
        return max(min(instances - self.first, self.count), 0)

    @property
    def rows(self) -> slice:
        """Rows of this share in an array with a row for each instance of all ranks."""
        return slice(self.first, self.first + self.count)


def share_of(instances: int, group_size: int, rank: int, size: int) -> Share:
    """Return the share of a rank: whole groups, as equal as they can be.

    Raises:
        UserError: there are fewer groups than ranks.
    """
    groups = instances // group_size
    if groups < size:
        what = counted(groups, "environment instance")
        if group_size > 1:
            what = f"{counted(groups, 'group')} of {group_size} environment instances"
        raise UserError(
            f"{size} processes share {what}, so that some have nothing to play; start at most {groups}, or raise "
            f"NUM_ENVS to {size * group_size} or more."
        )
    begin, end = (groups * k // size * group_size for k in (rank, rank + 1))
    return Share(begin, end - begin)


class OwnPart(NamedTuple):
    """What a rank has of the minibatches of an epoch, M of them.

    Attributes:
        places: int64[P], numbers of its samples, one minibatch after another, counted within the rank.
        weights: float32[P], their shares in the minibatch of all ranks.
        counts: int64[M], how many belong to each minibatch.
    """

    places: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


def own_part(minibatches: Minibatches, begin: int, samples: int) -> OwnPart:
    """Return the slots of minibatches of all ranks that hold samples ``begin`` .. ``begin + samples - 1``."""
    indices, weights = minibatches.indices, minibatches.weights
    own = (indices >= begin) & (indices < begin + samples) & (weights > 0.0)
    return OwnPart(indices[own] - begin, weights[own], own.sum(axis=1))


def write_part(part: OwnPart, learned_from: np.ndarray | None, indices: np.ndarray, weights: np.ndarray) -> Minibatches:
    """Write a rank's part into int64[M, S] indices and float32[M, S] weights; other slots have weight 0.

    ``learned_from``, int64[samples], are the places of its samples in the rollout; None where those are the samples.
    """
    rows = np.repeat(np.arange(len(part.counts)), part.counts)
    slots = np.arange(len(rows)) - np.repeat(np.cumsum(part.counts) - part.counts, part.counts)
    indices[...], weights[...] = 0, 0.0
    indices[rows, slots] = part.places if learned_from is None else learned_from[part.places]
    weights[rows, slots] = part.weights
    return Minibatches(indices, weights)


def most_slots(size: int, samples: int, everywhere: int) -> int:
    """Return the slots that a rank's part of a minibatch of ``size`` samples hardly ever exceeds.

    It has ``samples`` of the samples everywhere. The number in a minibatch is hypergeometric; five standard deviations
    of the binomial distribution, which is wider, are left for it.
    """
    mean = size * samples / everywhere
    return min(size, int(np.ceil(mean + 5.0 * np.sqrt(mean * (1.0 - samples / everywhere)))) + 1)


def offsets(counts: Sequence[int]) -> list[int]:
    """Return the number of samples before those of each rank."""
    return [sum(counts[:k]) for k in range(len(counts))]
