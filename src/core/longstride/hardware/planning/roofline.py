"""Predicted time of an update on a card: arithmetic, memory traffic, launches; the largest of the three binds.

That is the roofline of Williams et al. ("Roofline", 2009). A datasheet's peaks are never reached, so a prediction is a
lower bound where arithmetic or traffic binds. Where launches bind, it is only as good as :data:`LAUNCH_SECONDS`.
"""

from longstride.hardware.planning.gpu_catalog import Card
from longstride.hardware.planning.work import Work
from longstride.hardware.types import Precision

LAUNCH_SECONDS = 15e-6
"""Time in which the host starts an operation of an eager step: an assumption, not measured. Hosts differ by a factor of
a few."""

BUS_BYTES_PER_SECOND, FASTER_BUS = 20e9, 40e9
"""Bandwidth of pinned copies to a card over 16 lanes of PCIe 4.0, and of PCIe 5.0 where the card has it: assumptions,
two thirds of the nominal ones, not measured."""

REPLAY_SECONDS = 2e-6
"""Shortest time of an operation in a replayed graph: an assumption, not measured."""


def seconds(work: Work, card: Card, precision: Precision, tf32: bool) -> dict[str, float]:
    """Return the time that each resource would need alone: ``arithmetic``, ``traffic``, ``launches``, ``transfers``.

    The first three overlap, so the largest of them binds; transfers come before and after.
    """
    wide = (card.tf32 if tf32 else None) or card.fp32
    peak = {"bf16": card.bf16, "fp16": card.fp16, "fp32": wide}[precision] or wide
    return {
        "arithmetic": work.flops / (peak * 1e12) + work.wide_flops / (wide * 1e12),
        "traffic": work.traffic / (card.bandwidth * 1e9),
        "launches": work.launches * LAUNCH_SECONDS + work.replayed * REPLAY_SECONDS,
        "transfers": work.transfers / bus_bytes_per_second(card),
    }


def bus_bytes_per_second(card: Card) -> float:
    """Return the assumed bandwidth of pinned copies to a card."""
    return FASTER_BUS if card.capability >= (9, 0) else BUS_BYTES_PER_SECOND


def binding(times: dict[str, float]) -> str:
    """Return which of arithmetic, traffic and launches takes longest."""
    return max(("arithmetic", "traffic", "launches"), key=times.__getitem__)


def update_seconds(times: dict[str, float]) -> float:
    """Return the predicted time of the update."""
    return times[binding(times)] + times["transfers"]
