"""Random allowed actions."""

from typing import Any

import numpy as np

from longstride.simulators.spaces import ActionSpace, Box, Discrete


def random_action(space: ActionSpace, mask: np.ndarray, rng: np.random.Generator) -> Any:
    """Return an allowed action: int, int64[choices] or float32[numbers].

    Values of a choice are equally likely; a real number is uniform between finite bounds, else a standard normal one
    away from the finite bound. ``mask``, bool[n], holds the allowed values of all choices; a Box has none.
    """
    if isinstance(space, Box):
        return np.array([_random_number(low, high, rng) for low, high in space.bounds.T.tolist()], np.float32)
    values = [rng.choice(np.flatnonzero(part)) for part in split_mask(space, mask)]
    return int(values[0]) if isinstance(space, Discrete) else np.array(values, np.int64)


def _random_number(low: float, high: float, rng: np.random.Generator) -> float:
    if np.isfinite(low) and np.isfinite(high):
        return rng.uniform(low, high)
    normal = rng.standard_normal()
    return low + abs(normal) if np.isfinite(low) else high - abs(normal) if np.isfinite(high) else normal


def split_mask(space: ActionSpace, mask: np.ndarray) -> list[np.ndarray]:
    """Return the masks of the choices of a space, bool[size] each, from their concatenation bool[n]."""
    return np.split(mask, np.cumsum(space.choices, dtype=np.int64)[:-1]) if space.choices else []
