"""Use of the machine by a run: the GPU by phase, simulation and updates beside the machine's peaks."""

import time
from collections import defaultdict
from typing import Any, NamedTuple

from longstride.hardware.diagnostics import measure_cache_bandwidth
from longstride.hardware.gpu_sampler import GpuSampler
from longstride.hardware.planning.gpu_catalog import MODEL_FLOPS_UTILISATION, Card, card_of
from longstride.hardware.planning.plan import Plan
from longstride.hardware.planning.roofline import seconds as seconds_at_peak
from longstride.hardware.planning.work import Work
from longstride.hardware.types import Machine, Precision
from longstride.learning.step_costs.work import update_flops, update_work
from longstride.policies.spec import PolicySpec
from longstride.text import format_bytes


class Achieved(NamedTuple):
    """Rates that an update achieved; without figures of the card, and on the CPU, only that of the arithmetic."""

    update_flops_per_second: float  # floating-point operations of matrix products a second
    # bytes that operations read and wrote a second, as if nothing stayed in a cache
    update_bytes_per_second: float | None
    # model FLOPs utilisation: the share of the time that the arithmetic would take at the card's peaks
    mfu: float | None
    bandwidth_share: float | None  # the share of the time that the traffic would take at the card's bandwidth


class UtilizationTracker:
    """Measurements of the machine since the start of a command; the card is None on the CPU and where it is unknown."""

    def __init__(
        self,
        sampler: GpuSampler | None = None,
        card: Card | None = None,
        tf32: bool = False,
        ranks: int = 1,
    ) -> None:
        self.sampler, self._card, self._tf32 = sampler or GpuSampler(), card, tf32
        self._threads, self._ranks, self._actor_bytes = ranks, ranks, 0
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._ended: float | None = None

    def play_with(self, threads: int) -> None:
        """Take note of the threads that play for this process; the others have as many."""
        self._threads = threads * self._ranks

    def figures(self, record: dict[str, Any], spec: PolicySpec, microbatch: int) -> dict[str, Any]:
        """End an iteration with these other values of its record; return what the record says of the machine."""
        precision, seconds = record["precision"], record["update_seconds"]
        samples, batch = (-(-record[name] // self._ranks) for name in ("steps", "batch_size"))  # of this rank, about
        if self._card is None:
            flops = update_flops(spec, precision != "fp32", samples, record["epochs"])
            rates = Achieved(flops / seconds, None, None, None)
        else:
            work = update_work(spec, precision != "fp32", samples, batch, microbatch, record["epochs"])
            rates = achieved(work, seconds, self._card, precision, self._tf32)
        for name in ("steps", "simulation_seconds", "update_seconds"):
            self._sums[name] += record[name]
        for name, rate in rates._asdict().items():
            self._sums[name] += (rate or 0.0) * seconds
        self._actor_bytes = 4 * spec.actor_parameters
        before, self._ended = self._ended, time.perf_counter()
        whole = None if before is None else self._ended - before
        return {**rates._asdict(), "iteration_seconds": whole, "gpu": self.sampler.take_iteration()}

    def phase_lines(self) -> list[str]:
        """Return a line for each phase in which the GPU was sampled, for the block about the GPU."""
        return [phase_line(name, summary) for name, summary in self.sampler.run_summary().items()]

    def simulation_line(self) -> str:
        """Return what the simulation achieved; empty before the first iteration."""
        if not self._sums["simulation_seconds"]:
            return ""
        rate, bandwidth = self._sums["steps"] / self._sums["simulation_seconds"], measure_cache_bandwidth()
        of_thread, size = rate / self._threads, self._actor_bytes
        share, read, caches = of_thread * size / bandwidth, format_bytes(size, "kB"), format_bytes(bandwidth, "GB")
        return (
            f"Simulation: {rate:,.0f} steps/s, {of_thread:,.0f} a thread; at {read} of parameters each "
            f"(less with relu) {100 * share:.0f} % of the {caches}/s that a core moves in its caches now."
        )

    def efficiency_line(self) -> str:
        """Return what the updates achieved; empty before the first one."""
        seconds, card = self._sums["update_seconds"], self._card
        if not seconds:
            return ""
        flops, traffic, mfu, share = (
            self._sums[name] / seconds
            for name in ("update_flops_per_second", "update_bytes_per_second", "mfu", "bandwidth_share")
        )
        if card is None:
            return f"Updates: {flops / 1e9:,.1f} GFLOP/s."
        rating = rate_mfu(card, mfu)
        return (
            f"Updates: {flops / 1e12:,.2f} TFLOP/s, MFU {100 * mfu:.1f} % of the {card.name}'s peak"
            f"{f' ({rating})' if rating else ''}; {format_bytes(traffic, 'GB')}/s of memory traffic, "
            f"{100 * share:.1f} % of its bandwidth."
        )


def phase_line(name: str, summary: dict[str, Any]) -> str:
    """Return what the GPU did in a phase, without what NVML did not report."""
    formats = {"utilisation": "{:.0f}% busy", "power_watts": "{:.0f} W", "sm_mhz": "{:,.0f} MHz"}
    parts = [text.format(summary[figure]) for figure, text in formats.items() if summary[figure] is not None]
    if summary["memory_bytes"] is not None:
        parts.append(f"at most {format_bytes(summary['memory_bytes'], 'GB')}")
    if summary["throttled"]:
        parts.append(f"slowed {summary['throttled']:.0f}% of the time ({', '.join(summary['reasons'])})")
    return f"   {(name.capitalize() + ':').ljust(13)} {', '.join(parts) or 'NVML says nothing of this device'}"


def build_utilization_tracker(plan: Plan, machine: Machine, ranks: int = 1) -> UtilizationTracker:
    """Return the tracker of a run; its GPU is sampled where it uses one."""
    gpu = machine.gpu if plan.device == "cuda" else None
    card = card_of(gpu) if gpu else None
    return UtilizationTracker(GpuSampler(gpu), card, plan.tf32, ranks)


def achieved(work: Work, seconds: float, card: Card, precision: Precision, tf32: bool) -> Achieved:
    """Compare the work of updates with the seconds that they took, transfers left out."""
    flops = (work.flops + work.wide_flops) / seconds
    at_peak = seconds_at_peak(work, card, precision, tf32)
    return Achieved(flops, work.traffic / seconds, at_peak["arithmetic"] / seconds, at_peak["traffic"] / seconds)


def rate_mfu(card: Card, mfu: float) -> str:
    """Return how a utilisation, 0 .. 1, compares with what is called good on a card; empty if there are no marks."""
    if card.name not in MODEL_FLOPS_UTILISATION:
        return ""
    good, excellent = MODEL_FLOPS_UTILISATION[card.name]
    percent = 100 * mfu
    word = "excellent" if percent >= excellent[0] else "good" if percent >= good[0] else "below good"
    return (
        f"{word}: for language models on this card {good[0]}-{good[1]} % is good, "
        f"{excellent[0]}-{excellent[1]} % excellent"
    )
