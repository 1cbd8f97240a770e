"""Records of any size: compiled code reads and writes what Python does, and one kernel serves all sizes."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numba import njit, typeof

from longstride.jit_cache.sized_records import is_sized, layout_of, sized_dtype


def _dtype(n, m):
    return sized_dtype(
        [
            ("few", np.uint8, (3,)),
            ("time", np.float64, ()),
            ("small", np.float32, (n,)),
            ("flag", np.bool_, ()),
            ("table", np.int32, (n, m)),
            ("cube", np.int64, (2, m, n)),
            ("seed", np.uint64, ()),
            ("words", np.uint64, (m,)),
        ]
    )


def _records(n, m, count=2):
    records = np.zeros(count, _dtype(n, m)).view(np.recarray)
    rng = np.random.default_rng(n * m)
    records.view(np.uint8)[:] = rng.integers(0, 2, records.view(np.uint8).shape)
    return records


@njit
def change(records, parameters, i):
    state = records[i]
    state.time += parameters.time + 1
    state.flag = state.time > 2.0
    state.seed = 2**63 + state.seed
    for j in range(len(state.small)):
        state.small[j] = j + parameters.small[len(parameters.small) - 1]
        for k in range(state.table.shape[1]):
            state.table[j, k] += 10 * j + k
    state.cube[1, -1, 0] = state.cube.shape[0] + 10 * state.cube.shape[1] + 100 * state.cube.shape[2]
    state.words[0] = len(state.words)
    state.few[:] = 7
    return state.table.sum() + state.cube[1].sum()


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 2), (2, 9), (40, 33)])
def test_compiled_code_does_what_python_does(n, m):
    for index in (0, 1):
        one, other, parameters = _records(n, m), _records(n, m), _records(n + 1, m + 3, 1)[0]
        assert change(one, parameters, index) == change.py_func(other, parameters, index)
        assert one.tobytes() == other.tobytes()


def test_one_kernel_serves_all_sizes():
    for n in range(1, 6):
        change(_records(n, 3), _records(2, n, 1)[0], 0)
    assert len(change.overloads) == 1
    assert typeof(_records(2, 3)) == typeof(_records(7, 1))
    assert typeof(_records(2, 3)[0]) == typeof(_records(7, 1)[1])


def test_other_fields_are_another_type():
    fields = [("time", np.float64, ()), ("small", np.float32, (3,))]
    kinds = [np.float64, np.float32, np.int64]
    dtypes = [sized_dtype([*fields, ("more", kind, shape)]) for kind in kinds for shape in ((), (3,), (3, 3))]
    assert len({typeof(np.zeros(1, dtype)) for dtype in dtypes}) == len(dtypes)
    assert len({str(typeof(np.zeros(1, dtype)[0])) for dtype in dtypes}) == len(dtypes)


@njit
def copy(found, i, k, state):
    found[i, k] = state


@njit
def copy_row(records, to, i):
    records[to] = records[i]


def test_records_are_copied():
    records, found = _records(3, 4, 6), np.zeros((4, 2), _dtype(3, 4))
    copy(found, 2, 1, records[3])
    assert found[2, 1].tobytes() == records[3].tobytes()
    assert not found.view(np.uint8).reshape(8, -1)[[0, 1, 2, 3, 4, 6, 7]].any()
    last = records[5].copy()
    copy_row(records, 0, -1)
    assert records[0].tobytes() == last.tobytes()


def test_views_and_strides():
    records, expected = _records(3, 4, 6), _records(3, 4, 6)
    parameters = records[1].copy()
    change(records[::2][1:], parameters, 0)
    change.py_func(expected, parameters, 2)
    assert records.tobytes() == expected.tobytes()


def test_numbers_come_first_and_the_mark_takes_no_room():
    dtype = _dtype(5, 2)
    assert is_sized(dtype)
    assert not is_sized(np.dtype([("time", float)]))
    assert dtype.names[1:4] == ("time", "flag", "seed")
    assert [dtype.fields[name][1] for name in dtype.names[1:4]] == [0, 8, 9]
    assert dtype.itemsize == 3 + 8 + 5 * 4 + 1 + 10 * 4 + 20 * 8 + 8 + 2 * 8
    assert layout_of(dtype).table[0] == dtype.itemsize


def test_a_copy_of_a_dtype_has_the_same_layout():
    for _ in range(3000):  # new addresses, more than are kept
        same = pickle.loads(pickle.dumps(_dtype(5, 2)))
        assert layout_of(same).table is layout_of(_dtype(5, 2)).table


_CHILD = """
import numpy as np
from longstride.jit_cache.cache import CACHE_STATS, cached
from longstride.jit_cache.sized_records import sized_dtype
from kernels import total
record = np.ones(1, sized_dtype([("n", np.int64, ()), ("x", np.float64, ({size},))]))
print(total(record[0]), CACHE_STATS.loaded, CACHE_STATS.compiled)
"""


def test_the_kept_kernel_serves_another_process_with_another_size(tmp_path):
    (tmp_path / "kernels.py").write_text(
        "from numba import njit\nfrom longstride.jit_cache.cache import cached\n\n\n"
        "@cached\n@njit\ndef total(record):\n    return record.x.sum() + 100 * record.n\n"
    )
    environment = os.environ | {"LONGSTRIDE_KERNEL_CACHE": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    said = [
        subprocess.run(
            [sys.executable, "-c", _CHILD.format(size=size)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for size in (3, 8)
    ]
    assert said == [["103.0", "0", "1"], ["108.0", "1", "0"]]


def test_an_unknown_field_is_named():
    @njit
    def wrong(record):
        return record.colour

    with pytest.raises(Exception, match="colour"):
        wrong(_records(1, 1, 1)[0])


def test_indices_are_checked_on_request():
    @njit(boundscheck=True)
    def read(record, i):
        return record.small[i]

    record = _records(3, 4, 1)[0]
    assert read(record, -1) == record.small[2]
    with pytest.raises(IndexError):
        read(record, 3)
