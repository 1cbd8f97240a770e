"""Action spaces of a simulator.

Every space has ``choices``, the sizes of its categorical choices (none in a Box); ``outputs``, how many numbers the
actor computes (a logit for each value of each choice, a mean for each real number); ``shape`` and ``dtype`` of an
action in the trajectory; ``in_words``, a description for messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from longstride.simulators.options import as_whole

_WIDEST = 1e6
"""Wider bounds say nothing about usual numbers."""


@dataclass(frozen=True)
class Discrete:
    """The actions 0 .. n - 1; ``step`` receives an integer.

    Attributes:
        n: number of actions, any kind of integer.

    Raises:
        ValueError: n is not a positive integer.
    """

    n: int
    shape: ClassVar[tuple[int, ...]] = ()
    dtype: ClassVar[type[Any]] = np.int64

    def __post_init__(self) -> None:
        n = as_whole(self.n)
        if n is None or n < 1:
            raise ValueError(f"Discrete(n) needs a positive integer, not {self.n!r}.")
        object.__setattr__(self, "n", n)

    @property
    def choices(self) -> tuple[int, ...]:
        """Size of the one choice."""
        return (self.n,)

    @property
    def outputs(self) -> int:
        """Number of logits, one for each action."""
        return self.n

    @property
    def in_words(self) -> str:
        """Description for messages."""
        return f"{self.n} actions"


@dataclass(frozen=True)
class MultiDiscrete:
    """Several discrete choices at once: choice i is one of 0 .. sizes[i] - 1.

    ``step`` receives int64[len(sizes)]. A mask is the choices' masks one after another, bool[sum(sizes)], and each
    choice needs an allowed value.

    Attributes:
        sizes: number of values of each choice.

    Raises:
        ValueError: sizes is empty or holds something other than positive integers.
    """

    sizes: tuple[int, ...]
    dtype: ClassVar[type[Any]] = np.int64

    def __init__(self, sizes: Sequence[int]) -> None:
        whole = tuple(map(as_whole, sizes))
        if not whole or any(n is None or n < 1 for n in whole):
            raise ValueError(f"MultiDiscrete(sizes) needs positive integers, not {list(sizes)!r}.")
        object.__setattr__(self, "sizes", whole)

    @property
    def choices(self) -> tuple[int, ...]:
        """Sizes of the choices."""
        return self.sizes

    @property
    def outputs(self) -> int:
        """Number of logits, one for each value of each choice."""
        return sum(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action, a value of each choice."""
        return (len(self.sizes),)

    @property
    def in_words(self) -> str:
        """Description for messages."""
        return f"actions of {len(self.sizes)} choices ({', '.join(map(str, self.sizes))})"


@dataclass(frozen=True)
class Box:
    """Real vectors with a lower and an upper bound each, which may be infinite; there are no masks.

    The policy is a Gaussian with a standard deviation that does not depend on the state. A draw x becomes the number
    centre + scale x. ``step`` receives float32[len(low)] within the bounds. A number beyond them is clipped, and the
    policy learns from the unclipped draw. With ``squashed`` tanh(x) takes the place of x, so that nothing is beyond
    them, and the log-probability is that of the squashed distribution.

    The centre is the middle of the bounds, a single one, or 0.

    Attributes:
        low: lower bound of each number.
        high: upper bound of each number.
        squashed: True for tanh in place of clipping.
        scale: by how much usual values of each number differ. By default half of the distance of the bounds, and 1
            where that is more than a million.

    Raises:
        ValueError: low and high differ in length or are out of order (as float32), ``squashed`` meets an infinite
            bound or a scale, or a scale is not positive and finite.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    squashed: bool
    scale: tuple[float, ...] | None
    choices: ClassVar[tuple[int, ...]] = ()
    dtype: ClassVar[type[Any]] = np.float32

    def __init__(
        self,
        low: Sequence[float] | np.ndarray,
        high: Sequence[float] | np.ndarray,
        squashed: bool = False,
        scale: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        for name, values in (("low", low), ("high", high), ("scale", scale)):
            given = None if values is None else np.atleast_1d(np.asarray(values, np.float64))
            object.__setattr__(self, name, None if given is None else tuple(given.tolist()))
        object.__setattr__(self, "squashed", squashed)
        if not self.low or len(self.low) != len(self.high) or not (self.bounds[0] < self.bounds[1]).all():
            raise ValueError(f"Box(low, high) needs as many bounds below as above, each low < high, not {self}.")
        if squashed and not np.isfinite(self.bounds).all():
            raise ValueError(f"Box(squashed=True) needs finite bounds, not {self}.")
        named = self.scale
        if named is not None and (squashed or len(named) != len(self.low) or not all(0.0 < x < np.inf for x in named)):
            raise ValueError(
                f"Box(scale=...) needs a positive number for each bound, and no squashed=True, not {self}."
            )

    @property
    def bounds(self) -> np.ndarray:
        """Lower and upper bounds, float32[2, numbers]."""
        with np.errstate(over="ignore"):
            return np.array([self.low, self.high]).astype(np.float32)

    @property
    def scales(self) -> np.ndarray:
        """By how much a draw of 1 changes each number, float64[numbers]: ``scale``, or what it is by default."""
        if self.scale is not None:
            return np.array(self.scale)
        low, high = self.bounds.astype(np.float64)
        half = 0.5 * (high - low)
        return half if self.squashed else np.where(half <= _WIDEST, half, 1.0)

    @property
    def centre(self) -> np.ndarray:
        """Numbers that a draw of 0 becomes, float64[numbers]."""
        low, high = self.bounds.astype(np.float64)
        has_low, has_high = low > -_WIDEST, high < _WIDEST
        both = (has_low & has_high) | self.squashed
        with np.errstate(invalid="ignore"):
            return np.select([both, has_low, has_high], [0.5 * (low + high), low, high], 0.0)

    @property
    def outputs(self) -> int:
        """Number of means, one for each number."""
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action, a number for each pair of bounds."""
        return (len(self.low),)

    @property
    def in_words(self) -> str:
        """Description for messages."""
        return f"actions of {len(self.low)} real numbers"


ActionSpace = Discrete | MultiDiscrete | Box


def description(space: ActionSpace) -> int | str:
    """Return the JSON value in a checkpoint that tells this action space from others."""
    if isinstance(space, Discrete):
        return space.n
    return str(space).replace(", scale=None", "")  # as it was before there were scales
