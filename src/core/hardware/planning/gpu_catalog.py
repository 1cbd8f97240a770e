"""GPUs that may not be here: figures, tiers, and what is usual on each.

Figures are the peaks of NVIDIA's datasheets and architecture whitepapers, read second-hand: dense, products accumulated
in float32 (for GeForce cards half of the figure with float16 accumulation, which most tables print, as most print the
doubled one with sparsity). Gigabytes are decimal. A figure that could not be confirmed is named in ``UNCONFIRMED``.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from core.errors import UserError
from core.hardware.planning.update_memory import CONTEXT
from core.hardware.types import Gpu, Machine

Tier = Literal["h100", "a100", "high", "medium", "low", "cpu"]


@dataclass(frozen=True)
class Card:
    """One GPU model.

    Attributes:
        name: for people, and unique.
        driver_name: what the driver calls it.
        gigabytes: of memory, decimal.
        bandwidth: of the memory, GB/s.
        bf16: peak TFLOP/s of dense products; None where the card has no such format. The others alike.
        fp16: with float16 inputs.
        tf32: with TF32 inputs.
        fp32: without tensor cores.
        fp8: with 8-bit inputs.
        capability: compute capability, (major, minor).
    """

    name: str
    driver_name: str
    gigabytes: int
    bandwidth: int
    bf16: float | None
    fp16: float
    tf32: float | None
    fp32: float
    fp8: float | None
    capability: tuple[int, int]


# fmt: off
CARDS = (
    #    name          driver_name                 GB   GB/s  bf16   fp16   tf32   fp32  fp8   capability
    Card("T4",         "Tesla T4",                 16,  320,  None,  65,    None,  8.1,  None, (7, 5)),
    Card("V100 16GB",  "Tesla V100-SXM2-16GB",     16,  900,  None,  125,   None,  15.7, None, (7, 0)),
    Card("V100 32GB",  "Tesla V100-SXM2-32GB",     32,  900,  None,  125,   None,  15.7, None, (7, 0)),
    Card("A30",        "NVIDIA A30",               24,  933,  165,   165,   82,    10.3, None, (8, 0)),
    Card("A40",        "NVIDIA A40",               48,  696,  149.7, 149.7, 74.8,  37.4, None, (8, 6)),
    Card("A100 40GB",  "NVIDIA A100-SXM4-40GB",    40,  1555, 312,   312,   156,   19.5, None, (8, 0)),
    Card("A100 80GB",  "NVIDIA A100-SXM4-80GB",    80,  2039, 312,   312,   156,   19.5, None, (8, 0)),
    Card("RTX 3080",   "NVIDIA GeForce RTX 3080",  10,  760,  59.5,  59.5,  29.8,  29.8, None, (8, 6)),
    Card("RTX 3090",   "NVIDIA GeForce RTX 3090",  24,  936,  71.2,  71.2,  35.6,  35.6, None, (8, 6)),
    Card("RTX 4080",   "NVIDIA GeForce RTX 4080",  16,  717,  97.5,  97.5,  48.7,  48.7, 195,  (8, 9)),
    Card("RTX 4090",   "NVIDIA GeForce RTX 4090",  24,  1008, 165.2, 165.2, 82.6,  82.6, 330,  (8, 9)),
    Card("L4",         "NVIDIA L4",                24,  300,  121,   121,   60,    30.3, 242,  (8, 9)),
    Card("L40S",       "NVIDIA L40S",              48,  864,  362,   362,   183,   91.6, 733,  (8, 9)),
    Card("H100 SXM",   "NVIDIA H100 80GB HBM3",    80,  3350, 989,   989,   494.5, 67,   1979, (9, 0)),
    Card("H100 PCIe",  "NVIDIA H100 PCIe",         80,  2000, 756,   756,   378,   51,   1513, (9, 0)),
    Card("H200",       "NVIDIA H200",              141, 4800, 989,   989,   494.5, 67,   1979, (9, 0)),
    Card("B200",       "NVIDIA B200",              180, 8000, 2250,  2250,  1125,  75,   4500, (10, 0)),
)
# fmt: on

UNCONFIRMED = {("A30", "tf32"), ("A30", "fp32"), ("L4", "fp8"), ("B200", "fp32")}

_ALIASES = {
    "T4": ("T4 16GB",),
    "V100 16GB": ("V100", "V100 PCIE 16GB"),
    "V100 32GB": ("V100 PCIE 32GB", "V100 SXM3 32GB"),
    "A30": ("A30 24GB",),
    "A40": ("A40 48GB",),
    "A100 40GB": ("A100", "A100 PCIE 40GB", "A100 SXM 40GB"),  # where two sizes exist the bare name is the smaller
    "A100 80GB": ("A100 80GB PCIe", "A100 PCIE 80GB", "A100 SXM 80GB"),
    "RTX 3080": ("3080", "RTX 3080 10GB"),
    "RTX 3090": ("3090", "RTX 3090 24GB"),
    "RTX 4080": ("4080", "RTX 4080 16GB"),
    "RTX 4090": ("4090", "RTX 4090 24GB"),
    "L4": ("L4 24GB",),
    "L40S": ("L40S 48GB",),
    "H100 SXM": ("H100", "H100 80GB", "H100 SXM5", "H100 SXM 80GB", "H100 SXM5 80GB"),
    "H100 PCIe": ("H100 80GB PCIe", "H100 PCIe 80GB"),
    "H200": ("H200 141GB", "H200 SXM", "H200 SXM 141GB"),
    "B200": ("B200 180GB", "B200 SXM"),
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
"""Share of the peak, in percent, that is called good and excellent when a language model trains on a card."""


@dataclass(frozen=True)
class TierDefaults:
    """What is usual on a card for policies that act and learn on the GPU.

    Here the policy acts on the CPU, and the number of episodes and the minibatch decide what is learned, so these two
    only inform; the others say what a plan wants where the updater has it.

    Attributes:
        parallel_episodes: played at once.
        minibatch: samples.
        compile: whether ``torch.compile`` is worth its warm-up.
        fp8: whether FP8 can pay, for layers that are wide enough.
    """

    parallel_episodes: int
    minibatch: int
    compile: bool
    fp8: bool


_TIERS: dict[Tier, TierDefaults] = {
    "h100": TierDefaults(2048, 8192, compile=True, fp8=True),
    "a100": TierDefaults(1024, 4096, compile=True, fp8=False),
    "high": TierDefaults(256, 2048, compile=False, fp8=False),
    "medium": TierDefaults(256, 2048, compile=False, fp8=False),
    "low": TierDefaults(256, 2048, compile=False, fp8=False),
    "cpu": TierDefaults(256, 2048, compile=False, fp8=False),
}

_CARDS_OF_THEIR_OWN = {
    "A100 80GB": TierDefaults(2048, 8192, compile=True, fp8=False),
    "RTX 4090": TierDefaults(1024, 4096, compile=True, fp8=False),
    "RTX 3090": TierDefaults(512, 2048, compile=True, fp8=False),
}


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
    """Return what is usual on a GPU: of its card where that differs from its tier."""
    card = card_of(gpu) if gpu else None
    return _CARDS_OF_THEIR_OWN.get(card.name if card else "", _TIERS[tier_of(gpu)])


def find_card(name: str) -> Card:
    """Return the card of a name such as ``"A40"``, ``"a100-80gb"`` or ``"NVIDIA A100-SXM4-80GB"``.

    Raises:
        UserError: it is none of them; the nearest is named.
    """
    card = _BY_NAME.get(_plain(name))
    if card is None:
        near = get_close_matches(_plain(name), _BY_NAME, 1, cutoff=0.5)
        hint = f"; did you mean {_BY_NAME[near[0]].name}? It has" if near else ", which has"
        raise UserError(f"There is no GPU {name!r} in the catalogue{hint} {', '.join(c.name for c in CARDS)}.")
    return card


def card_of(gpu: Gpu) -> Card | None:
    """Return the card of a GPU that is here; None of a slice or where model or memory are not in the catalogue."""
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
    return "".join(word for word in words if word not in ("nvidia", "tesla", "geforce", "gpu"))


_BY_NAME = {_plain(name): card for card in CARDS for name in (card.name, card.driver_name, *_ALIASES[card.name])}
