"""Costs of long chunks from those of two short ones, for families that take one step after the other.

Each step has operations of its own there: counting a chunk of 128 would take seconds. All costs of a chunk grow with
its steps along a line, but for its ends.
"""

from collections.abc import Sequence

from longstride.hardware.operations import Amount, Cost, Operations


class Line:
    """What follows from the costs of two short chunks for one of ``steps`` steps.

    Attributes:
        counted: steps of the short chunks.
    """

    counted = 2, 4

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def total(self, few: Operations, more: Operations) -> Operations:
        """Return the costs of a microbatch of long chunks."""
        begin, end = self.counted
        share = (self._steps - begin) / (end - begin)
        return self._of_long(few, begin).plus(self._of_long(more, end), share).plus(self._of_long(few, begin), -share)

    def _of_long(self, operations: Operations, steps: int) -> Operations:
        """Return operations on chunks of so many steps as costs a row of long ones."""
        ratio = steps / self._steps
        return Operations(
            tuple(
                (times, Cost(*(Amount(ratio * each.per_row, each.fixed) for each in cost)))
                for times, cost in operations.counts
            )
        )

    def peaks(self, few: Sequence[Amount], more: Sequence[Amount]) -> tuple[Amount, ...]:
        """Return what long chunks hold at most."""
        largest = (
            Amount(max(each.per_row for each in peaks), max(each.fixed for each in peaks)) for peaks in (few, more)
        )
        return (self._amount(*largest),)

    def _amount(self, few: Amount, more: Amount) -> Amount:
        per_chunk = (each.per_row * steps for each, steps in zip((few, more), self.counted, strict=True))
        return Amount(self._at(*per_chunk) / self._steps, round(self._at(few.fixed, more.fixed)))

    def _at(self, few: float, more: float) -> float:
        begin, end = self.counted
        return few + (more - few) * (self._steps - begin) / (end - begin)
