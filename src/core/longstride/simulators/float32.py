"""Numbers that float32, which policies compute with, does not hold."""

from typing import Any

import numpy as np

LARGEST_REWARD = 1e12
"""Squares of returns, sums of thousands of rewards, are summed over a rollout in float32, which ends at 3.4e38."""

_LARGEST = float(np.finfo(np.float32).max)


def write_float32(values: Any, rows: np.ndarray) -> None:
    """Write real numbers into ``rows``, float32[...]; those that are too large become infinite, without a warning."""
    with np.errstate(over="ignore"):
        rows[...] = values


def unfit_number(values: Any, name: str) -> str:
    """Return a clause about the first number that is NaN, infinite or too large for float32; empty if there is none.

    Args:
        values: real numbers of any shape, as they were before they became float32.
        name: what they are called; the place in them follows in brackets.
    """
    numbers = np.asarray(values, np.float64)
    unfit = ~(np.abs(numbers) <= _LARGEST)
    if not unfit.any():
        return ""
    index = np.unravel_index(int(unfit.argmax()), numbers.shape)
    place = f"[{', '.join(map(str, index))}]" if index else ""
    clause = f"{name}{place} is {numbers[index]:g}"
    too_large = f", which is too large for float32 (at most {_LARGEST:.2g}); scale it or clip it"
    return clause + (too_large if np.isfinite(numbers[index]) else "; numbers must be finite")
