"""How the samples of a rollout are split: every one exactly once an epoch, in minibatches of one size."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Minibatches(NamedTuple):
    """M minibatches of S slots: int64[M, S] samples of the rollout, and float32[M, S] share of each in its minibatch.

    The shares add up to 1 in each minibatch. A slot of weight 0 is padding. Where several processes learn, these are
    the slots of one, padding last, and the shares of all add up to 1.
    """

    indices: np.ndarray
    weights: np.ndarray

    @property
    def steps(self) -> int:
        """Number of minibatches M, each an optimiser step."""
        return len(self.indices)

    @property
    def size(self) -> int:
        """Number of slots S of a minibatch."""
        return int(self.indices.shape[1])

    def without_padding(self) -> "Minibatches":
        """Return the same without slots that are padding in all minibatches."""
        used = int(np.max(np.flatnonzero(self.weights.any(axis=0)), initial=0)) + 1
        return self if used == self.size else Minibatches(self.indices[:, :used], self.weights[:, :used])

    @property
    def lengths(self) -> list[int]:
        """Slots of each minibatch without the padding at its end, at least 1."""
        return np.maximum((self.weights != 0.0).sum(axis=1), 1).tolist()  # type: ignore[no-any-return]

    def first(self, steps: int) -> "Minibatches":
        """Return the first minibatches."""
        return Minibatches(self.indices[:steps], self.weights[:steps])


def minibatch_shape(samples: int, largest: int) -> tuple[int, int]:
    """Return (number of minibatches, size of each): as few as ``largest`` allows, as equal as they can be.

    62,000 samples at 32,768 become 2 x 31,000. Where the samples do not divide evenly the last slots are padding.
    """
    count = -(-samples // largest)
    return count, -(-samples // count)


def split(samples: int, largest: int, rng: np.random.Generator, slots: int = 0) -> Minibatches:
    """Draw the minibatches of an epoch over so many samples, each of at most ``largest``; see :func:`draw_epochs`."""
    count, size = minibatch_shape(samples, largest)
    return draw_epochs(np.empty((1, count, max(slots, size)), np.int64), samples, rng)[0]


def draw_epochs(room: np.ndarray, samples: int, rng: np.random.Generator) -> list[Minibatches]:
    """Draw the minibatches of some epochs over so many samples into int64[epochs, minibatches, slots].

    Slots beyond the samples of a minibatch repeat one of them with weight 0. The weights, which depend on the shape
    alone, are the same array for all epochs.
    """
    _, count, slots = room.shape
    size = -(-samples // count)
    for drawn in room:
        order = rng.permutation(samples)
        # Padding is dealt out like cards, so that minibatches differ by at most one real sample.
        drawn[:, :size] = np.concatenate([order, order[: count * size - samples]]).reshape(size, count).T
        drawn[:, size:] = drawn[:, :1]
    weights = _weights(samples, count, slots)
    return [Minibatches(drawn, weights) for drawn in room]


@lru_cache(maxsize=8)
def _weights(samples: int, count: int, slots: int) -> np.ndarray:
    """Return float32[count, slots], the share of each slot in its minibatch; not to be changed."""
    size = -(-samples // count)
    real = (np.arange(count * size) < samples).reshape(size, count).T
    weights = np.pad(real / real.sum(axis=1, keepdims=True), ((0, 0), (0, slots - size)))
    return np.ascontiguousarray(weights, np.float32)


def steady_size(size: int, largest: int) -> int:
    """Return a size of a minibatch with some further slots, so that its shape stays the same over many iterations.

    A captured step has one shape, and iterations differ by some samples. At most a thirty-second of ``largest``, the
    most samples in a minibatch, is added.
    """
    quantum = max(largest // 32, 1)
    return min(-(-size // quantum) * quantum, largest)
