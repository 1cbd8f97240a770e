"""What a plan depends on, machine and wishes: plain data, detected or written by hand."""

from dataclasses import dataclass, field, replace
from typing import Literal

Precision = Literal["bf16", "fp16", "fp32"]
Execution = Literal["eager", "compiled", "compile", "graph", "compile_graph"]
"""Execution of the update's steps: torch operation by operation; compiled kernels of our own, on the CPU only; compiled
by torch; on a GPU captured as a CUDA graph, or compiled and captured."""

COMPILED_BY_TORCH: frozenset[Execution] = frozenset({"compile", "compile_graph"})
CAPTURED: frozenset[Execution] = frozenset({"graph", "compile_graph"})


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU, or the slice of one that MIG gives this process.

    Attributes:
        name: name that the driver gives, for example ``"NVIDIA H200"``.
        capability: compute capability, (major, minor).
        total_bytes: all memory of the device.
        free_bytes: memory of the whole device that no process uses.
        uuid: UUID of the device, without ``GPU-`` or ``MIG-``; empty if unknown.
        mig: whether the device is a slice, whose memory and processes are not those of other slices.
        other_processes: number of other processes that compute on the device; None if unknown (no NVML, or MIG).
        context_bytes: part of the free bytes that CUDA will take for this process; 0 where it has done so.
    """

    name: str
    capability: tuple[int, int]
    total_bytes: int
    free_bytes: int
    uuid: str = ""
    mig: bool = False
    other_processes: int | None = None
    context_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """Memory for tensors."""
        return max(self.free_bytes - self.context_bytes, 0)

    @property
    def compute(self) -> str:
        """Compute capability as text, for example ``"9.0"``."""
        return f"{self.capability[0]}.{self.capability[1]}"


@dataclass(frozen=True)
class Machine:
    """Cores, memory and GPUs.

    Attributes:
        physical_cores: cores of the machine, without hyper-threads.
        usable_cores: cores that this process may keep busy.
        total_bytes: memory of the host, or the limit of the control group (a container's limit).
        free_bytes: memory of the host that is available without swapping and within that limit.
        gpus: GPUs that torch can use, in torch's order, which respects CUDA_VISIBLE_DEVICES.
        gpu_note: reason for having no GPU, for people who expect one; empty if there is one.
        cores_note: reason for having fewer usable cores than cores; empty if all are usable.
        driver: version of the NVIDIA driver; empty if unknown.
        system: ``"Linux"``, ``"Windows"``, ``"Darwin"``.
        allocator: settings of torch's CUDA allocator in the environment; usually empty.
        cpu_bf16: instructions of the CPU for products in BF16, for example ``"AVX512-BF16"``; empty without.
    """

    physical_cores: int
    usable_cores: int
    total_bytes: int
    free_bytes: int
    gpus: tuple[Gpu, ...] = ()
    gpu_note: str = ""
    cores_note: str = ""
    driver: str = ""
    system: str = "Linux"
    allocator: str = ""
    cpu_bf16: str = ""

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that a run uses: the first."""
        return self.gpus[0] if self.gpus else None

    def with_gpu(self, gpu: Gpu) -> "Machine":
        """Return this host with another GPU as its only one."""
        return replace(self, gpus=(gpu,), gpu_note="")


@dataclass(frozen=True)
class HostRollout:
    """Host memory of an iteration's trajectories.

    Attributes:
        copies: environment instances that play at once, each with a trajectory of its own.
        decisions: steps that an instance is expected to play in an iteration, or may play at most.
        rows: steps that an instance has room for.
        at_most: whether the steps may be far fewer, because the length of an episode is unknown.
        bytes: memory of the expected steps of all instances. Rows that are never written take none.
        pinned_bytes: memory of all rows of all instances, which a GPU's pinned memory takes at once.
    """

    copies: int = 0
    decisions: int = 0
    rows: int = 0
    at_most: bool = False
    bytes: int = 0
    pinned_bytes: int = 0


@dataclass(frozen=True)
class PlanSettings:
    """Wishes of the user and needs of the run, as far as they depend on the machine.

    Attributes:
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: ``"auto"``, or the format that the user insists on.
        mixed_precision: whether BF16 or FP16 is wanted where the GPU has it.
        tf32: whether TF32 is wanted where the GPU has it.
        auto_batch: whether the minibatch is chosen from samples and memory.
        largest_batch: most samples in a minibatch.
        samples: expected number of samples in a rollout.
        bytes_per_sample: bytes of a microbatch's sample, by whether half precision is used.
        widest_layer: units of the widest layer.
        parallel_episodes: episodes played at once.
        parallel_reason: reason for that number.
        simulation_threads: threads that play; 0 for all usable cores.
        update_threads: threads of the update; 0 for all usable cores.
        fixed_bytes: bytes of an update that do not depend on the microbatch.
        joining_bytes: bytes needed on the device before the first step, while the rollout is joined.
        update_execution: ``"auto"``, or the execution that the user insists on.
        kernel_problem: why the compiled kernels cannot take the steps, a phrase; empty if they can.
        checkpointing: whether the backward pass computes activations again.
        whole_episodes: whether each instance plays one episode from its beginning to its end.
        step_launches: operations of an eager step in one piece, by whether half precision is used.
        rollout: memory of the trajectories on the host.
    """

    device: str
    precision: Precision | Literal["auto"]
    mixed_precision: bool
    tf32: bool
    auto_batch: bool
    largest_batch: int
    samples: int
    bytes_per_sample: dict[bool, int]
    widest_layer: int
    parallel_episodes: int
    parallel_reason: str
    simulation_threads: int
    update_threads: int
    fixed_bytes: int = 0
    joining_bytes: int = 0
    update_execution: Execution | Literal["auto"] = "auto"
    kernel_problem: str = ""
    checkpointing: bool = False
    whole_episodes: bool = True
    step_launches: dict[bool, int] = field(default_factory=dict)
    rollout: HostRollout = HostRollout()
