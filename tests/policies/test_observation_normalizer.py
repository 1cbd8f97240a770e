"""Running statistics against NumPy over everything seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.policies.observation_normalizer import RunningStatistics, statistics_of


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_merged_batches_equal_all_at_once(lengths, seed):
    rng = np.random.default_rng(seed)
    scale, shift = np.array([1.0, 1e3, 1e-2]), np.array([0.0, 5e4, -3.0])
    batches = [(rng.normal(size=(n, 3)) * scale + shift).astype(np.float32) for n in lengths]
    statistics = RunningStatistics.empty(3)
    for batch in batches:
        statistics.update(batch)
    everything = np.concatenate(batches).astype(np.float64)
    assert statistics.count[0] == len(everything)
    np.testing.assert_allclose(statistics.mean, everything.mean(axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        statistics.squares, everything.var(axis=0) * len(everything), rtol=1e-6, atol=1e-9 * len(everything)
    )


def test_shift_and_scale_by_hand():
    """Column 1, 3, 5: mean 3, variance 8/3. A constant column is shifted and not scaled."""
    statistics = RunningStatistics.empty(2)
    statistics.update(np.array([[1.0, 7.0], [3.0, 7.0]], np.float32))
    statistics.update(np.array([[5.0, 7.0]], np.float32))
    shift, scale = statistics.shift_and_scale()
    np.testing.assert_allclose(shift, [3.0, 7.0], rtol=1e-6)
    np.testing.assert_allclose(scale, [np.sqrt(3 / 8), 1.0], rtol=1e-6)
    assert shift.dtype == scale.dtype == np.float32


def test_indicator_columns_are_left_alone_until_they_hold_something_else():
    statistics = RunningStatistics.empty(3)
    statistics.update(np.array([[0.0, 1.0, 0.5], [1.0, 1.0, 0.0]], np.float32))
    shift, scale = statistics.shift_and_scale()
    assert shift[:2].tolist() == [0.0, 0.0]
    assert scale[:2].tolist() == [1.0, 1.0]
    assert shift[2] == 0.25
    assert scale[2] == 4.0  # standard deviation 1/4
    statistics.update(np.array([[2.0, 1.0, 0.0]], np.float32))
    shift, scale = statistics.shift_and_scale()
    assert shift[0] == 1.0
    assert shift[1] == 0.0


def test_of_many_rows_at_least_8192_evenly_spread_ones_count():
    """40,000 rows: every fourth, 0, 4, ..., 39,996, whose mean is 19,998."""
    statistics = RunningStatistics.empty(1)
    statistics.update(np.arange(40_000, dtype=np.float32)[:, None])
    assert statistics.count[0] == 10_000
    assert statistics.mean[0] == 19_998.0


@pytest.mark.parametrize("shape", [(1, 3), (9_000, 1), (9_000, 17), (62_000, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stride", [1, 7])
def test_statistics_have_the_bits_of_mean_and_variance(shape, dtype, stride):
    """Of numbers whose sums round: from 1e-15 to 1e15."""
    rows = np.exp(np.random.default_rng(3).normal(0.0, 12.0, shape)).astype(dtype)[::stride]
    found = statistics_of(rows)
    assert found.rows == len(rows)
    assert found.mean.tobytes() == rows.mean(axis=0, dtype=np.float64).tobytes()
    assert found.squares.tobytes() == (rows.var(axis=0, dtype=np.float64) * len(rows)).tobytes()


def test_nothing_seen_is_the_identity():
    shift, scale = RunningStatistics.empty(2).shift_and_scale()
    assert shift.tolist() == [0.0, 0.0]
    assert scale.tolist() == [1.0, 1.0]


def test_faded_rows_count_less():
    """Eight rows of -1 and 1 that count as two, then two of 4 and 6: mean 2.5 and squares 2 + 2 + 25 of four rows."""
    statistics = RunningStatistics.empty(1)
    statistics.update(np.array([[-1.0], [1.0]] * 4, np.float32))
    statistics.fade(0.25)
    assert statistics.deviation().tolist() == [1.0]
    statistics.update(np.array([[4.0], [6.0]], np.float32))
    assert [statistics.count[0], statistics.mean[0], statistics.squares[0]] == [4.0, 2.5, 29.0]


def test_some_columns_begin_anew_and_all_count_as_many_rows():
    before, others = RunningStatistics.empty(2), RunningStatistics.empty(2)
    before.update(np.tile([[-100.0, -3.0], [100.0, 3.0]], (500, 1)).astype(np.float32))
    others.update(np.tile([[5.0, -9.0], [9.0, 9.0]], (20, 1)).astype(np.float32))
    before.begin_anew(others, np.array([True, False]))
    np.testing.assert_allclose(before.deviation(), [2.0, 3.0])
    assert (before.mean.tolist(), before.count.tolist()) == ([7.0, 0.0], [40.0])
    others.update(np.full((10, 2), 1e6, np.float32))
    assert (before.mean.tolist(), before.count.tolist()) == ([7.0, 0.0], [40.0]), "they are its own"
