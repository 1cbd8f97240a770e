"""Rounding to float32, for the places where Gymnasium computes in it."""

import numpy as np
from numba import njit


@njit(nogil=True)
def rounded(x: float, single: bool) -> float:
    """Return x, rounded to the nearest float32 if ``single``.

    A sum, difference or product of two float32 values that is computed in float64 and then rounded equals the result
    of float32 arithmetic.
    """
    return np.float64(np.float32(x)) if single else np.float64(x)
