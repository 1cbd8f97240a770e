"""How near an update comes to the peaks of its card: counted work over measured seconds."""

from typing import NamedTuple

from core.hardware.planning import roofline
from core.hardware.planning.gpu_catalog import MODEL_FLOPS_UTILISATION, Card
from core.hardware.types import Precision


class Achieved(NamedTuple):
    """What an update achieved; None where the card's figures are not known, and on the CPU.

    Attributes:
        flops_per_second: of its matrix products.
        bytes_per_second: that its operations read and wrote, as if nothing stayed in a cache.
        mfu: model FLOPs utilisation: the share of the time that the arithmetic would take at the card's peaks.
        bandwidth_share: the same of that traffic.
    """

    flops_per_second: float
    bytes_per_second: float | None
    mfu: float | None
    bandwidth_share: float | None


def achieved(work: roofline.Work, seconds: float, card: Card | None, precision: Precision, tf32: bool) -> Achieved:
    """Compare the work of updates with the time that they took.

    Args:
        work: counted; only its arithmetic counts without a card, as the traffic is that of a GPU's operations.
        seconds: measured, > 0, without transfers.
        card: of the catalogue; None on the CPU and where it is not known.
        precision: of the matrix products.
        tf32: whether the float32 products use TF32.
    """
    flops = (work.flops + work.wide_flops) / seconds
    if card is None:
        return Achieved(flops, None, None, None)
    at_peak = roofline.seconds(work, card, precision, tf32)
    return Achieved(flops, work.traffic / seconds, at_peak["arithmetic"] / seconds, at_peak["traffic"] / seconds)


def rate_mfu(card: Card, mfu: float) -> str:
    """Return how a utilisation compares with what is called good and excellent on a card; empty if nobody says.

    Args:
        card: of the catalogue.
        mfu: share, 0 .. 1.
    """
    if card.name not in MODEL_FLOPS_UTILISATION:
        return ""
    good, excellent = MODEL_FLOPS_UTILISATION[card.name]
    percent = 100 * mfu
    word = "excellent" if percent >= excellent[0] else "good" if percent >= good[0] else "below good"
    return (
        f"{word}: for language models on this card {good[0]}-{good[1]} % is good, "
        f"{excellent[0]}-{excellent[1]} % excellent"
    )


def simulation_in_words(decisions_per_second: float, threads: int, actor_bytes: int, cache_bandwidth: float) -> str:
    """Say how near the simulation comes to the bandwidth of a core's caches, as far as weights are concerned.

    Args:
        decisions_per_second: of all threads together.
        threads: that played.
        actor_bytes: weights that a decision reads at most.
        cache_bandwidth: bytes/s of one core, from :func:`core.hardware.diagnostics.measure_cache_bandwidth`.
    """
    a_thread = decisions_per_second / threads
    share = a_thread * actor_bytes / cache_bandwidth
    return (
        f"{decisions_per_second:,.0f} decisions/s, {a_thread:,.0f} a thread; at {actor_bytes / 1e3:,.0f} kB of weights "
        f"each (less with relu) {100 * share:.0f} % of the {cache_bandwidth / 1e9:,.0f} GB/s that a core moves in its "
        "caches now"
    )
