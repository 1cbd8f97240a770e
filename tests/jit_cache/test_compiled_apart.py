"""Functions that are compiled apart: results, errors, names, and other processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from longstride.jit_cache.compiled_apart import compiled_apart


@njit
def divide(array, by):
    if by < 0:
        raise ValueError("below zero")
    array[0] += 1.0
    return array[1] / by, by > 2


def made(factor):
    @njit
    def times(array, by):
        return array.sum() * by * factor

    return times


def built_around(function):
    @njit
    def twice(array, by):
        first = function(array, by)
        return first, function(array, by + 1)

    return twice


def test_a_kernel_gets_what_the_function_returns():
    twice = built_around(compiled_apart(divide, (np.ones(2), 3)))
    array = np.array([0.0, 12.0])
    assert twice(array, 2) == ((6.0, False), (4.0, True))
    assert array[0] == 2.0


def test_errors_come_through_and_the_next_call_works():
    twice = built_around(compiled_apart(divide, (np.ones(2), 3)))
    for _ in range(2):
        with pytest.raises(ValueError, match="below zero"):
            twice(np.ones(2), -1)
        with pytest.raises(ZeroDivisionError):
            twice(np.ones(2), 0)
        assert twice(np.ones(2), 1) == ((1.0, False), (0.5, False))


def test_equal_functions_are_compiled_once_and_others_are_not_taken_for_them():
    arguments = np.ones(2), 3
    two, also_two, three = (compiled_apart(made(factor), arguments) for factor in (2.0, 2.0, 3.0))
    assert two is also_two
    assert two.symbol != three.symbol
    assert built_around(two)(np.ones(2), 1) == (4.0, 8.0)
    assert built_around(three)(np.ones(2), 1) == (6.0, 12.0)


def test_other_types_are_another_function():
    whole = compiled_apart(made(2), (np.ones(2, np.int64), 3))
    assert whole.symbol != compiled_apart(made(2), (np.ones(2), 3)).symbol
    assert built_around(whole)(np.ones(2, np.int64), 1) == (4, 8)


def test_a_number_that_is_not_whole_is_not_taken_for_an_integer():
    twice = built_around(compiled_apart(divide, (np.ones(2), 3)))
    assert twice(np.ones(2), np.int32(1)) == ((1.0, False), (0.5, False))
    with pytest.raises(TypingError):
        twice(np.ones(2), 1.5)


def test_what_has_no_name_for_other_processes_stays_as_it_is():
    @njit
    def odd(array, by):
        return array[0] * by

    odd.py_func.__module__ = None
    assert compiled_apart(odd, (np.ones(2), 3)) is odd
    assert compiled_apart(len, ()) is len


_KERNELS = """
import numpy as np
from numba import njit
from longstride.jit_cache.cache import CACHE_STATS, cached
from longstride.jit_cache.compiled_apart import compiled_apart

@njit
def inner(array, by):
    return array.sum() + {number} * by

call = compiled_apart(inner, (np.ones(2), 3))

@cached
@njit
def outer(array, by):
    return call(array, by) * 2.0

if __name__ == "__main__":
    import kernels
    print(kernels.outer(np.ones(2), 3), CACHE_STATS.loaded, CACHE_STATS.compiled)
"""


def test_kept_kernels_call_the_function_in_another_process(tmp_path):
    """A kernel that is loaded calls the function at its address there; a function that changed is compiled with it."""
    environment = os.environ | {"LONGSTRIDE_KERNEL_CACHE": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python takes a file of the same size and second for the same

    def said(number):
        (tmp_path / "kernels.py").write_text(_KERNELS.format(number=number))
        command = [sys.executable, "-c", "import runpy; runpy.run_module('kernels', run_name='__main__')"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    assert said(1)[0] == "10.0"
    assert said(1)[0] == "10.0"
    loaded, compiled = map(int, said(1)[1:])
    assert (loaded > 1, compiled) == (True, 0)
    assert said(7)[0] == "46.0"
