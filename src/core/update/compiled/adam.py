"""Clipping and Adam (Kingma and Ba, 2015) over the flat arrays of parameters, gradients and moments."""

import math

import numpy as np
from numba import njit

BETAS = 0.9, 0.999
_BETA2 = np.float32(BETAS[1])
_REST1, _REST2 = np.float32(1.0 - BETAS[0]), np.float32(1.0 - BETAS[1])


@njit(nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _norm(gradient):  # type: ignore[no-untyped-def]
    """Return the norm; it is finite only if all numbers are, which reassociation does not change."""
    total = 0.0
    for g in gradient:
        total += np.float64(g) * np.float64(g)
    return math.sqrt(total)


@njit(nogil=True)
def clip_and_step(flat, gradient, moments, ranges, rates, epsilons, steps, max_norm, loss):  # type: ignore[no-untyped-def]
    """Step, unless the loss or a norm is not finite.

    Args:
        flat: float32[*], changed in place.
        gradient: float32, of the shape of ``flat``.
        moments: float32[2, *], first and second, changed in place.
        ranges: int64[2, 2], where actor and critic begin and end.
        rates: float64[2], their learning rates.
        epsilons: float64[2], of their Adam.
        steps: taken before this one.
        max_norm: the gradients of each are clipped to this norm, as by ``torch.nn.utils.clip_grad_norm_``.
        loss: of the minibatch.

    Returns:
        bool, whether the step was taken.
    """
    norms = _norm(gradient[ranges[0, 0] : ranges[0, 1]]), _norm(gradient[ranges[1, 0] : ranges[1, 1]])
    if not (math.isfinite(np.float32(loss)) and math.isfinite(norms[0]) and math.isfinite(norms[1])):
        return False
    root = np.float32(math.sqrt(1.0 - BETAS[1] ** (steps + 1)))
    for part in range(2):
        scale = np.float32(min(1.0, max_norm / (norms[part] + 1e-6)))
        rate = np.float32(rates[part] / (1.0 - BETAS[0] ** (steps + 1)))
        begin, end = ranges[part, 0], ranges[part, 1]
        state = flat[begin:end], gradient[begin:end], moments[0, begin:end], moments[1, begin:end]
        _adam(*state, scale, rate, root, np.float32(epsilons[part]))
    return True


@njit(nogil=True)
def _adam(values, gradient, first, second, scale, rate, root, epsilon):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        g = gradient[i] * scale
        first[i] += (g - first[i]) * _REST1
        second[i] = second[i] * _BETA2 + g * g * _REST2
        values[i] -= rate * first[i] / (np.sqrt(second[i]) / root + epsilon)
