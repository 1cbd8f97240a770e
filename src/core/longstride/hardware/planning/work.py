"""Work of an update: arithmetic, memory traffic, launches, transfers."""

from collections.abc import Sequence
from dataclasses import dataclass

from longstride.hardware.operations import Need


@dataclass(frozen=True)
class Work:
    """Work of an update."""

    operations: Sequence[tuple[float, Need]]  # what the card runs, and how often each
    launches: int  # by the host
    steps: int  # of the optimiser
    transfers: int  # bytes over the bus
    replayed: int = 0  # operations of graphs, which the host does not launch one by one

    @property
    def flops(self) -> int:
        """Floating-point operations of matrix products in the planned precision."""
        return round(sum(times * need.flops for times, need in self.operations))

    @property
    def wide_flops(self) -> int:
        """Floating-point operations in float32, of the heads and of the values before the update."""
        return round(sum(times * need.wide_flops for times, need in self.operations))

    @property
    def traffic(self) -> int:
        """Bytes that operations read and write in the card's memory."""
        return round(sum(times * need.traffic for times, need in self.operations))

    def shared(self, cards: int) -> "Work":
        """Return the work of each of some cards that share the samples: as many operations, each on fewer."""
        operations = [(times, Need(*(number / cards for number in need))) for times, need in self.operations]
        return Work(operations, self.launches, self.steps, self.transfers // cards, self.replayed)

    def as_json(self) -> dict[str, int]:
        """Return the sums as JSON values."""
        names = ("flops", "wide_flops", "traffic", "launches", "steps", "transfers", "replayed")
        return {name: getattr(self, name) for name in names}
