"""The first state of NumPy's PCG64 for a seed of several numbers, computed in a microsecond.

:func:`longstride.seeding.stream` makes the same generators in 14 µs. Formulas: O'Neill, "Developing a seed_seq
alternative", 2015, and "PCG", 2014, as NumPy has them in ``SeedSequence`` and ``PCG64``. Numbers of 32 bits are kept in
words of 64, so that products fit.
"""

import numpy as np
from numba import njit

_LOW = np.uint64(0xFFFFFFFF)
_HALF, _SHIFT = np.uint64(32), np.uint64(16)
_POOL = 4
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_L, _MIX_R, _CARRY = np.uint64(0xCA01F9DD), np.uint64(0x4973F715), np.uint64(1 << 32)
_MULTIPLIER = np.array([0x9FCCF645, 0x4385DF64, 0x1FC65DA4, 0x2360ED05], np.uint64)
"""Multiplier of PCG64, 32 bits in each, the lowest first."""


@njit(nogil=True)
def seed_words(entropy, words):  # type: ignore[no-untyped-def]
    """Write the state of ``PCG64(SeedSequence(numbers))`` into uint64[4] ``words``.

    The numbers are uint64[n] ``entropy``, 32 bits in each, as ``SeedSequence`` splits integers up.
    """
    pool, constant = np.zeros(_POOL, np.uint64), _INIT_A
    for i in range(_POOL):
        pool[i], constant = _hashed(entropy[i] if i < len(entropy) else np.uint64(0), constant)
    for source in range(_POOL):
        for i in range(_POOL):
            if i != source:
                value, constant = _hashed(pool[source], constant)
                pool[i] = _mixed(pool[i], value)
    for source in range(_POOL, len(entropy)):
        for i in range(_POOL):
            value, constant = _hashed(entropy[source], constant)
            pool[i] = _mixed(pool[i], value)
    seeds, constant = np.zeros(2 * _POOL, np.uint64), _INIT_B
    for i in range(2 * _POOL):
        value = pool[i % _POOL] ^ constant
        constant = (constant * _MULT_B) & _LOW
        value = (value * constant) & _LOW
        seeds[i] = value ^ (value >> _SHIFT)
    _begin(seeds, words)


@njit(nogil=True)
def _hashed(value, constant):  # type: ignore[no-untyped-def]
    """Return a hash of a number, and the constant of the next one."""
    following = (constant * _MULT_A) & _LOW
    value = ((value ^ constant) * following) & _LOW
    return value ^ (value >> _SHIFT), following


@njit(nogil=True)
def _mixed(x, y):  # type: ignore[no-untyped-def]
    result = (((_MIX_L * x) & _LOW) + _CARRY - ((_MIX_R * y) & _LOW)) & _LOW
    return result ^ (result >> _SHIFT)


@njit(nogil=True)
def _begin(seeds, words):  # type: ignore[no-untyped-def]
    """Write state and increment of a PCG64, given 8 numbers of 32 bits: an initial state and a sequence of 128 bits."""
    state, increment = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    for i in range(4):  # the lowest first; the increment is twice the sequence, plus 1
        place = (2, 3, 0, 1)[i]
        state[i], increment[i] = seeds[place], seeds[4 + place]
    carry = np.uint64(1)
    for i in range(4):
        doubled = (increment[i] << np.uint64(1)) | carry
        increment[i], carry = doubled & _LOW, doubled >> _HALF
    _add(state, increment)
    product = np.zeros(4, np.uint64)
    for i in range(4):
        carry = np.uint64(0)
        for j in range(4 - i):
            part = state[i] * _MULTIPLIER[j] + product[i + j] + carry
            product[i + j], carry = part & _LOW, part >> _HALF
    _add(product, increment)
    for i in range(2):
        words[i] = product[2 * i] | (product[2 * i + 1] << _HALF)
        words[2 + i] = increment[2 * i] | (increment[2 * i + 1] << _HALF)


@njit(nogil=True)
def _add(number, other):  # type: ignore[no-untyped-def]
    """Add a number of 128 bits to another one, both uint64[4] of 32 bits each."""
    carry = np.uint64(0)
    for i in range(4):
        total = number[i] + other[i] + carry
        number[i], carry = total & _LOW, total >> _HALF
