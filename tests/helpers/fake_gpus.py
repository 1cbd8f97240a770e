"""NVML and torch.cuda of a machine with GPUs that are not here, put where machine.py asks.

NVML lists every card of the machine in the order of its slots; torch sees those that CUDA_VISIBLE_DEVICES names, in
that order, as the real ones do.
"""

import os
import sys
import types
import uuid
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch

ARCHITECTURES = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@dataclass
class FakeCard:
    """One card, or one MIG slice of a card.

    Attributes:
        name: of the driver.
        capability: (major, minor).
        total: bytes, as torch says.
        free: bytes, as torch says; None where making a context fails.
        nvml_total: bytes, as NVML says; torch's by default. nvml_free alike.
        mig: "" for a whole card, "slice" where NVML finds the slice, "card" where it only finds the card around it.
        pids: of the processes on it.
        uuid: without prefix.
        busy: percent that NVML says; None where it does not know. watts, mhz alike.
        reasons: NVML's bits of why the clock is what it is.
        asked: how often NVML was asked for busy.
    """

    name: str
    capability: tuple
    total: int
    free: int | None
    nvml_total: int | None = None
    nvml_free: int | None = None
    mig: str = ""
    pids: tuple = ()
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    busy: int | None = 0
    watts: float | None = 60.0
    mhz: int | None = 1410
    reasons: int | None = 0
    asked: int = 0

    @property
    def nvml_uuid(self):
        return ("MIG-" if self.mig == "slice" else "GPU-") + self.uuid


class NVMLError(Exception):
    pass


class FakeNvml(types.ModuleType):
    """The part of pynvml that is asked; a card is its own handle."""

    NVMLError = NVMLError

    def __init__(self, cards, driver="550.54.15", starts=True):
        super().__init__("pynvml")
        self.cards, self.driver, self.starts = cards, driver, starts

    def nvmlInit(self):  # noqa: N802
        if not self.starts:
            raise NVMLError("Driver Not Loaded")

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.driver

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, name):  # noqa: N802
        for card in self.cards:
            if card.nvml_uuid == name:
                return card
        raise NVMLError("Not Found")

    def nvmlDeviceGetUUID(self, card):  # noqa: N802
        return card.nvml_uuid

    def nvmlDeviceGetName(self, card):  # noqa: N802
        return card.name.partition(" MIG ")[0]

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        total = card.total if card.nvml_total is None else card.nvml_total
        free = (card.free or 0) if card.nvml_free is None else card.nvml_free
        return SimpleNamespace(total=total, free=free, used=total - free)

    def nvmlDeviceGetMigMode(self, card):  # noqa: N802
        if card.mig == "slice" or card.capability < (8, 0):
            raise NVMLError("Not Supported")
        return [int(card.mig == "card"), 0]

    def nvmlDeviceIsMigDeviceHandle(self, card):  # noqa: N802
        return card.mig == "slice"

    def nvmlDeviceGetComputeRunningProcesses(self, card):  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in card.pids]

    def nvmlDeviceGetUtilizationRates(self, card):  # noqa: N802
        card.asked += 1
        return SimpleNamespace(gpu=_known(card.busy), memory=0)

    def nvmlDeviceGetPowerUsage(self, card):  # noqa: N802
        return round(1000 * _known(card.watts))

    def nvmlDeviceGetClockInfo(self, card, kind):  # noqa: N802
        assert kind == 1, "NVML_CLOCK_SM"
        return _known(card.mhz)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card):  # noqa: N802
        return _known(card.reasons)


def _known(value):
    if value is None:
        raise NVMLError("Not Supported")
    return value


def install(
    monkeypatch, cards, *, cuda="12.8", driver=True, package=True, usable=True, architectures=ARCHITECTURES, order=None
):
    """Make this machine one with some cards.

    Args:
        monkeypatch: of pytest.
        cards: of the machine, in the order of NVML.
        cuda: of torch's build; None for a build without.
        driver: whether NVML starts.
        package: whether pynvml is installed.
        usable: whether torch finds driver and cards usable.
        architectures: that torch is built for.
        order: indices of cards in CUDA's own order, where that is not NVML's.
    """
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(cards, starts=driver) if package else None)
    by_cuda = [cards[i] for i in order] if order else list(cards)

    def visible():
        wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
        if wanted is None:
            return by_cuda
        found = []
        for word in filter(None, wanted.split(",")):
            by_index = by_cuda[int(word) :][:1] if word.isdigit() else []
            match = by_index or [card for card in cards if card.nvml_uuid.startswith(word)]
            if not match:
                break  # CUDA stops at the first that it does not know
            found += match
        return found

    def properties(index):
        card = visible()[index]
        major, minor = card.capability
        return SimpleNamespace(name=card.name, major=major, minor=minor, total_memory=card.total, uuid=card.uuid)

    def memory(index=0):
        card = visible()[index]
        if card.free is None:
            raise RuntimeError("CUDA error: out of memory")
        card.pids = (*card.pids, os.getpid())  # asking makes a context, with which this process is on the card
        return card.free, card.total

    monkeypatch.setattr(torch.version, "cuda", cuda)
    fakes = {
        "is_available": lambda: bool(usable and cuda and visible()),
        "device_count": lambda: len(visible()) if usable and cuda else 0,
        "get_device_properties": properties,
        "get_device_name": lambda index=0: visible()[index].name,
        "get_device_capability": lambda index=0: visible()[index].capability,
        "is_bf16_supported": lambda including_emulation=True: visible()[0].capability >= (8, 0),
        "mem_get_info": memory,
        "get_arch_list": lambda: list(architectures),
    }
    for name, function in fakes.items():
        monkeypatch.setattr(torch.cuda, name, function)


def of_catalogue(card, **changes):
    """Return an idle card of the catalogue."""
    size = card.gigabytes * 10**9
    values = {"name": card.driver_name, "capability": card.capability, "total": size, "free": size}
    return FakeCard(**{**values, **changes})
