"""Action spaces of a simulator."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Discrete:
    """The actions 0 .. n - 1.

    Raises:
        ValueError: n is not a positive integer.
    """

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"Discrete(n) needs a positive integer, not {self.n!r}.")
