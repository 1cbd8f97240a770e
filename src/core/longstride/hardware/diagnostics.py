"""Diagnostics for ``--mode doctor``: torch build, threads, load, disk, GPU clocks; and the bandwidth of caches."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from longstride.hardware.gpu_sampler import take_sample
from longstride.hardware.nvml import driver_gpu_names, handle_of, nvml
from longstride.hardware.types import Gpu

_TRIAD_FLOATS, _TRIAD_REPEATS = 16_384, 200
"""Three arrays of 64 KiB, about the size of a small actor's parameters: in a core's second cache."""


@dataclass(frozen=True)
class Diagnostics:
    """State of the process and of the system around it."""

    torch_version: str = ""
    torch_cuda: str | None = None  # CUDA version that torch is built for; None for a build without
    driver_gpus: tuple[str, ...] = ()  # names of the GPUs that the driver lists
    visible: str | None = None  # CUDA_VISIBLE_DEVICES; None if it is not set
    omp_threads: str | None = None  # OMP_NUM_THREADS; None if it is not set
    torch_threads: int = 1  # threads that torch would use
    load: float = 0.0  # processes that run or wait to, mean of the last minute
    throttled: tuple[str, ...] | None = None  # reasons for a GPU clock lower than it could be; None if unknown
    pinned: bool | None = None  # whether memory can be pinned for the GPU; None without one
    disk_path: str = "."  # folder whose disk is meant
    disk_free: int | None = None  # free bytes of that disk; None if the system does not say


def run_diagnostics(directory: Path, gpu: Gpu | None) -> Diagnostics:
    """Return the diagnostics of this process, for a run in a folder that need not exist yet."""
    import torch

    api = nvml()
    folder = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.is_dir())
    return Diagnostics(
        torch_version=torch.__version__,
        torch_cuda=torch.version.cuda,
        driver_gpus=tuple(driver_gpu_names(api)),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        omp_threads=os.environ.get("OMP_NUM_THREADS"),
        torch_threads=torch.get_num_threads(),
        load=psutil.getloadavg()[0],
        throttled=take_sample(api, handle_of(api, gpu)).throttled if gpu else None,
        pinned=_can_pin() if gpu else None,
        disk_path=str(folder),
        disk_free=_free_of(folder),
    )


def measure_cache_bandwidth() -> float:
    """Return the bytes/s of ``a = b + c`` on arrays that stay in a core's caches: the best of many short runs."""
    a, b, c = (np.ones(_TRIAD_FLOATS, np.float32) for _ in range(3))
    best = float("inf")
    for _ in range(_TRIAD_REPEATS):
        begin = time.perf_counter()
        for _ in range(10):
            np.add(b, c, out=a)
        best = min(best, time.perf_counter() - begin)
    return 10 * 3 * a.nbytes / best


def _can_pin() -> bool:
    import torch

    try:
        return bool(torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True).is_pinned())
    except RuntimeError:
        return False


def _free_of(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
