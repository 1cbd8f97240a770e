"""Calls that skip Numba's look at types give what ordinary calls give."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from longstride.jit_cache.direct_calls import DirectCalls


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@njit
def weighed(pair, rng, factor):
    total = 0.0
    for i in range(len(pair.first)):
        total += (i + 1) * pair.first[i] * pair.second[i]
    return total * factor + rng.random()


def test_every_layout_has_its_own_code():
    """Strided arrays in the code for contiguous ones would read the wrong numbers."""
    direct, plain = DirectCalls(weighed), weighed.py_func
    whole = np.arange(20.0)
    frozen = whole[:10].copy()
    frozen.flags.writeable = False
    pairs = [
        Pair(whole[:10], whole[10:]),
        Pair(whole[::2], whole[10:]),
        Pair(whole[:10], whole[::-2]),
        Pair(frozen, frozen),
    ]
    for _ in range(3):
        for pair in pairs:
            given = direct(pair, np.random.default_rng(1), 2.0)
            assert given == plain(pair, np.random.default_rng(1), 2.0)
    assert len(weighed.overloads) == 4


def test_a_plain_function_is_called():
    assert DirectCalls(lambda array, factor: array.sum() * factor)(np.ones(3), 2) == 6.0


def test_an_error_in_the_function_comes_through_and_the_next_call_works():
    @njit
    def checked(array):
        if array[0] < 0:
            raise ValueError("below zero")
        return array[0]

    direct = DirectCalls(checked)
    for _ in range(3):
        assert direct(np.ones(1)) == 1.0
        with pytest.raises(ValueError, match="below zero"):
            direct(-np.ones(1))
