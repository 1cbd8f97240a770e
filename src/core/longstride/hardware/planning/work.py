"""Work of an update: arithmetic, memory traffic, launches, transfers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """Work of an update."""

    flops: int  # floating-point operations of matrix products in the planned precision
    wide_flops: int  # floating-point operations in float32, of the heads and of the values before the update
    traffic: int  # bytes that operations read and write in the card's memory
    launches: int  # by the host
    steps: int  # of the optimiser
    transfers: int  # bytes over the bus
    replayed: int = 0  # operations of graphs, which the host does not launch one by one
