"""Generators as rows of addresses, against the generators themselves."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from longstride.rollout.streams.generator_addresses import as_generator, rows_of


def pairs(count, kind=np.random.PCG64):
    """Return generators of some instances, each in a state of its own."""
    return [tuple(np.random.Generator(kind(2 * i + k)) for k in range(2)) for i in range(count)]


@njit(nogil=True)
def draw(rng, drawn):
    """Draw in all the ways that simulators draw."""
    drawn[0], drawn[1], drawn[2] = rng.random(), rng.standard_normal(), rng.exponential(3.0)
    drawn[3], drawn[4] = rng.integers(0, 10), rng.gamma(2.0, 0.5)
    drawn[5] = rng.random(3).sum()  # which makes an array


@njit(nogil=True)
def draw_all(rows, drawn):
    """Draw for each instance from both generators."""
    for i in range(len(drawn)):
        draw(as_generator(rows.simulator[i]), drawn[i, 0])
        draw(as_generator(rows.policy[i]), drawn[i, 1])


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox])
def test_draws_and_states_are_those_of_the_generators(kind):
    given, expected, drawn = pairs(3, kind), pairs(3, kind), np.zeros((3, 2, 6))
    draw_all(rows_of(given), drawn)
    numbers = np.zeros(6)
    for i, own in enumerate(expected):
        for k, generator in enumerate(own):
            draw(generator, numbers)
            np.testing.assert_array_equal(drawn[i, k], numbers)
            if kind is not np.random.Philox:  # its state has arrays
                assert given[i][k].bit_generator.state == generator.bit_generator.state


def test_no_reference_is_kept():
    given, drawn = pairs(2), np.zeros((2, 2, 6))
    rows = rows_of(given)
    draw_all(rows, drawn)
    objects = [drawn, *rows, *(each for pair in given for each in pair)]
    before = list(map(sys.getrefcount, objects))
    for _ in range(100):
        draw_all(rows, drawn)
    assert list(map(sys.getrefcount, objects)) == before


def test_uncompiled_rows_are_the_generators():
    code = (
        "import numpy as np; from longstride.rollout.streams.generator_addresses import as_generator, rows_of; "
        "pair = np.random.default_rng(1), np.random.default_rng(2); rows = rows_of([pair]); "
        "assert as_generator(rows.simulator[0]) is pair[0] and as_generator(rows.policy[0]) is pair[1]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
