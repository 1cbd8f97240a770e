"""Every sample exactly once an epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.learning.minibatches import draw_epochs, minibatch_shape, split


@pytest.mark.parametrize(
    ("samples", "largest", "shape"),
    [
        (62_000, 32_768, (2, 31_000)),
        (62_000, 65_536, (1, 62_000)),
        (62_000, 62_000, (1, 62_000)),
        (62_000, 4096, (16, 3875)),
        (10, 4, (3, 4)),
        (1, 4, (1, 1)),
        (7, 1, (7, 1)),
    ],
)
def test_minibatches_are_as_few_and_as_equal_as_can_be(samples, largest, shape):
    assert minibatch_shape(samples, largest) == shape


@given(st.integers(1, 500), st.integers(1, 600), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_every_sample_is_used_exactly_once_and_padding_weighs_nothing(samples, largest, seed):
    indices, weights = split(samples, largest, np.random.default_rng(seed))
    assert indices.shape == weights.shape == minibatch_shape(samples, largest)
    assert indices.shape[1] <= largest
    used = indices[weights > 0]
    assert np.array_equal(np.sort(used), np.arange(samples)), "each sample once"
    assert ((indices >= 0) & (indices < samples)).all(), "padding points at real samples"
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
    real = (weights > 0).sum(axis=1)
    assert real.max() - real.min() <= 1
    for row, count in zip(weights, real, strict=True):
        np.testing.assert_allclose(row[row > 0], 1.0 / count, rtol=1e-6)
    assert weights.dtype == np.float32


def test_two_epochs_are_shuffled_differently_and_reproducibly():
    rng = np.random.default_rng(3)
    first, second = split(1000, 256, rng)[0], split(1000, 256, rng)[0]
    assert not np.array_equal(first, second)
    assert np.array_equal(first, split(1000, 256, np.random.default_rng(3))[0])
    assert abs(np.corrcoef(first[0], np.arange(250))[0, 1]) < 0.3


def room(epochs, samples, largest, more=0):
    """Return memory for minibatches with some further slots, filled with numbers of no sample."""
    count, size = minibatch_shape(samples, largest)
    return np.full((epochs, count, size + more), -1)


@given(st.integers(1, 300), st.integers(1, 400), st.integers(0, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_epochs_are_dealt_from_one_permutation_each(samples, largest, more, seed):
    """Minibatch m of M takes every M-th sample of the permutation from the m-th on, in every epoch."""
    drawn = draw_epochs(room(3, samples, largest, more), samples, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    assert len(drawn) == 3
    for indices, weights in drawn:
        order = rng.permutation(samples)
        for m, (row, shares) in enumerate(zip(indices, weights, strict=True)):
            dealt = order[m :: len(indices)]
            assert np.array_equal(row[: len(dealt)], dealt)
            assert np.array_equal(shares, [np.float32(1 / len(dealt))] * len(dealt) + [0.0] * (len(row) - len(dealt)))
            assert ((row >= 0) & (row < samples)).all(), "padding points at real samples"


@given(st.integers(1, 300), st.integers(1, 400), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_weights_are_one_array_for_all_epochs_and_updates_of_a_shape(samples, largest, more):
    """A GPU has them already if the very same array comes again."""
    first, second = draw_epochs(room(2, samples, largest, more), samples, np.random.default_rng(0))
    again = draw_epochs(room(1, samples, largest, more), samples, np.random.default_rng(1))[0]
    assert first.weights is second.weights is again.weights
    assert first.weights.dtype == np.float32
    assert first.weights.flags.c_contiguous
    np.testing.assert_allclose(first.weights.sum(axis=1, dtype=np.float64), 1.0, rtol=1e-5)


def test_minibatches_lie_in_the_memory_that_is_given():
    memory = room(3, 100, 40, 2)
    for epoch, drawn in zip(memory, draw_epochs(memory, 100, np.random.default_rng(0)), strict=True):
        assert np.shares_memory(drawn.indices, epoch)
        assert drawn.indices.flags.c_contiguous
        assert drawn.indices.dtype == np.int64


@pytest.mark.parametrize("samples", [100, 101])
def test_further_slots_change_no_sample_and_can_be_left_out(samples):
    """101 samples are 3 minibatches of 34 with one slot of padding, which stays: the minibatches have one shape."""
    plain, padded = (split(samples, 40, np.random.default_rng(3), slots) for slots in (0, 39))
    assert padded.size == 39
    bare = padded.without_padding()
    assert np.array_equal(bare.indices, plain.indices)
    assert np.array_equal(bare.weights, plain.weights)
    assert not padded.weights[:, plain.size :].any()
    assert plain.without_padding() is plain


def test_minibatches_do_not_depend_on_how_many_epochs_are_drawn_at_once():
    at_once, rng = draw_epochs(room(4, 1000, 256), 1000, np.random.default_rng(5)), np.random.default_rng(5)
    for drawn in at_once:
        assert np.array_equal(drawn.indices, split(1000, 256, rng).indices)
