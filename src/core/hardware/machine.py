"""What machine is here: the only place that asks."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU.

    Attributes:
        name: as the driver gives it, for example ``"NVIDIA H200"``.
        capability: compute capability, (major, minor).
        total_bytes: all memory.
        free_bytes: memory that nobody uses now, on the whole device.
    """

    name: str
    capability: tuple[int, int]
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Machine:
    """Cores, memory and, if there is one, the GPU.

    Attributes:
        physical_cores: cores that this process may use, without hyper-threads.
        total_bytes: memory of the host.
        free_bytes: memory of the host that can be had without swapping.
        gpu: the first GPU that torch can use, or None.
        gpu_note: why there is no GPU, for people who expect one; empty if there is one.
    """

    physical_cores: int
    total_bytes: int
    free_bytes: int
    gpu: Gpu | None
    gpu_note: str = ""


def detect_machine() -> Machine:
    """Look at this machine; a missing driver or GPU is normal."""
    memory = psutil.virtual_memory()
    gpu, note = _detect_gpu()
    return Machine(physical_cores(), memory.total, memory.available, gpu, note)


def physical_cores() -> int:
    """Return the cores that this process may use, without hyper-threads."""
    allowed = len(psutil.Process().cpu_affinity() or ()) if hasattr(psutil.Process, "cpu_affinity") else 0
    physical = psutil.cpu_count(logical=False) or 1
    return max(1, min(physical, allowed or physical))


def _detect_gpu() -> tuple[Gpu | None, str]:
    import torch

    if torch.version.cuda is None:
        return None, "this torch is a build without CUDA"
    if not torch.cuda.is_available():
        return None, "torch finds no usable NVIDIA GPU or driver"
    properties = torch.cuda.get_device_properties(0)
    free, total = free_and_total_bytes()
    return Gpu(properties.name, (properties.major, properties.minor), total, free), ""


def free_and_total_bytes() -> tuple[int, int]:
    """Return free and total memory of GPU 0 in bytes: the smaller of what torch and NVML say, where NVML answers."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    try:
        import pynvml

        pynvml.nvmlInit()
        identifier = str(torch.cuda.get_device_properties(0).uuid)
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{identifier}"))
        return min(free, memory.free), min(total, memory.total)
    except (ImportError, AttributeError, pynvml.NVMLError):
        return free, total


def free_bytes(device: str) -> int:
    """Return the memory in bytes that nobody uses: of GPU 0 for ``"cuda"``, else of the host."""
    return free_and_total_bytes()[0] if device == "cuda" else int(psutil.virtual_memory().available)


def has_bf16(device: str) -> bool:
    """Whether matrix products in BF16 are native: on a GPU of compute capability 8.0 and above."""
    import torch

    return device == "cuda" and torch.cuda.get_device_capability(0) >= (8, 0)
