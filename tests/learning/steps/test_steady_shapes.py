"""What stays the same from round to round although rounds differ: the size of a minibatch, where columns lie."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.minibatches import minibatch_shape, split, steady_size
from longstride.rollout.trajectory import allocate_plain


@pytest.mark.parametrize(
    ("size", "largest", "steady"),
    [(1022, 1024, 1024), (993, 1024, 1024), (992, 1024, 992), (31_000, 32_768, 31_744), (7, 64, 8), (5, 20, 5)],
)
def test_the_size_of_a_minibatch_in_steps_of_a_thirty_second(size, largest, steady):
    """1,024 / 32 = 32, and 31 * 32 = 992; 32,768 / 32 = 1,024, and 31 * 1,024 = 31,744; 20 has steps of one."""
    assert steady_size(size, largest) == steady


@given(samples=st.integers(1, 100_000), largest=st.integers(1, 70_000))
def test_no_more_than_a_thirty_second_is_added_and_nothing_beyond_the_largest(samples, largest):
    size = minibatch_shape(samples, largest)[1]
    steady = steady_size(size, largest)
    assert size <= steady <= largest
    assert steady - size <= largest / 32


def test_rounds_of_about_the_same_length_have_one_size():
    sizes = {steady_size(minibatch_shape(samples, 1024)[1], 1024) for samples in range(360_000, 380_000, 97)}
    assert sizes == {1024}


def test_slots_that_are_added_weigh_nothing_and_the_rest_stays():
    indices, weights = split(10, 3, np.random.default_rng(0))
    more, heavier = split(10, 3, np.random.default_rng(0), slots=5)
    np.testing.assert_array_equal(more[:, :3], indices)
    np.testing.assert_array_equal(heavier[:, :3], weights)
    np.testing.assert_array_equal(more[:, 3:], np.repeat(indices[:, :1], 2, axis=1))
    assert not heavier[:, 3:].any()
    assert heavier.dtype == np.float32


def pieces(*sizes):
    rng = np.random.default_rng(sum(sizes))
    return [rng.normal(size=(n, 3)).astype(np.float32) for n in sizes]


def test_columns_that_are_kept_lie_where_they_lay_as_long_as_there_is_room():
    columns = DeviceBuffers(torch.device("cpu"))
    columns.use(keep=True)
    places = []
    for sizes in ((100, 60), (90,), (80, 90), (100, 71), (50,)):  # room for 160 and a sixteenth, 170; then for 181
        arrays = pieces(*sizes)
        found = columns.upload(arrays, "observations")
        np.testing.assert_array_equal(found.numpy(), np.concatenate(arrays))
        places.append((found.data_ptr(), found.untyped_storage().nbytes() // 12))
    assert [rows for _, rows in places] == [170, 170, 170, 181, 181]
    assert len({place for place, _ in places[:3]}) == len({place for place, _ in places[3:]}) == 1
    other = columns.upload(pieces(5), "returns")
    assert other.data_ptr() != places[-1][0]


def test_columns_are_not_kept_without_a_name_or_where_nobody_wants_it():
    columns, array = DeviceBuffers(torch.device("cpu")), allocate_plain((4, 3), np.dtype(np.float32))
    array[:] = pieces(4)[0]
    assert columns.upload([array], "observations").data_ptr() == array.ctypes.data, "shared, not copied"
    columns.use(keep=True)
    assert columns.upload([array]).data_ptr() == array.ctypes.data
    assert columns.upload([array], "observations").data_ptr() != array.ctypes.data
