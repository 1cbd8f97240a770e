"""Counter-based random numbers: every case has its own stream.

A case's arrivals, branches and service times are functions of the episode's seed and the case, not of the order in
which a policy serves cases. So two policies on the same seed see the same cases with the same random numbers (common
random numbers), which makes their comparison far more precise. A stream is a uint64 state. The generator is SplitMix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@njit(nogil=True)
def mix(z):  # type: ignore[no-untyped-def]
    """Return the scrambled bits of a uint64 (the finaliser of SplitMix64)."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(nogil=True)
def advance(stream):  # type: ignore[no-untyped-def]
    """Return the stream's next state."""
    return stream + _GOLDEN


@njit(nogil=True)
def uniform(stream):  # type: ignore[no-untyped-def]
    """Return the float64 in [0, 1) of a stream's current state, with 53 random bits."""
    return np.float64(mix(stream) >> _S11) * 2.0**-53


@njit(nogil=True)
def child(stream, index):  # type: ignore[no-untyped-def]
    """Return an independent stream for a non-negative integer."""
    return mix(mix(stream) + np.uint64(index) * _GOLDEN)
