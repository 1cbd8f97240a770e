"""What is needed to read the figures: card, driver, versions, cores."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from longstride.hardware.detect import detect_machine


def facts() -> dict[str, Any]:
    """Return the facts of this machine; without a GPU the card is None and ``no_gpu`` says why."""
    machine = detect_machine()
    gpu = machine.gpu
    return {
        "card": gpu.name if gpu else None,
        "cards": len(machine.gpus),
        "capability": gpu.compute if gpu else None,
        "card_bytes": gpu.total_bytes if gpu else None,
        "card_free_bytes": gpu.free_bytes if gpu else None,
        "other_processes": gpu.other_processes if gpu else None,
        "no_gpu": machine.gpu_note,
        "driver": machine.driver,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": machine.usable_cores,
        "packages": {name: _version(name) for name in ("numpy", "numba", "triton", "pydantic", "pytest")},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
