"""Detects the machine: the only place that asks torch and NVML for GPUs; ``cpu`` reads cores and memory."""

import os
import platform
import re
import warnings
from typing import Any

from longstride.hardware.cpu import detect_bf16, detect_cores, detect_memory
from longstride.hardware.nvml import ask, driver_gpu_names, handle_of, nvml, uuid_of
from longstride.hardware.types import Gpu, Machine


def detect_machine() -> Machine:
    """Return this machine; a missing driver, NVML or GPU is normal."""
    cores, (total, free) = detect_cores(), detect_memory()
    api = nvml()
    gpus, note = _detect_gpus(api)
    return Machine(
        physical_cores=cores.physical,
        usable_cores=cores.usable,
        total_bytes=total,
        free_bytes=free,
        gpus=gpus,
        gpu_note=note,
        cores_note=cores.note,
        driver=ask(api, "nvmlSystemGetDriverVersion") or "",
        system=platform.system(),
        allocator=os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        cpu_bf16=detect_bf16(),
    )


def free_and_total_bytes(index: int = 0) -> tuple[int, int]:
    """Return free and total bytes of a GPU by torch's index: the smaller of torch's and, where it answers, NVML's."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    try:
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError:  # a full card, or one that another process holds alone, has no room for a context
        free, total = 0, properties.total_memory
    api = nvml()
    memory = ask(api, "nvmlDeviceGetMemoryInfo", handle_of(api, properties))
    return (min(free, memory.free), min(total, memory.total)) if memory else (free, total)


def free_bytes(device: str) -> int:
    """Return the unused memory in bytes: of GPU 0 for ``"cuda"``, else of the host."""
    return free_and_total_bytes()[0] if device == "cuda" else detect_memory()[1]


def has_bf16(device: str) -> bool:
    """Whether matrix products in BF16 are native: on a GPU of compute capability 8.0 and above."""
    import torch

    return device == "cuda" and torch.cuda.get_device_capability(0) >= (8, 0)


def _detect_gpus(api: Any | None) -> tuple[tuple[Gpu, ...], str]:
    """Return the GPUs that torch can use, or none and why."""
    try:
        note = _why_torch_has_none(api)
        return ((), note) if note else _ask_torch(api)
    except (RuntimeError, AssertionError) as error:  # CUDA is there and does not start: a broken driver, a lost card
        reason = str(error).strip().split("\n")[0].rstrip(".")
        return (), f"CUDA does not start here ({reason})"


def _ask_torch(api: Any | None) -> tuple[tuple[Gpu, ...], str]:
    """Return the GPUs that torch lists, with their memory and processes; none and why if torch has no code for them."""
    import torch

    # Processes are counted for all GPUs before memory is asked for, which puts this process on a card.
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    processes = [_other_processes(api, properties) for properties in devices]
    gpus = tuple(_gpu(api, i, devices[i], processes[i]) for i in range(len(devices)))
    first = gpus[0]
    if not _is_compiled_for(first.capability, torch.cuda.get_arch_list()):
        return (), f"torch {torch.__version__} has no code for the {first.name} (compute capability {first.compute})"
    return gpus, ""


def _gpu(api: Any | None, index: int, properties: Any, other_processes: int | None) -> Gpu:
    mig = _is_slice(api, properties)
    memory = ask(api, "nvmlDeviceGetMemoryInfo", handle_of(api, properties))
    if index > 0 and memory and not mig:
        # Torch would make a context, half a gigabyte, on a card that this run does not use.
        free, total = memory.free, min(memory.total, properties.total_memory)
    else:
        free, total = free_and_total_bytes(index)
    capability = properties.major, properties.minor
    return Gpu(properties.name, capability, total, free, uuid_of(properties), mig, other_processes)


def _why_torch_has_none(api: Any | None) -> str:
    """Return why torch can use no GPU, naming those that the driver lists; empty if it can."""
    import torch

    listed = driver_gpu_names(api)
    if torch.version.cuda is None:
        cannot = f", which cannot use the {listed[0]} that the driver lists" if listed else ""
        return f"this torch is a build without CUDA{cannot}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about what the note says
        if torch.cuda.is_available() and torch.cuda.device_count() > 0:
            return ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed and visible is not None:
        return f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides the {listed[0]} that the driver lists"
    if listed:
        cuda = torch.version.cuda
        return f"torch cannot use the {listed[0]} that the driver lists; the driver may be too old for CUDA {cuda}"
    return "torch finds no usable NVIDIA GPU or driver"


def _is_compiled_for(capability: tuple[int, int], architectures: list[str]) -> bool:
    """Return whether torch has code for a GPU.

    Machine code (``sm_86``) runs on the same major and this or a later minor; PTX (``compute_90``) on all later ones.
    An empty list says nothing and passes.
    """
    for name in architectures:
        if match := re.match(r"(sm|compute)_(\d+)", name):
            built = divmod(int(match[2]), 10)
            if built <= capability and (match[1] == "compute" or built[0] == capability[0]):
                return True
    return not architectures


def _is_slice(api: Any | None, properties: Any) -> bool:
    """Return whether a device is a MIG slice: by its name, or NVML says so of it or of its card."""
    handle = handle_of(api, properties)
    mode = ask(api, "nvmlDeviceGetMigMode", handle)
    in_mig_mode = mode is not None and bool(mode[0])
    return in_mig_mode or " MIG " in properties.name or bool(ask(api, "nvmlDeviceIsMigDeviceHandle", handle))


def _other_processes(api: Any | None, properties: Any) -> int | None:
    """Return how many other processes compute on a GPU; None of a slice, where NVML may tell of other slices."""
    if _is_slice(api, properties):
        return None
    running = ask(api, "nvmlDeviceGetComputeRunningProcesses", handle_of(api, properties))
    return None if running is None else sum(process.pid != os.getpid() for process in running)
