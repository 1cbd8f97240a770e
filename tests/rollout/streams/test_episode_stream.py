"""The streams of episodes are those of NumPy's own generators, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.rollout.streams import episode_stream
from longstride.rollout.streams.episode_stream import EpisodeSeeds, EpisodeStream, EpisodeStreams, knows_numpy
from longstride.rollout.streams.seed_words import seed_words
from longstride.rollout.streams.swapped_generator import WORDS, state_of
from longstride.seeding import stream

parts = st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31, 2**32 - 1])
seeds = st.integers(0, 2**70) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64])


@settings(max_examples=300, deadline=None)
@given(st.lists(parts, min_size=1, max_size=9))
def test_states_are_those_that_numpy_seeds(numbers):
    words = np.zeros(WORDS, np.uint64)
    seed_words(np.array(numbers, np.uint64), words[:-1])
    assert state_of(words) == np.random.PCG64(np.random.SeedSequence(numbers)).state


@settings(max_examples=100, deadline=None)
@given(seeds, st.lists(st.integers(0, 2**33), max_size=2), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
def test_episodes_begin_where_those_of_named_streams_do(seed, index, episodes):
    one, words = EpisodeStream(seed, "policy", *index), np.zeros(WORDS, np.uint64)
    for episode in episodes:
        expected = stream(seed, "policy", *index, episode)
        EpisodeSeeds(seed, "policy", *index).write(episode, words)
        assert state_of(words) == expected.bit_generator.state == one.new(episode).bit_generator.state
        generator = one.at(episode)
        assert generator.integers(0, 9, 3, np.uint32).tolist() == expected.integers(0, 9, 3, np.uint32).tolist()
        assert generator.bit_generator.state == expected.bit_generator.state, "half of a word is left"


def test_simulator_and_policy_have_streams_of_their_own():
    streams = EpisodeStreams(3, 1, 7)
    for generators in (streams.at(5), streams.new(5)):
        drawn = [generator.random() for generator in generators]
        assert drawn == [stream(3, "simulator", 1, 5).random(), stream(3, "policy", 7, 5).random()]


def test_a_numpy_that_seeds_otherwise_is_asked_itself(monkeypatch):
    assert knows_numpy()
    monkeypatch.setattr(episode_stream, "_write", lambda numbers, words: words.fill(1))
    assert not knows_numpy.__wrapped__()
    monkeypatch.setattr(episode_stream, "knows_numpy", lambda: False)
    words, expected = np.zeros(WORDS, np.uint64), stream(3, "policy", 4)
    EpisodeSeeds(3, "policy").write(4, words)
    assert state_of(words) == expected.bit_generator.state == EpisodeStream(3, "policy").at(4).bit_generator.state


@pytest.mark.parametrize("number", [2**32, 2**40])
def test_an_episode_beyond_32_bits_is_numpys_too(number):
    assert (
        EpisodeStream(1, "policy", 2).at(number).bit_generator.state
        == stream(1, "policy", 2, number).bit_generator.state
    )
