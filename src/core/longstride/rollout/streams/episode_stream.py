"""The random stream of each episode, at its beginning without making a generator."""

from functools import cache

import numpy as np

from longstride.jit_cache.cache import cached
from longstride.rollout.streams.generator_addresses import Generators
from longstride.rollout.streams.seed_words import seed_words
from longstride.rollout.streams.swapped_generator import WORDS, memory_of, state_of, words_of
from longstride.seeding import entropy, stream

_write = cached(seed_words)

_BITS = 32
"""Bits of the numbers that NumPy splits a seed up into."""


class EpisodeSeeds:
    """States in which the generators of a named stream begin, one for each episode.

    They are those of ``stream(seed, name, *index, episode)`` of :mod:`longstride.seeding`.
    """

    def __init__(self, seed: int, name: str, *index: int) -> None:
        self.name: tuple[int, str, *tuple[int, ...]] = (seed, name, *index)
        parts = [part for number in entropy(*self.name) for part in _parts(number)]
        self._numbers = np.array([*parts, 0], np.uint64)

    def write(self, episode: int, words: np.ndarray) -> None:
        """Write a generator's uint64[5] words for an episode."""
        if episode >> _BITS == 0 and knows_numpy():
            self.compute(episode, words)
        else:
            words[:] = words_of(stream(*self.name, episode))

    def compute(self, episode: int, words: np.ndarray) -> None:
        """Write them as NumPy makes them today; an episode is below 2^32."""
        self._numbers[-1] = episode
        _write(self._numbers, words)
        words[WORDS - 1] = 0


class EpisodeStreams:
    """The streams of simulator and policy of an instance's episodes.

    Args:
        seed: seed of the run's random streams.
        simulator: index that names the simulator's.
        policy: index that names the policy's.
    """

    def __init__(self, seed: int, simulator: int, policy: int) -> None:
        self._pair = EpisodeStream(seed, "simulator", simulator), EpisodeStream(seed, "policy", policy)

    def at(self, episode: int) -> Generators:
        """Return the two for an episode; those that were returned before are the same and have moved, too."""
        simulator, policy = self._pair
        return simulator.at(episode), policy.at(episode)

    def new(self, episode: int) -> Generators:
        """Return generators of their own for an episode."""
        simulator, policy = self._pair
        return simulator.new(episode), policy.new(episode)


class EpisodeStream:
    """One generator for all episodes of a named stream: each call sets it to the beginning of an episode."""

    def __init__(self, seed: int, name: str, *index: int) -> None:
        self._seeds, self._state = EpisodeSeeds(seed, name, *index), np.zeros(WORDS, np.uint64)
        self._generator = self.new(0)
        self._words, self._rest = memory_of(self._generator)

    def at(self, episode: int) -> np.random.Generator:
        """Return the generator for an episode; the one that was returned before is the same and has moved, too."""
        if episode >> _BITS or not knows_numpy():
            return self.new(episode)
        self._seeds.compute(episode, self._state)
        self._words[:], self._rest[:] = self._state[:-1], self._state[-1:]
        return self._generator

    def new(self, episode: int) -> np.random.Generator:
        """Return a generator of its own for an episode."""
        return stream(*self._seeds.name, episode)


def _parts(number: int) -> list[int]:
    """Return a number in parts of 32 bits, the lowest first, as NumPy's ``SeedSequence`` splits it."""
    return [(number >> place) & 0xFFFFFFFF for place in range(0, max(number.bit_length(), 1), _BITS)]


@cache
def knows_numpy() -> bool:
    """Return whether this NumPy seeds its generators as this module does, and keeps their states where it looks."""
    words, name = np.zeros(WORDS, np.uint64), (2**40 + 3, "layout", 5)
    EpisodeSeeds(*name).compute(7, words)
    return state_of(words) == stream(*name, 7).bit_generator.state
