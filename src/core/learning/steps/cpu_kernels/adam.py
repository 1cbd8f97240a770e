"""Clipping and Adam (Kingma and Ba, 2015) over flat arrays of parameters, gradients and moments."""

import math

import numpy as np
from numba import njit

from core.jit_cache.cache import cached

BETAS = 0.9, 0.999
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
    """Take a step.

    Args:
        values: float32[n], parameters, changed in place.
        gradient: float32[n], gradient before clipping.
        first: float32[n], first moments, changed in place.
        second: float32[n], second moments, changed in place.
        scale: factor of the gradient, from :func:`clipping`.
        rate: learning rate with its correction from :func:`corrections`.
        root: correction of the root of the second moments, from :func:`corrections`.
        epsilon: epsilon of the denominator.
    """
    scale, rate, root, epsilon = np.float32(scale), np.float32(rate), np.float32(root), np.float32(epsilon)
    for i in range(len(values)):
        g = gradient[i] * scale
        first[i] += (g - first[i]) * _REST1
        second[i] = second[i] * _BETA2 + g * g * _REST2
        values[i] -= rate * first[i] / (np.sqrt(second[i]) / root + epsilon)


def clipping(length: float, longest: float) -> float:
    """Return the factor that ``torch.nn.utils.clip_grad_norm_`` applies to a gradient of that norm."""
    return min(1.0, longest / (length + 1e-6))


def corrections(steps: int) -> tuple[float, float]:
    """Return the divisors of the learning rate and of the second moments' root after so many steps."""
    return 1.0 - BETAS[0] ** steps, math.sqrt(1.0 - BETAS[1] ** steps)
