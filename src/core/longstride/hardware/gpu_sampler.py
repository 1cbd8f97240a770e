"""Samples a GPU by NVML in the background of a run, summarised by phase."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from longstride.hardware.nvml import ask, handle_of, nvml
from longstride.hardware.types import Gpu

INTERVAL = 0.5
"""Seconds between two samples."""

_SLOWED_BY = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that mean: slower than it could be. Idling and chosen clocks are none."""

_SM_CLOCK = 1
"""NVML_CLOCK_SM."""

_MEANS = ("utilisation", "power_watts", "sm_mhz", "throttled")


class Sample(NamedTuple):
    """State of a GPU at one moment; None where NVML does not know (much of a MIG slice)."""

    utilisation: float | None  # percent of NVML's last period (a sixth of a second to a second) in which a kernel ran
    memory_bytes: int | None  # memory used by all processes
    power_watts: float | None  # power draw
    sm_mhz: float | None  # clock of the multiprocessors
    throttled: tuple[str, ...] | None  # reasons for a clock lower than it could be; empty if it is not


def take_sample(api: Any | None, handle: Any | None) -> Sample:
    """Ask NVML about a GPU once."""
    rates = ask(api, "nvmlDeviceGetUtilizationRates", handle)
    memory = ask(api, "nvmlDeviceGetMemoryInfo", handle)
    milliwatts = ask(api, "nvmlDeviceGetPowerUsage", handle)
    reasons = ask(api, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return Sample(
        rates and float(rates.gpu),
        memory and memory.used,
        None if milliwatts is None else milliwatts / 1e3,
        ask(api, "nvmlDeviceGetClockInfo", handle, _SM_CLOCK),
        None if reasons is None else tuple(name for bit, name in _SLOWED_BY.items() if reasons & bit),
    )


@dataclass
class PhaseSamples:
    """Samples of a phase, added up: sum and number of each figure's known values."""

    samples: int = 0
    totals: dict[str, tuple[float, int]] = field(default_factory=dict)
    most_memory: int | None = None
    reasons: set[str] = field(default_factory=set)

    def add(self, sample: Sample) -> None:
        """Count a sample."""
        self.samples += 1
        throttled = None if sample.throttled is None else 100.0 * bool(sample.throttled)
        for name, value in zip(_MEANS, (sample.utilisation, sample.power_watts, sample.sm_mhz, throttled), strict=True):
            if value is not None:
                total, count = self.totals.get(name, (0.0, 0))
                self.totals[name] = total + value, count + 1
        if sample.memory_bytes is not None:
            self.most_memory = max(self.most_memory or 0, sample.memory_bytes)
        self.reasons |= set(sample.throttled or ())

    def summary(self) -> dict[str, Any]:
        """Return JSON values: means, the most memory, percent of the samples with a lowered clock, and why."""
        totals = {name: self.totals.get(name) for name in _MEANS}
        means = {name: total and total[0] / total[1] for name, total in totals.items()}
        return {"samples": self.samples, **means, "memory_bytes": self.most_memory, "reasons": sorted(self.reasons)}


class GpuSampler:
    """Samples a GPU, found by its UUID, from threads of its own; a context manager that does nothing without NVML.

    NVML may take milliseconds, so a run waits only for samples that are not there when they are read.
    """

    def __init__(self, gpu: Gpu | None = None, interval: float = INTERVAL) -> None:
        self._api = nvml() if gpu is not None else None
        self._handle = handle_of(self._api, gpu)
        self._interval = interval
        self._phase: str | None = None
        self._iteration: dict[str, PhaseSamples] = {}
        self._run: dict[str, PhaseSamples] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool, self._pending = ThreadPoolExecutor(1, "gpu-sample"), list[Future[None]]()

    @property
    def active(self) -> bool:
        """Whether there is something to watch."""
        return self._handle is not None

    def __enter__(self) -> "GpuSampler":
        if self.active:
            self._ended.clear()
            self._thread = threading.Thread(target=self._watch, name="gpu-monitor", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def phase(self, name: str | None) -> None:
        """End the current phase with a sample, so that the shortest has one; begin another (or none)."""
        if self._phase is not None:
            self._pending.append(self._pool.submit(self._sample, self._phase))
        self._phase = name if self.active else None

    def take_iteration(self) -> dict[str, Any] | None:
        """End the phase; return the summary of each phase since the last call, None without a GPU to watch."""
        self.phase(None)
        self._wait()
        with self._lock:
            phases, self._iteration = self._iteration, {}
        return {name: samples.summary() for name, samples in phases.items()} if self.active else None

    def run_summary(self) -> dict[str, Any]:
        """Return the summary of each phase since the beginning."""
        self._wait()
        with self._lock:
            return {name: samples.summary() for name, samples in self._run.items()}

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            if (phase := self._phase) is not None:
                self._sample(phase)

    def _wait(self) -> None:
        """Wait for the samples of phases that have ended."""
        while self._pending:
            self._pending.pop().result()

    def _sample(self, phase: str) -> None:
        """Take a sample for a phase; others may take one meanwhile."""
        sample = take_sample(self._api, self._handle)
        with self._lock:
            for phases in (self._iteration, self._run):
                phases.setdefault(phase, PhaseSamples()).add(sample)
