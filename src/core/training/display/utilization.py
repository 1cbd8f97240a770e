"""What a run measures of its machine beside learning: the GPU by phase, and how near updates come to its peaks."""

from typing import Any

from core.hardware.diagnostics import measure_cache_bandwidth
from core.hardware.gpu_sampler import GpuSampler
from core.hardware.planning.activation_memory import parameter_count
from core.hardware.planning.efficiency import achieved, rate_mfu
from core.hardware.planning.gpu_catalog import Card, card_of
from core.hardware.planning.plan import Plan
from core.hardware.planning.roofline import update_work
from core.hardware.types import Machine
from core.policies.networks import ActorCritic
from core.text import format_bytes


class UtilizationTracker:
    """Gauges of a run.

    Args:
        monitor: of the GPU; one that does nothing by default.
        card: of the catalogue that updates run on; None on the CPU and where it is not known.
        tf32: whether the float32 products of an update use TF32.
        simulation_threads: that play.
    """

    def __init__(
        self,
        monitor: GpuSampler | None = None,
        card: Card | None = None,
        tf32: bool = False,
        simulation_threads: int = 1,
    ) -> None:
        self.monitor, self._card, self._tf32 = monitor or GpuSampler(), card, tf32
        self._simulation_threads, self._decisions, self._seconds, self._actor_bytes = simulation_threads, 0, 0.0, 0
        self._sums = dict.fromkeys(("seconds", "flops", "bytes", "mfu_seconds", "traffic_seconds"), 0.0)

    def phase(self, name: str) -> None:
        """Say what begins now."""
        self.monitor.phase(name)

    def figures(self, record: dict[str, Any], model: ActorCritic, microbatch: int) -> dict[str, Any]:
        """End the round; return what its record says of the machine.

        Args:
            record: of the round.
            model: that was updated.
            microbatch: most samples in a forward pass.
        """
        spec = model.spec
        precision, seconds = record["precision"], record["update_seconds"]
        sizes = record["steps"], record["batch_size"], microbatch, record["epochs"]
        rates = achieved(update_work(spec, precision != "fp32", *sizes), seconds, self._card, precision, self._tf32)
        for name, rate in zip(self._sums, (1.0, *rates), strict=True):
            self._sums[name] += (rate or 0.0) * seconds
        self._decisions, self._seconds = self._decisions + record["steps"], self._seconds + record["simulation_seconds"]
        self._actor_bytes = 4 * parameter_count(spec.actor_sizes)
        return {**rates._asdict(), "gpu": self.monitor.take_iteration()}

    def phase_lines(self) -> list[str]:
        """Return a line for each phase of the run in which the GPU was watched, for the block about the GPU."""
        return [phase_line(name, summary) for name, summary in self.monitor.run_summary().items()]

    def simulation_line(self) -> str:
        """Return what the simulation since the start of this command achieved; empty before the first round."""
        if not self._seconds:
            return ""
        rate, bandwidth = self._decisions / self._seconds, measure_cache_bandwidth()
        of_thread, size = rate / self._simulation_threads, self._actor_bytes
        share, read, caches = of_thread * size / bandwidth, format_bytes(size, "kB"), format_bytes(bandwidth, "GB")
        return (
            f"Simulation: {rate:,.0f} steps/s, {of_thread:,.0f} a thread; at {read} of parameters each "
            f"(less with relu) {100 * share:.0f} % of the {caches}/s that a core moves in its caches now."
        )

    def efficiency_line(self) -> str:
        """Return what the updates since the start of this command achieved; empty before the first."""
        sums, card = self._sums, self._card
        if not sums["seconds"]:
            return ""
        flops = sums["flops"] / sums["seconds"]
        if card is None:
            return f"Updates: {flops / 1e9:,.1f} GFLOP/s."
        mfu, traffic = sums["mfu_seconds"] / sums["seconds"], sums["traffic_seconds"] / sums["seconds"]
        judged, rate = rate_mfu(card, mfu), format_bytes(sums["bytes"] / sums["seconds"], "GB")
        return (
            f"Updates: {flops / 1e12:,.2f} TFLOP/s, MFU {100 * mfu:.1f} % of the {card.name}'s peak"
            f"{f' ({judged})' if judged else ''}; {rate}/s of memory traffic, "
            f"{100 * traffic:.1f} % of its bandwidth."
        )


def phase_line(name: str, summary: dict[str, Any]) -> str:
    """Return what the GPU did in a phase; what NVML did not say is left out."""
    parts = []
    for figure, form in (("utilisation", "{:.0f}% busy"), ("power_watts", "{:.0f} W"), ("sm_mhz", "{:,.0f} MHz")):
        if summary[figure] is not None:
            parts.append(form.format(summary[figure]))
    if summary["memory_bytes"] is not None:
        parts.append(f"at most {format_bytes(summary['memory_bytes'], 'GB')}")
    if summary["throttled"]:
        parts.append(f"slowed {summary['throttled']:.0f}% of the time ({', '.join(summary['reasons'])})")
    return f"   {(name.capitalize() + ':').ljust(13)} {', '.join(parts) or 'NVML says nothing of this device'}"


def build_utilization_tracker(plan: Plan, machine: Machine) -> UtilizationTracker:
    """Return the gauges of a run: of its GPU, where it uses one."""
    gpu = machine.gpu if plan.device == "cuda" else None
    return UtilizationTracker(GpuSampler(gpu), card_of(gpu) if gpu else None, plan.tf32, plan.simulation_threads)
