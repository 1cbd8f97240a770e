"""What a diagnosis asks beside the machine itself: torch's build, threads, load, disk, a GPU's clocks now."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from core.hardware.gpu_sampler import take_sample
from core.hardware.nvml import handle_of, listed_by_the_driver, nvml
from core.hardware.types import Gpu

_TRIAD_FLOATS, _TRIAD_REPEATS = 16_384, 200
"""Three arrays of 64 KiB, about as much as the weights of a small actor: in a core's second cache."""


@dataclass(frozen=True)
class Diagnostics:
    """Plain data about the process and the system around it.

    Attributes:
        torch_version: for people.
        torch_cuda: the CUDA version that torch is built for; None for a build without.
        listed: names of the GPUs that the driver lists.
        visible: CUDA_VISIBLE_DEVICES; None if it is not set.
        omp_threads: OMP_NUM_THREADS; None if it is not set.
        torch_threads: that torch would use.
        load: processes that run or wait to, mean of the last minute.
        throttled: why the GPU's clock is lower than it could be; None if nobody says.
        pinned: whether memory can be pinned for the GPU; None without one.
        disk_path: folder whose disk is meant.
        disk_free: bytes; None if the system does not say.
        cache_bandwidth: bytes/s that one core reads and writes in its caches, measured; None if it was not.
    """

    torch_version: str = ""
    torch_cuda: str | None = None
    listed: tuple[str, ...] = ()
    visible: str | None = None
    omp_threads: str | None = None
    torch_threads: int = 1
    load: float = 0.0
    throttled: tuple[str, ...] | None = None
    pinned: bool | None = None
    disk_path: str = "."
    disk_free: int | None = None
    cache_bandwidth: float | None = None


def run_diagnostics(directory: Path, gpu: Gpu | None) -> Diagnostics:
    """Look around.

    Args:
        directory: where the run is or will be written.
        gpu: that a run would use; None for none.
    """
    import torch

    api = nvml()
    folder = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.is_dir())
    return Diagnostics(
        torch_version=torch.__version__,
        torch_cuda=torch.version.cuda,
        listed=tuple(listed_by_the_driver(api)),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        omp_threads=os.environ.get("OMP_NUM_THREADS"),
        torch_threads=torch.get_num_threads(),
        load=psutil.getloadavg()[0],
        throttled=take_sample(api, handle_of(api, gpu)).throttled if gpu else None,
        pinned=_can_pin() if gpu else None,
        disk_path=str(folder),
        disk_free=_free_of(folder),
        cache_bandwidth=measure_cache_bandwidth(),
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
