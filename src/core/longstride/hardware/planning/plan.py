"""From settings and machine to the plan of a run: pure, printable, every choice with its reason."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from longstride.hardware.planning import choices
from longstride.hardware.planning.collection import CollectOn, StateFormat, collect_on, policy_states
from longstride.hardware.planning.gpu_catalog import Tier, TierDefaults, tier_defaults, tier_of
from longstride.hardware.planning.host_memory import trajectories
from longstride.hardware.planning.precision import plan_precision, plan_tf32
from longstride.hardware.types import Execution, Machine, PlanSettings, Precision
from longstride.text import counted, format_bytes

SCHEMA = 3
"""Version of plan.json; counts up when a name changes its meaning or is removed."""

_ON_A_GPU = ("tf32", "cudnn_benchmark", "compile", "graph_capture", "gradient_checkpointing", "allocator")
"""Choices that a CPU run does not have to print."""

_LABELS = {"batch_size": "batch", "trajectory_bytes": "trajectory"}


@dataclass(frozen=True)
class Plan:
    """How a run uses the machine."""

    device: Literal["cuda", "cpu"]
    device_name: str  # of the GPU, or "CPU"
    tier: Tier  # of the GPU, "cpu" without one
    usual: TierDefaults  # defaults of such a card, for comparison
    precision: Precision  # number format of matrix products in the update
    tf32: bool  # whether float32 products on the GPU use TF32
    cudnn_benchmark: bool  # whether cuDNN tries kernels
    batch_size: int  # most samples in a minibatch
    microbatch: int  # most samples in one forward pass
    parallel_episodes: int  # environment instances that play in an iteration
    trajectory_bytes: int  # bytes of the host's memory that their trajectories take
    simulation_threads: int  # threads that play them
    lockstep: int  # most episodes that a thread plays side by side
    collect_on: CollectOn  # where the policy answers meanwhile
    policy_states: StateFormat  # number format of the states that it keeps there
    update_threads: int  # torch's threads
    # execution of the steps; "auto" for the fastest of what the next two allow
    update_execution: Execution | Literal["auto"]
    compile: bool  # whether steps are compiled by torch, or that is tried
    graph_capture: bool  # whether steps are replayed as a CUDA graph, or that is tried
    gradient_checkpointing: bool  # whether activations are computed twice to save memory
    allocator: str  # settings of torch's CUDA allocator, "default" for none
    reasons: dict[str, str]  # a phrase for each choice, from device on, in this order

    @property
    def executions(self) -> tuple[Execution, ...]:
        """How steps may run: the chosen execution, or those to try."""
        if self.update_execution != "auto":
            return (self.update_execution,)
        tried: dict[Execution, bool] = {"graph": self.graph_capture, "torch_compile": self.compile}
        tried["torch_compile_graph"] = self.compile and self.graph_capture
        return ("eager", *(execution for execution, allowed in tried.items() if allowed))

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    def lines(self) -> list[str]:
        """Return a line for each choice that this device has: its name, its value, its reason."""
        names = [n for n in self.reasons if self.device == "cuda" or n not in _ON_A_GPU or getattr(self, n) is True]
        if self.collect_on != "gpu":
            names.remove("policy_states")
        return [f"{_LABELS.get(n, n.replace('_', ' '))} {self._value(n)}: {self.reasons[n]}" for n in names]

    def short_lines(self) -> list[str]:
        """Return two lines about collection and update, without reasons."""
        collect, threads = counted(self.parallel_episodes, "instance"), counted(self.simulation_threads, "thread")
        by = "" if self.collect_on == "cpu" else f", the policy answers on {self.collect_on}"
        trajectories = f"{format_bytes(self.trajectory_bytes)} of trajectories an iteration"
        micro = f" in microbatches of {self.microbatch:,}" if self.microbatch < self.batch_size else ""
        steps = {"auto": "the fastest kind of steps", "numba": "compiled steps"}
        how = steps.get(self.update_execution, f"{self.update_execution} steps")
        how += f" on {counted(self.update_threads, 'thread')}" if self.device == "cpu" else ""
        return [
            f"collect {collect} on {threads}{by}, {trajectories}",
            f"update {self.precision} on {self._where}, minibatches of {self.batch_size:,}{micro}, {how}",
        ]

    @property
    def _where(self) -> str:
        return "the CPU" if self.device == "cpu" else self.device_name.removeprefix("NVIDIA ")

    def _value(self, name: str) -> str:
        value = getattr(self, name)
        if name == "trajectory_bytes":
            return f"{format_bytes(value)} an iteration"
        return ("on" if value else "off") if isinstance(value, bool) else str(value)


def make_plan(machine: Machine, settings: PlanSettings) -> Plan:
    """Choose how a run uses this machine, or that of :func:`longstride.hardware.planning.gpu_catalog.machine_with`.

    Raises:
        UserError: settings contradict each other or the machine.
    """
    gpu, device_reason = choices.device(machine, settings)
    precision, precision_reason = plan_precision(settings, machine, gpu, device_reason)
    tf32, half, usual = plan_tf32(settings, gpu), precision != "fp32", tier_defaults(gpu)
    room = choices.room_for_samples(settings, machine, gpu, half)
    batch = choices.batch_size(settings, room)
    execution = choices.update_execution(settings, gpu, device_reason, precision)
    threads = choices.simulation_threads(settings, machine)
    lockstep = choices.lockstep(settings, threads[0])
    chosen: dict[str, tuple[Any, str]] = {
        "device": ("cuda" if gpu else "cpu", device_reason),
        "precision": (precision, precision_reason),
        "tf32": tf32,
        "cudnn_benchmark": (bool(gpu), "kernels are tried once for shapes that stay the same" if gpu else "no GPU"),
        "batch_size": batch,
        "microbatch": choices.microbatch(batch[0], gpu, room, execution[0], half),
        "parallel_episodes": choices.parallel_episodes(settings, gpu, usual),
        "simulation_threads": threads,
        "lockstep": lockstep,
        "update_threads": choices.threads("UPDATE_THREADS", settings.update_threads, machine),
        "update_execution": execution,
        "compile": choices.compile_steps(settings, gpu, usual),
        "graph_capture": choices.graph_capture(settings, gpu, half),
        "gradient_checkpointing": choices.gradient_checkpointing(settings, gpu),
        "allocator": choices.allocator(machine, gpu),
        "trajectory_bytes": trajectories(settings.rollout, machine, gpu is not None),
        "collect_on": collect_on(settings, gpu, device_reason, tf32[0], threads[0], lockstep[0]),
    }
    chosen["policy_states"] = policy_states(settings, gpu, chosen["collect_on"][0], tf32[0])
    return Plan(
        device_name=gpu.name if gpu else "CPU",
        tier=tier_of(gpu),
        usual=usual,
        reasons={each.name: chosen[each.name][1] for each in fields(Plan) if each.name in chosen},
        **{name: value for name, (value, _) in chosen.items()},
    )
