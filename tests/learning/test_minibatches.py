"""Every sample exactly once an epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.learning.minibatches import minibatch_shape, split


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
