"""What watching a GPU costs: processor time of a sample, with NVML, or without a driver with answers made up at once.

Run: python benchmarks/monitor.py
"""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

from longstride.hardware.gpu_sampler import INTERVAL, PhaseSamples, take_sample
from longstride.hardware.nvml import ask, nvml

SAMPLES = 2000


def made_up() -> SimpleNamespace:
    """Return answers in place of NVML's."""
    return SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=50),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=10**9),
        nvmlDeviceGetPowerUsage=lambda handle: 100_000,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0,
        nvmlDeviceGetClockInfo=lambda handle, kind: 1410,
    )


def main() -> None:
    """Measure and print."""
    api = nvml()
    handle = ask(api, "nvmlDeviceGetHandleByIndex", 0)
    whose = "NVML" if handle is not None else "made-up answers, no NVIDIA GPU here"
    if handle is None:
        api, handle = made_up(), 0
    tally, begin = PhaseSamples(), time.thread_time()
    for _ in range(SAMPLES):
        tally.add(take_sample(api, handle))
    cost = (time.thread_time() - begin) / SAMPLES
    print(f"{1e6 * cost:.1f} µs of a processor a sample, {100 * cost / INTERVAL:.4f} % of a core ({whose})")


if __name__ == "__main__":
    main()
