"""How the samples of a rollout are split: every one exactly once an epoch, in minibatches of one size."""

import numpy as np


def minibatch_shape(samples: int, largest: int) -> tuple[int, int]:
    """Return (number of minibatches, size of each): as few as ``largest`` allows, as equal as they can be.

    62,000 samples at 32,768 become 2 x 31,000. Where the samples do not divide evenly the last slots are padding.
    """
    count = -(-samples // largest)
    return count, -(-samples // count)


def split(samples: int, largest: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the minibatches of an epoch.

    Args:
        samples: number of samples N.
        largest: most samples in a minibatch.
        rng: source of the permutation.

    Returns:
        int64[M, S] indices into the samples and float32[M, S] weights. A sample weighs one over the number of samples
        in its minibatch; a padded slot repeats some sample with weight 0.
    """
    count, size = minibatch_shape(samples, largest)
    indices = np.resize(rng.permutation(samples), count * size)
    real = np.arange(count * size) < samples
    # Padding is dealt out like cards, so that minibatches differ by at most one real sample.
    dealt, real_slots = indices.reshape(size, count).T, real.reshape(size, count).T
    weights = real_slots / real_slots.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(dealt), np.ascontiguousarray(weights, np.float32)


def steady_size(size: int, largest: int) -> int:
    """Return the slots of a minibatch that takes some more of them, so that its shape stays the same over many rounds.

    A captured step has one shape, and rounds differ by some samples. At most a thirty-second of ``largest`` is added.

    Args:
        size: samples of a minibatch, at most ``largest``.
        largest: most samples in a minibatch.
    """
    quantum = max(largest // 32, 1)
    return min(-(-size // quantum) * quantum, largest)


def pad(indices: np.ndarray, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return minibatches of a larger size; the slots behind repeat a sample of the minibatch with weight 0.

    Args:
        indices: int64[M, S].
        weights: float32[M, S].
        size: at least S.
    """
    more = size - indices.shape[1]
    padded = np.concatenate([indices, np.repeat(indices[:, :1], more, axis=1)], axis=1)
    return padded, np.pad(weights, ((0, 0), (0, more)))
