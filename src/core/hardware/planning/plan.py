"""From settings and machine to the plan of a run: pure, printable, every choice with its reason."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from core.hardware.planning import choices, host_memory, number_formats
from core.hardware.planning.gpu_catalog import Tier, TierDefaults, tier_defaults, tier_of
from core.hardware.types import Execution as Execution
from core.hardware.types import Machine, PlanSettings
from core.hardware.types import Precision as Precision

SCHEMA = 2
"""Of plan.json; counts up when a name changes its meaning or goes away."""

_ON_A_GPU = ("tf32", "cudnn_benchmark", "compile", "graph_capture", "gradient_checkpointing", "fp8", "allocator")
"""Choices that a CPU run does not have to print."""


_TRIED: tuple[Execution, ...] = ("graph", "compile", "compile_graph")


@dataclass(frozen=True)
class Plan:
    """How a run uses the machine.

    Attributes:
        device: ``"cuda"`` or ``"cpu"``.
        device_name: for people.
        tier: of the GPU, ``"cpu"`` without one.
        usual: what is usual on such a card, for comparison.
        precision: of matrix products in the update.
        tf32: whether float32 products on the GPU use TF32.
        cudnn_benchmark: whether cuDNN tries kernels.
        batch_size: most samples in a minibatch.
        microbatch: most samples in one forward pass.
        parallel_episodes: copies of the simulator that play in a round.
        trajectory_bytes: of the host's memory that their trajectories take.
        simulation_threads: threads that play them.
        lockstep: most episodes that a thread plays side by side.
        update_threads: torch's threads.
        update_execution: how steps run; ``"auto"`` for the fastest of what the next two allow.
        compile: whether steps are compiled by torch, or that is tried.
        graph_capture: whether steps are replayed as a CUDA graph, or that is tried.
        gradient_checkpointing: whether activations are computed twice to save memory.
        fp8: whether matrix products take 8-bit inputs.
        allocator: settings of torch's CUDA allocator, ``"default"`` for none.
        reasons: for each choice, from ``device`` on, a phrase.
    """

    device: Literal["cuda", "cpu"]
    device_name: str
    tier: Tier
    usual: TierDefaults
    precision: Precision
    tf32: bool
    cudnn_benchmark: bool
    batch_size: int
    microbatch: int
    parallel_episodes: int
    trajectory_bytes: int
    simulation_threads: int
    lockstep: int
    update_threads: int
    update_execution: Execution | Literal["auto"]
    compile: bool
    graph_capture: bool
    gradient_checkpointing: bool
    fp8: bool
    allocator: str
    reasons: dict[str, str]

    @property
    def executions(self) -> tuple[Execution, ...]:
        """How steps may run: the one that was chosen, or those to try."""
        if self.update_execution != "auto":
            return (self.update_execution,)
        allowed = {"compile": self.compile, "graph": self.graph_capture}
        allowed["compile_graph"] = self.compile and self.graph_capture
        return ("eager", *(each for each in _TRIED if allowed[each]))

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    def lines(self) -> list[str]:
        """Return a line for each choice that this device has: what, which, why."""
        shown = [
            name
            for name in self.reasons
            if self.device == "cuda" or name not in _ON_A_GPU or getattr(self, name) is True
        ]
        return [f"{_label(name)} {_in_words(name, getattr(self, name))}: {self.reasons[name]}" for name in shown]


def make_plan(machine: Machine, settings: PlanSettings) -> Plan:
    """Choose how a run uses a machine.

    Args:
        machine: what is here, or :func:`core.hardware.planning.gpu_catalog.machine_with` for a card that is not.
        settings: what the user wants and what the run needs.

    Raises:
        UserError: settings contradict each other or the machine.
    """
    gpu, device_reason = choices.device(machine, settings)
    precision, precision_reason = number_formats.precision(settings, machine, gpu, device_reason)
    room = choices.room_for_samples(settings, machine, gpu, precision != "fp32")
    batch = choices.batch_size(settings, room)
    execution = choices.update_execution(settings, gpu, device_reason, precision)
    usual = tier_defaults(gpu)
    threads = choices.simulation_threads(settings, machine)
    chosen: dict[str, tuple[Any, str]] = {
        "device": ("cuda" if gpu else "cpu", device_reason),
        "precision": (precision, precision_reason),
        "tf32": number_formats.tf32(settings, gpu),
        "cudnn_benchmark": (
            gpu is not None,
            "kernels are tried once for shapes that stay the same" if gpu else "no GPU",
        ),
        "batch_size": batch,
        "microbatch": choices.microbatch(batch[0], gpu, room, execution[0], precision != "fp32"),
        "parallel_episodes": choices.parallel_episodes(settings, gpu, usual),
        "trajectory_bytes": host_memory.trajectories(settings.rollout, machine, gpu is not None),
        "simulation_threads": threads,
        "lockstep": choices.lockstep(settings, threads[0]),
        "update_threads": choices.update_threads(settings, machine),
        "update_execution": execution,
        "compile": choices.compile_steps(settings, gpu, usual),
        "graph_capture": choices.graph_capture(settings, gpu, precision != "fp32"),
        "gradient_checkpointing": choices.gradient_checkpointing(settings, gpu),
        "fp8": number_formats.fp8(settings, gpu, usual),
        "allocator": choices.allocator(machine, gpu),
    }
    return Plan(
        device_name=gpu.name if gpu else "CPU",
        tier=tier_of(gpu),
        usual=usual,
        reasons={name: reason for name, (_, reason) in chosen.items()},
        **{name: value for name, (value, _) in chosen.items()},
    )


def _label(name: str) -> str:
    return {"batch_size": "batch", "trajectory_bytes": "trajectory"}.get(name, name.replace("_", " "))


def _in_words(name: str, value: Any) -> str:
    if name == "trajectory_bytes":
        return f"{host_memory.in_megabytes(value)} a round"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
