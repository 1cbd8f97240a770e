"""Efficiency of updates: counted work over measured seconds, beside the card's peaks."""

from typing import NamedTuple

from core.hardware.planning import roofline
from core.hardware.planning.gpu_catalog import MODEL_FLOPS_UTILISATION, Card
from core.hardware.types import Precision


class Achieved(NamedTuple):
    """Rates that an update achieved; None where the card's figures are not known, and on the CPU."""

    update_flops_per_second: float  # floating-point operations of matrix products a second
    # bytes that operations read and wrote a second, as if nothing stayed in a cache
    update_bytes_per_second: float | None
    # model FLOPs utilisation: the share of the time that the arithmetic would take at the card's peaks
    mfu: float | None
    bandwidth_share: float | None  # the share of the time that the traffic would take at the card's bandwidth


def achieved(work: roofline.Work, seconds: float, card: Card | None, precision: Precision, tf32: bool) -> Achieved:
    """Compare the work of updates with the seconds that they took, transfers left out.

    Without a card (on the CPU, or where it is not known) only the arithmetic counts, as the traffic is that of a GPU's
    operations.
    """
    flops = (work.flops + work.wide_flops) / seconds
    if card is None:
        return Achieved(flops, None, None, None)
    at_peak = roofline.seconds(work, card, precision, tf32)
    return Achieved(flops, work.traffic / seconds, at_peak["arithmetic"] / seconds, at_peak["traffic"] / seconds)


def rate_mfu(card: Card, mfu: float) -> str:
    """Return how a utilisation, 0 .. 1, compares with what is called good on a card; empty if there are no marks."""
    if card.name not in MODEL_FLOPS_UTILISATION:
        return ""
    good, excellent = MODEL_FLOPS_UTILISATION[card.name]
    percent = 100 * mfu
    word = "excellent" if percent >= excellent[0] else "good" if percent >= good[0] else "below good"
    return (
        f"{word}: for language models on this card {good[0]}-{good[1]} % is good, "
        f"{excellent[0]}-{excellent[1]} % excellent"
    )
