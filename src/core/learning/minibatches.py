"""How the samples of a rollout are split: every one exactly once an epoch, in minibatches of one size."""

from typing import NamedTuple

import numpy as np


class Minibatches(NamedTuple):
    """M minibatches of S slots: int64[M, S] samples of the rollout, and float32[M, S] share of each in its minibatch.

    The shares add up to 1 in each minibatch. A slot of weight 0 is padding.
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

    def first(self, steps: int) -> "Minibatches":
        """Return the first minibatches."""
        return Minibatches(self.indices[:steps], self.weights[:steps])

    def padded(self, size: int) -> "Minibatches":
        """Return minibatches of a larger size, whose further slots repeat a sample with weight 0."""
        more = size - self.size
        indices = np.concatenate([self.indices, np.repeat(self.indices[:, :1], more, axis=1)], axis=1)
        return Minibatches(indices, np.pad(self.weights, ((0, 0), (0, more))))


def minibatch_shape(samples: int, largest: int) -> tuple[int, int]:
    """Return (number of minibatches, size of each): as few as ``largest`` allows, as equal as they can be.

    62,000 samples at 32,768 become 2 x 31,000. Where the samples do not divide evenly the last slots are padding.
    """
    count = -(-samples // largest)
    return count, -(-samples // count)


def split(samples: int, largest: int, rng: np.random.Generator) -> Minibatches:
    """Draw the minibatches of an epoch over so many samples, each of at most ``largest``."""
    count, size = minibatch_shape(samples, largest)
    indices = np.resize(rng.permutation(samples), count * size)
    real = np.arange(count * size) < samples
    # Padding is dealt out like cards, so that minibatches differ by at most one real sample.
    dealt, real_slots = indices.reshape(size, count).T, real.reshape(size, count).T
    weights = real_slots / real_slots.sum(axis=1, keepdims=True)
    return Minibatches(np.ascontiguousarray(dealt), np.ascontiguousarray(weights, np.float32))


def steady_size(size: int, largest: int) -> int:
    """Return a size of a minibatch with some further slots, so that its shape stays the same over many iterations.

    A captured step has one shape, and iterations differ by some samples. At most a thirty-second of ``largest``, the
    most samples in a minibatch, is added.
    """
    quantum = max(largest // 32, 1)
    return min(-(-size // quantum) * quantum, largest)
