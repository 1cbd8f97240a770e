"""Observations whose differences float32 does not keep, such as seconds since 1970."""

from collections.abc import Callable

import numpy as np

_OFFSET = 1e3
"""A number is an offset with small differences if it is so many times as large as its range."""

_NOISE = 1e-12
"""Differences that are smaller than this share of a number are errors of rounding."""

_WHOLE, _FEW_STEPS = 2.0**24, 16
"""float32 does not hold every integer beyond; numbers there that take so few of its steps may have lost differences."""


class LostDigits:
    """Looks at consecutive observations for numbers that differ, but are equal in float32.

    Args:
        size: numbers of an observation.
        most: observations to look at.
    """

    def __init__(self, size: int, most: int = 1000) -> None:
        self.left = most
        self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        self._changed, self._lost = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._before, self._is_float32 = np.full(size, np.nan), np.ones(size, np.bool_)

    def look(self, values: np.ndarray) -> None:
        """Take the next observation, float64[size]."""
        self.left -= 1
        np.minimum(self._low, values, out=self._low)
        np.maximum(self._high, values, out=self._high)
        with np.errstate(over="ignore"):
            stored, before = values.astype(np.float32), self._before.astype(np.float32)
        differs = (values != self._before) & ~np.isnan(self._before)
        self._changed += differs
        self._lost += differs & (stored == before)
        self._is_float32 &= stored == values
        self._before[:] = values

    def sentence(self, name_of: Callable[[int], str]) -> str:
        """Return a sentence about the first number that loses its differences; empty if none does.

        ``name_of`` returns what the number at an index is called.
        """
        largest, width = np.maximum(np.abs(self._low), np.abs(self._high)), self._high - self._low
        offset = (largest > _OFFSET * width) & (largest < np.finfo(np.float32).max)
        steps = np.spacing(np.where(offset, largest, 1.0).astype(np.float32))
        lost = offset & (width > _NOISE * largest) & (2 * self._lost >= np.maximum(self._changed, 1))
        coarse = offset & self._is_float32 & (largest > _WHOLE) & (width <= _FEW_STEPS * steps)
        if not (lost | coarse).any():
            return ""
        at = int((lost if lost.any() else coarse).argmax())
        return (
            f"{name_of(at)} is around {largest[at]:.12g}, where float32 keeps only steps of {steps[at]:g}: smaller "
            "differences are lost; subtract an offset from it, such as its value at the beginning of the episode."
        )
