"""What --mode plan predicts of a run on a card, present or not: bytes, verdict, time, remedies; and its tables."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from longstride.commands.plan.card_use import CardUse, larger_uses, use_of
from longstride.hardware.planning import host_memory, roofline
from longstride.hardware.planning.choices import auto_batch_size, has_room, room_for_samples
from longstride.hardware.planning.gpu_catalog import UNCONFIRMED, card_of
from longstride.hardware.planning.plan import Plan
from longstride.hardware.planning.precision import choose_precision
from longstride.hardware.planning.second_gpu import SecondGpu
from longstride.hardware.planning.update_memory import LARGEST_BATCH, SAFETY
from longstride.hardware.planning.work import Work
from longstride.hardware.types import Gpu, Machine
from longstride.learning.step_costs.prediction import Prediction, predict_update, second_gpu_of
from longstride.learning.step_costs.update_memory import MemoryEstimate
from longstride.policies.spec import PolicySpec
from longstride.text import format_bytes, format_duration
from longstride.training.assembly.plan import flags_that_fit, plan_run, plan_settings, update_memory
from longstride.training.assembly.setup import Setup

_ENORMOUS = 10**15
"""Bytes of a card on which everything fits, to see what the plan would like."""


@dataclass(frozen=True)
class Change:
    """A change that needs less memory: its description, its flag (empty if none), the bytes that it saves."""

    description: str
    flag: str
    saves: int


@dataclass(frozen=True)
class PlanReport:
    """What is known of a run before it begins."""

    plan: Plan  # use of the machine by the run: of its CPU, where the GPU has no room
    wanted: Plan  # the plan for that GPU, if it had room; the figures below are of this one
    gpu: Gpu | None  # GPU that the plan is for; None for a run without one
    fits: bool  # whether the run would use that GPU; without one, whether the host has room for it
    memory: MemoryEstimate  # bytes of an update at its peak
    room: int  # bytes that the plan may fill: the free ones, less the safety margin
    largest_microbatch: int  # samples that memory holds at once beside all else
    largest_minibatch: int  # power of two that AUTO_BATCH_SIZE would choose if BATCH_SIZE were no limit
    prediction: Prediction
    changes: list[Change]  # they save memory
    enough: str  # a flag with which the run fits; empty where it fits as it is, or where none is known
    second: SecondGpu | None  # what a second GPU would bring; None where its time is not predicted
    use: list[CardUse]  # the card's use by the run, then by larger ones; empty where its time is not predicted

    @property
    def context_bytes(self) -> int:
        """Bytes of the card that CUDA will take before the first tensor."""
        return self.gpu.context_bytes if self.gpu else 0

    def as_json(self) -> dict[str, Any]:
        """Return what plan.json holds beside the plan."""
        values = {name: value for name, value in asdict(self).items() if name not in ("plan", "wanted", "gpu")}
        values["memory"] |= {"context": self.context_bytes, "peak": self.memory.peak}
        work = self.prediction.work
        values["prediction"]["work"] = work.as_json() if work else None
        values["prediction"] |= {"update_seconds": self.prediction.update_seconds, "binding": self.prediction.binding}
        return values


def make_report(setup: Setup, machine: Machine) -> PlanReport:
    """Return the predictions for a run on a machine, which need not be this one.

    Raises:
        UserError: settings contradict each other or the machine.
    """
    setup = setup.changed(device="auto") if setup.config.device == "cuda" else setup
    settings, spec = plan_settings(setup), setup.spec
    samples, instances = settings.samples, settings.parallel_episodes
    plan, gpu = plan_run(setup, machine), machine.gpu if setup.config.device == "auto" else None
    fits, wanted = gpu is None or has_room(gpu, settings), plan
    if gpu is not None and not fits:  # the plan is one for the CPU: see what the card would have to hold
        wanted = plan_run(setup, machine.with_gpu(replace(gpu, free_bytes=_ENORMOUS)))
        wanted = replace(wanted, microbatch=min(wanted.microbatch, 256))
    memory = update_memory(spec, wanted, gpu, samples, instances)
    if gpu is None:
        fits = host_memory.has_room(settings.rollout, machine, False, memory.peak)
    room = room_for_samples(settings, machine, gpu, wanted.precision != "fp32")
    prediction = predict_update(spec, wanted, gpu, samples, setup.config.num_epochs)
    largest = auto_batch_size(samples, room, LARGEST_BATCH) if fits else 0
    use = use_of(prediction, samples) if fits else []
    return PlanReport(
        plan=plan,
        wanted=wanted,
        gpu=gpu,
        fits=fits,
        memory=memory,
        room=int((gpu.usable_bytes if gpu else machine.free_bytes) * SAFETY),
        largest_microbatch=min(room, samples),
        largest_minibatch=largest,
        prediction=prediction,
        changes=_changes(spec, wanted, gpu, samples, instances, not setup.size.first),
        enough="" if fits else _enough(setup, gpu, instances) if gpu else flags_that_fit(setup, machine),
        second=second_gpu_of(prediction, spec, gpu),
        use=[*use, *(larger_uses(setup, machine, gpu, largest) if use and gpu else [])],
    )


def _changes(spec: PolicySpec, plan: Plan, gpu: Gpu | None, samples: int, instances: int, fixed: bool) -> list[Change]:
    """Return what would lower the peak; ``fixed``: whether rollouts are of one size."""
    peak = update_memory(spec, plan, gpu, samples, instances).peak

    def change(
        description: str, flag: str, samples: int = samples, instances: int = instances, **changes: Any
    ) -> Change:
        other = update_memory(spec, replace(plan, **changes), gpu, samples, instances)
        return Change(description, flag, peak - other.peak)

    changes = []
    if plan.microbatch > 1:
        half = -(-plan.microbatch // 2)
        description = f"microbatches of {half:,} samples; the plan takes smaller ones itself where it must"
        changes.append(change(description, "", microbatch=half))
    if gpu and not plan.gradient_checkpointing:
        description = "activations computed twice: slower, and no smaller than with smaller microbatches"
        changes.append(change(description, "--gradient-checkpointing", gradient_checkpointing=True))
    if gpu and plan.precision == "fp32" and gpu.capability >= (7, 0):
        precision = choose_precision(gpu.capability)
        changes.append(change(f"{precision} matrix products", f"--precision {precision}", precision=precision))
    if instances > 1 and fixed:
        fewer = instances // 2
        description = f"{fewer} episodes an iteration in place of {instances}: noisier updates, more often"
        flag = f"--num-envs {fewer}"
        changes.append(change(description, flag, samples=samples * fewer // instances, instances=fewer))
    return [each for each in changes if each.saves > 0]


def _enough(setup: Setup, gpu: Gpu, instances: int) -> str:
    """Return the flag of the largest halved number of episodes an iteration that fits; empty for none."""
    while instances > 1:
        instances //= 2
        if has_room(gpu, plan_settings(setup.changed(num_envs=instances))):
            return f"--num-envs {instances}"
    return ""


def print_report(report: PlanReport, console: Console) -> None:
    """Print tables: bytes by component, predicted times, changes."""
    console.print(_memory_table(report))
    if report.prediction.seconds:
        console.print(_time_table(report))
    if report.changes:
        table = Table("what needs less memory", "flag", "saves", title="Changes", title_justify="left")
        for change in report.changes:
            table.add_row(change.description, change.flag or "-", format_bytes(change.saves))
        console.print(table)


def _memory_table(report: PlanReport) -> Table:
    table = Table("component", "size", title="Memory of an update", title_justify="left")
    memory, context = report.memory, report.context_bytes
    for name, size in asdict(memory).items():
        if name not in ("joining", "values"):
            table.add_row(name, format_bytes(size))
    if context:
        table.add_row("CUDA context (about, unconfirmed)", format_bytes(context))
    table.add_section()
    table.add_row("peak of an update", format_bytes(memory.peak + context))
    if memory.before_steps > memory.indices + memory.activations:
        table.add_row("   reached before the first step, with", format_bytes(memory.before_steps))
    table.add_row(f"room ({SAFETY:.0%} of what is free)", format_bytes(report.room + context))
    return table


def _time_table(report: PlanReport) -> Table:
    table = Table("resource", "time", "", title="Predicted time of an update", title_justify="left")
    prediction, work = report.prediction, report.prediction.work
    assert work is not None
    card = card_of(report.gpu) if report.gpu else None
    bus = format_bytes(roofline.bus_bytes_per_second(card) if card else roofline.BUS_BYTES_PER_SECOND)
    details = {
        "arithmetic": f"{(work.flops + work.wide_flops) / 1e12:.2f} TFLOP at the card's peak{_unconfirmed(report)}",
        "traffic": f"{format_bytes(work.traffic)} at the bandwidth of its memory",
        "launches": _format_launches(work),
        "transfers": f"{format_bytes(work.transfers)}, {bus}/s (assumed)",
    }
    for name, detail in details.items():
        binds = "; binds" if name == prediction.binding else ""
        table.add_row(name, format_duration(prediction.seconds[name]), detail + binds)
    table.add_section()
    for execution, seconds in prediction.by_execution.items():
        expected = "; expected" if execution == prediction.execution and len(prediction.by_execution) > 1 else ""
        table.add_row(f"update, {execution}", format_duration(seconds), f"UPDATE_EXECUTION {execution}{expected}")
    return table


def _format_launches(work: Work) -> str:
    words = f"{work.launches:,} launches, {format_duration(roofline.LAUNCH_SECONDS)} each"
    if work.replayed:
        words += f", and {work.replayed:,} operations in graphs, {format_duration(roofline.REPLAY_SECONDS)} each"
    return f"{words} (assumed)"


def _unconfirmed(report: PlanReport) -> str:
    card = card_of(report.gpu) if report.gpu else None
    wide = "tf32" if report.wanted.tf32 else "fp32"
    formats = {report.wanted.precision if report.wanted.precision != "fp32" else wide, wide}
    return " (unconfirmed)" if card and any((card.name, name) in UNCONFIRMED for name in formats) else ""
