"""Clipping and Adam (Kingma and Ba, 2015) over flat arrays of parameters, gradients and moments."""

import math

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached

BETAS = 0.9, 0.999
_TINY, _ZERO = np.finfo(np.float32).tiny, np.float32(0.0)
_BETA2, _REST1, _REST2 = (np.float32(number) for number in (BETAS[1], 1.0 - BETAS[0], 1.0 - BETAS[1]))


@cached
@njit(nogil=True, fastmath={"contract", "reassoc", "nsz"})
def norm(gradient):  # type: ignore[no-untyped-def]
    """Return the norm of a float32 array; it is finite only if all numbers are, which reassociation does not change."""
    total = 0.0
    for g in gradient:
        total += np.float64(g) * np.float64(g)
    return math.sqrt(total)


@cached
@njit(nogil=True, error_model="numpy")  # a check for division by 0 would prevent vectorising
def adam(values, gradient, first, second, scale, rate, root, epsilon):  # type: ignore[no-untyped-def]
    """Take a step; values, gradient before clipping, and moments are float32[n], all but the gradient changed in place.

    The gradient is multiplied by ``scale``. The rate comes divided by the correction of the first moments; ``root`` is
    the correction of the second moments' root, to which epsilon is added then.

    Moments no larger than the least normal number become 0: they are too small to move a parameter. If a gradient stays
    0, like that of a dead unit, its moment would else remain such a number, which takes a processor over a hundred
    cycles in each step.
    """
    scale, rate, root, epsilon = np.float32(scale), np.float32(rate), np.float32(root), np.float32(epsilon)
    for i in range(len(values)):
        g = gradient[i] * scale
        mean, square = first[i] + (g - first[i]) * _REST1, second[i] * _BETA2 + g * g * _REST2
        first[i] = mean if abs(mean) > _TINY else _ZERO
        second[i] = square if square > _TINY else _ZERO
        values[i] -= rate * first[i] / (np.sqrt(second[i]) / root + epsilon)
