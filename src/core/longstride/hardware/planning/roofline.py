"""Predicted time of an update on a card: the sum over its operations, each of which one resource binds.

For each operation that is the roofline of Williams et al. ("Roofline", 2009): the larger of its arithmetic and its
traffic, and no operation is shorter than :data:`REPLAY_SECONDS`. A datasheet's peaks are never reached, so a prediction
is a lower bound where arithmetic or traffic binds. Where launches bind, it is only as good as :data:`LAUNCH_SECONDS`.
"""

from collections.abc import Iterable

from longstride.hardware.operations import Need
from longstride.hardware.planning.gpu_catalog import Card
from longstride.hardware.planning.work import Work
from longstride.hardware.types import Precision

LAUNCH_SECONDS = 15e-6
"""Time in which the host starts an operation of an eager step. Hosts differ: beside an H200, in a virtual machine, it
was 16 to 50 us, and 11 where an operation was the smallest there is (2026-11-27)."""

BUS_BYTES_PER_SECOND, FASTER_BUS = 20e9, 40e9
"""Bandwidth of pinned copies to a card over 16 lanes of PCIe 4.0, and of PCIe 5.0 where the card has it: assumptions,
two thirds of the nominal ones. An H200 moved 54 GB/s (2026-11-27)."""

REPLAY_SECONDS = 2e-6
"""Shortest time of an operation on a card, replayed from a graph or not. On an H200 the smallest there is took 1.1 us,
one of a step of 1,024 samples 1.4, as two networks compute at once (2026-11-27)."""


def seconds(work: Work, card: Card, precision: Precision, tf32: bool) -> dict[str, float]:
    """Return the time that each resource would need alone, and the time of all of them.

    The resources are ``arithmetic``, ``traffic``, ``launches`` and ``transfers``. ``operations`` is the time from the
    first operation to the last: the card runs one after the other, while the host launches the next ones. Transfers
    come before and after.
    """
    peak, wide = _peaks(card, precision, tf32)
    host = work.launches * LAUNCH_SECONDS
    return {
        "arithmetic": work.flops / peak + work.wide_flops / wide,
        "traffic": work.traffic / (card.bandwidth * 1e9),
        "launches": host + work.replayed * REPLAY_SECONDS,
        "transfers": work.transfers / bus_bytes_per_second(card),
        "operations": max(host, card_seconds(work.operations, card, precision, tf32)),
    }


def card_seconds(operations: Iterable[tuple[float, Need]], card: Card, precision: Precision, tf32: bool) -> float:
    """Return the time in which a card runs operations, given how often each occurs."""
    (peak, wide), bandwidth = _peaks(card, precision, tf32), card.bandwidth * 1e9
    return sum(
        times * max(REPLAY_SECONDS, need.flops / peak + need.wide_flops / wide, need.traffic / bandwidth)
        for times, need in operations
    )


def _peaks(card: Card, precision: Precision, tf32: bool) -> tuple[float, float]:
    """Return the floating-point operations a second in the planned precision, and in float32."""
    wide = (card.tf32 if tf32 else None) or card.fp32
    peak = {"bf16": card.bf16, "fp16": card.fp16, "fp32": wide}[precision] or wide
    return peak * 1e12, wide * 1e12


def bus_bytes_per_second(card: Card) -> float:
    """Return the assumed bandwidth of pinned copies to a card."""
    return FASTER_BUS if card.capability >= (9, 0) else BUS_BYTES_PER_SECOND


def binding(times: dict[str, float]) -> str:
    """Return which of arithmetic, traffic and launches takes longest."""
    return max(("arithmetic", "traffic", "launches"), key=times.__getitem__)


def update_seconds(times: dict[str, float]) -> float:
    """Return the predicted time of the update."""
    return times["operations"] + times["transfers"]
