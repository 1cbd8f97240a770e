"""Action spaces of a simulator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Discrete:
    """The actions 0 .. n - 1.

    ``step`` receives an integer.

    Raises:
        ValueError: n is not a positive integer.
    """

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"Discrete(n) needs a positive integer, not {self.n!r}.")


@dataclass(frozen=True)
class MultiDiscrete:
    """Several discrete choices at once: choice i is one of 0 .. sizes[i] - 1.

    ``step`` receives int64[len(sizes)]. A mask is the choices' masks one after another, bool[sum(sizes)], and each
    choice needs an allowed value.

    Raises:
        ValueError: sizes is empty or holds something other than positive integers.
    """

    sizes: tuple[int, ...]

    def __init__(self, sizes: Sequence[int]) -> None:
        object.__setattr__(self, "sizes", tuple(sizes))
        if not self.sizes or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.sizes):
            raise ValueError(f"MultiDiscrete(sizes) needs positive integers, not {list(sizes)!r}.")


@dataclass(frozen=True)
class Box:
    """Real vectors with a lower and an upper bound each, infinite ones allowed.

    The policy is a Gaussian with a standard deviation that does not depend on the state. ``step`` receives
    float32[len(low)] within the bounds: a draw beyond them is clipped, and the policy learns from the unclipped one;
    with ``squashed`` the draw goes through tanh onto the bounds instead, and the log-probability is that of the
    squashed distribution. There are no masks.

    Raises:
        ValueError: low and high differ in length or are out of order, or ``squashed`` meets an infinite bound.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    squashed: bool = False

    def __init__(
        self, low: Sequence[float] | np.ndarray, high: Sequence[float] | np.ndarray, squashed: bool = False
    ) -> None:
        for name, values in (("low", low), ("high", high)):
            object.__setattr__(self, name, tuple(float(x) for x in np.atleast_1d(np.asarray(values, np.float64))))
        object.__setattr__(self, "squashed", squashed)
        if not self.low or len(self.low) != len(self.high) or not all(map(float.__lt__, self.low, self.high)):
            raise ValueError(f"Box(low, high) needs as many bounds below as above, each low < high, not {self}.")
        if squashed and not all(map(math.isfinite, self.low + self.high)):
            raise ValueError(f"Box(squashed=True) needs finite bounds, not {self}.")


ActionSpace = Discrete | MultiDiscrete | Box
