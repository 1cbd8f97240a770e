"""GPUs that need not be in this machine: their figures, tiers and usual settings.

Figures are the peaks of NVIDIA's datasheets and architecture whitepapers, read second-hand: dense, products accumulated
in float32 (for GeForce cards half of the figure with float16 accumulation, which most tables print, as most print the
doubled one with sparsity). Gigabytes are decimal. A figure that could not be confirmed is named in ``UNCONFIRMED``.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from longstride.errors import UserError
from longstride.hardware.planning.update_memory import CONTEXT
from longstride.hardware.types import Gpu, Machine

Tier = Literal["h100", "a100", "high", "medium", "low", "cpu"]


@dataclass(frozen=True)
class Card:
    """One GPU model."""

    name: str  # unique name, for people
    driver_name: str  # name that the driver gives
    gigabytes: int  # memory, decimal GB
    bandwidth: int  # bandwidth of the memory, GB/s
    bf16: float | None  # peak TFLOP/s of dense products with BF16 inputs; None where the card lacks the format
    fp16: float  # peak TFLOP/s with float16 inputs
    tf32: float | None  # peak TFLOP/s with TF32 inputs; None where the card lacks the format
    fp32: float  # peak TFLOP/s without tensor cores
    capability: tuple[int, int]  # compute capability, (major, minor)


# fmt: off
CARDS = (
    #    name          driver_name                 GB   GB/s  bf16   fp16   tf32   fp32  capability
    Card("T4",         "Tesla T4",                 16,  320,  None,  65,    None,  8.1, (7, 5)),
    Card("V100 16GB",  "Tesla V100-SXM2-16GB",     16,  900,  None,  125,   None,  15.7, (7, 0)),
    Card("V100 32GB",  "Tesla V100-SXM2-32GB",     32,  900,  None,  125,   None,  15.7, (7, 0)),
    Card("A30",        "NVIDIA A30",               24,  933,  165,   165,   82,    10.3, (8, 0)),
    Card("A40",        "NVIDIA A40",               48,  696,  149.7, 149.7, 74.8,  37.4, (8, 6)),
    Card("A100 40GB",  "NVIDIA A100-SXM4-40GB",    40,  1555, 312,   312,   156,   19.5, (8, 0)),
    Card("A100 80GB",  "NVIDIA A100-SXM4-80GB",    80,  2039, 312,   312,   156,   19.5, (8, 0)),
    Card("RTX 3080",   "NVIDIA GeForce RTX 3080",  10,  760,  59.5,  59.5,  29.8,  29.8, (8, 6)),
    Card("RTX 3090",   "NVIDIA GeForce RTX 3090",  24,  936,  71.2,  71.2,  35.6,  35.6, (8, 6)),
    Card("RTX 4080",   "NVIDIA GeForce RTX 4080",  16,  717,  97.5,  97.5,  48.7,  48.7, (8, 9)),
    Card("RTX 4090",   "NVIDIA GeForce RTX 4090",  24,  1008, 165.2, 165.2, 82.6,  82.6, (8, 9)),
    Card("L4",         "NVIDIA L4",                24,  300,  121,   121,   60,    30.3, (8, 9)),
    Card("L40S",       "NVIDIA L40S",              48,  864,  362,   362,   183,   91.6, (8, 9)),
    Card("H100 SXM",   "NVIDIA H100 80GB HBM3",    80,  3350, 989,   989,   494.5, 67,   (9, 0)),
    Card("H100 PCIe",  "NVIDIA H100 PCIe",         80,  2000, 756,   756,   378,   51, (9, 0)),
    Card("H200",       "NVIDIA H200",              141, 4800, 989,   989,   494.5, 67,   (9, 0)),
    Card("B200",       "NVIDIA B200",              180, 8000, 2250,  2250,  1125,  75, (10, 0)),
)
# fmt: on

UNCONFIRMED = {("A30", "tf32"), ("A30", "fp32"), ("B200", "fp32")}

_ALIASES = {
    "V100 16GB": ("V100 PCIE 16GB",),
    "V100 32GB": ("V100 PCIE 32GB", "V100 SXM3 32GB"),
    "A100 40GB": ("A100 PCIE 40GB", "A100 SXM 40GB"),
    "A100 80GB": ("A100 80GB PCIe", "A100 PCIE 80GB", "A100 SXM 80GB"),
    "H100 SXM": ("H100", "H100 80GB", "H100 SXM5", "H100 SXM5 80GB"),
    "H100 PCIe": ("H100 80GB PCIe",),
    "H200": ("H200 SXM", "H200 SXM 141GB"),
    "B200": ("B200 SXM",),
}

MODEL_FLOPS_UTILISATION = {
    "A30": ((15, 20), (25, 30)),
    "A40": ((20, 25), (30, 35)),
    "A100 40GB": ((25, 30), (35, 40)),
    "A100 80GB": ((25, 30), (35, 40)),
    "V100 16GB": ((15, 20), (25, 30)),
    "V100 32GB": ((15, 20), (25, 30)),
    "RTX 4090": ((20, 25), (30, 35)),
    "RTX 4080": ((15, 20), (25, 30)),
    "RTX 3090": ((18, 22), (28, 32)),
}
"""Percent of the peak that is called good and excellent when a language model trains on a card."""


@dataclass(frozen=True)
class TierDefaults:
    """What is usual on a card for policies that act and learn on the GPU.

    Here the policy acts on the CPU, and episodes and minibatch decide what is learned, so these two only inform.
    """

    parallel_episodes: int = 256  # episodes played at once
    minibatch: int = 2048  # samples of a minibatch
    compile: bool = False  # whether `torch.compile` makes up for its warm-up


_TIERS: dict[Tier, TierDefaults] = {
    "h100": TierDefaults(2048, 8192, compile=True),
    "a100": TierDefaults(1024, 4096, compile=True),
}
"""Tiers that differ from the others."""

_SPECIAL_CARDS = {
    "A100 80GB": TierDefaults(2048, 8192, compile=True),
    "RTX 4090": TierDefaults(1024, 4096, compile=True),
    "RTX 3090": TierDefaults(512, 2048, compile=True),
}
"""Cards that differ from their tier."""


def tier_of(gpu: Gpu | None) -> Tier:
    """Return the tier: h100 from compute capability 9.0, a100 by name, else by memory (40 and 20 GB)."""
    if gpu is None:
        return "cpu"
    if gpu.capability >= (9, 0):
        return "h100"
    if "a100" in gpu.name.lower():
        return "a100"
    return "high" if gpu.total_bytes >= 40e9 else "medium" if gpu.total_bytes >= 20e9 else "low"


def tier_defaults(gpu: Gpu | None) -> TierDefaults:
    """Return what is usual on a GPU: its card's defaults where they differ from its tier's."""
    card = card_of(gpu) if gpu else None
    return _SPECIAL_CARDS.get(card.name if card else "") or _TIERS.get(tier_of(gpu), TierDefaults())


def find_card(name: str) -> Card:
    """Return the card of a name such as ``"A40"``, ``"a100-80gb"`` or ``"NVIDIA A100-SXM4-80GB"``.

    Raises:
        UserError: it is none of them, and the nearest is named; or it is that of cards with several sizes.
    """
    card = _BY_NAME.get(_plain(name))
    sizes = [each.name for each in CARDS if _plain(each.name) == _plain(f"{name} {each.gigabytes}GB")]
    if card is None and len(sizes) > 1:
        raise UserError(f"There is a GPU {name} of {len(sizes)} sizes; name one of them: {' or '.join(sizes)}.")
    if card is None:
        near = get_close_matches(_plain(name), _BY_NAME, 1, cutoff=0.5)
        hint = f"; did you mean {_BY_NAME[near[0]].name}? It has" if near else ", which has"
        raise UserError(f"There is no GPU {name!r} in the catalogue{hint} {', '.join(c.name for c in CARDS)}.")
    return card


def card_of(gpu: Gpu) -> Card | None:
    """Return the card of a GPU in this machine; None for a slice, and where model or memory are not known."""
    card = _BY_NAME.get(_plain(gpu.name))
    # Some names cover two sizes (RTX 3080); drivers report up to a tenth more or less than the nominal gigabytes.
    known = card is not None and not gpu.mig and abs(gpu.total_bytes / (card.gigabytes * 1e9) - 1) < 0.15
    return card if known else None


NOMINAL_HOST = Machine(physical_cores=8, usable_cores=8, total_bytes=64_000_000_000, free_bytes=48_000_000_000)
"""A host for cards that are not here."""


def machine_with(card: Card, host: Machine = NOMINAL_HOST) -> Machine:
    """Return a host with an idle card of this model in place of its own GPUs."""
    size = card.gigabytes * 10**9
    return host.with_gpu(Gpu(card.driver_name, card.capability, size, size, context_bytes=CONTEXT))


def _plain(name: str) -> str:
    """Return a name without maker, brand, case and punctuation."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in ("nvidia", "tesla", "geforce", "rtx", "gpu"))


def _plain_names(card: Card) -> set[str]:
    """Return all plain names of a card; its size may follow its name."""
    names = (card.name, f"{card.name} {card.gigabytes}GB", card.driver_name, *_ALIASES.get(card.name, ()))
    return {_plain(name) for name in names}


_BY_NAME = {name: card for card in CARDS for name in _plain_names(card)}
