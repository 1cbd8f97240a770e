"""Costs of operations, each of its own: a card runs one after another, so that their times add up."""

from collections.abc import Iterable
from typing import NamedTuple


class Amount(NamedTuple):
    """A number that grows with the rows of a minibatch: so many for each row, and so many at any size."""

    per_row: float = 0.0
    fixed: float = 0

    def of(self, rows: float) -> int:
        """Return the number for some rows."""
        return round(self.per_row * rows + self.fixed)

    def plus(self, other: "Amount", times: float = 1) -> "Amount":
        """Return this and some times another one."""
        return Amount(self.per_row + times * other.per_row, self.fixed + times * other.fixed)


class Cost(NamedTuple):
    """What an operation computes, reads and writes, by the rows."""

    flops: Amount = Amount()  # floating-point operations of a product in the planned precision
    wide_flops: Amount = Amount()  # of a product in float32, if the planned one is less
    traffic: Amount = Amount()  # bytes of arguments and results


class Need(NamedTuple):
    """The numbers of :class:`Cost` for some rows."""

    flops: float = 0.0
    wide_flops: float = 0.0
    traffic: float = 0.0


class Operations(NamedTuple):
    """Operations: how often each cost occurs. A number below 0 takes such costs away."""

    counts: tuple[tuple[float, Cost], ...] = ()

    @classmethod
    def of(cls, costs: Iterable[Cost]) -> "Operations":
        """Return some operations; equal ones are counted together."""
        found: dict[Cost, float] = {}
        for cost in costs:
            found[cost] = found.get(cost, 0) + 1
        return cls(tuple((times, cost) for cost, times in found.items()))

    @property
    def launches(self) -> int:
        """Number of operations."""
        return round(sum(times for times, _ in self.counts))

    @property
    def sums(self) -> Cost:
        """What all of them compute, read and write."""
        sums = Cost()
        for times, cost in self.counts:
            sums = Cost(*(a.plus(b, times) for a, b in zip(sums, cost, strict=True)))
        return sums

    def plus(self, other: "Operations", times: float = 1) -> "Operations":
        """Return these and some times others."""
        return Operations((*self.counts, *((times * n, cost) for n, cost in other.counts)))

    def at(self, rows: float, times: float = 1) -> list[tuple[float, Need]]:
        """Return how often each need occurs if all operations run some times with so many rows."""
        return [
            (times * n, Need(*(amount.per_row * rows + amount.fixed for amount in cost))) for n, cost in self.counts
        ]


NO_OPERATIONS = Operations()
