"""Arrays of the host as tensors of the CPU: shared where a matrix product rounds as always, copied elsewhere."""

import numpy as np
import pytest
import torch

from longstride.learning.device_transfer import host_allocator, upload
from longstride.rollout.trajectory import ALIGNMENT, allocate_plain

CPU = torch.device("cpu")


def misplaced(rows: int, columns: int, offset: int) -> np.ndarray:
    """float32[rows, columns] that begins ``offset`` bytes after a multiple of the alignment."""
    memory = allocate_plain((4 * rows * columns + ALIGNMENT,), np.dtype(np.uint8))
    array = memory[offset : offset + 4 * rows * columns].view(np.float32).reshape(rows, columns)
    array[:] = np.random.default_rng(0).normal(size=(rows, columns))
    return array


@pytest.mark.parametrize("new", [allocate_plain, host_allocator(False)], ids=["plain", "host"])
def test_memory_begins_at_a_multiple_of_the_alignment(new):
    arrays = [new(shape, np.dtype(kind)) for shape in [(3, 5), (7,), (0, 4), ()] for kind in ("f4", "f8", "i8", "?")]
    assert [a.ctypes.data % ALIGNMENT for a in arrays if a.size] == [0] * 12
    assert [a.shape for a in arrays[::4]] == [(3, 5), (7,), (0, 4), ()]
    assert [a.dtype.str[1:] for a in arrays[:4]] == ["f4", "f8", "i8", "b1"]
    assert all(a.flags.c_contiguous and a.flags.writeable for a in arrays)


def test_an_aligned_array_is_shared():
    array = misplaced(6, 4, 0)
    assert upload([array], CPU).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("offset", [4, 16, 32, 60])
def test_another_array_is_copied_to_where_a_product_rounds_as_always(offset):
    array = misplaced(37, 19, offset)
    tensor = upload([array], CPU)
    assert tensor.data_ptr() % ALIGNMENT == 0
    np.testing.assert_array_equal(tensor.numpy(), array)
    weight = torch.from_numpy(misplaced(64, 19, 0))
    at_home = torch.from_numpy(misplaced(37, 19, 0))
    assert torch.equal(torch.nn.functional.linear(tensor, weight), torch.nn.functional.linear(at_home, weight))


def test_pieces_are_joined_in_memory_of_their_own():
    pieces = [misplaced(5, 3, 16), misplaced(4, 3, 4)]
    joined = upload(pieces, CPU)
    assert joined.data_ptr() % ALIGNMENT == 0
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(pieces))
