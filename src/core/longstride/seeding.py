"""Named random streams: every generator is a pure function of (seed, name, index).

No stream is shared, so no generator state has to be saved. Episode 17 of a resumed run gets the same streams as
episode 17 of an uninterrupted run, with any number of threads.
"""

import zlib

import numpy as np


def stream(seed: int, name: str, *index: int) -> np.random.Generator:
    """Return the generator of a named stream.

    Args:
        seed: seed of the run's random streams, >= 0.
        name: purpose of the stream, for example ``"simulator"`` or ``"policy"``.
        index: numbers that tell streams of one name apart, usually the episode.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy(seed, name, *index))))


def entropy(seed: int, name: str, *index: int) -> tuple[int, ...]:
    """Return the numbers that a named stream is seeded with."""
    return seed, zlib.crc32(name.encode()), *index
