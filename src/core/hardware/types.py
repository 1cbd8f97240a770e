"""What a plan depends on, machine and wishes: plain data, made by asking or by hand."""

from dataclasses import dataclass, field, replace
from typing import Literal

Precision = Literal["bf16", "fp16", "fp32"]
Execution = Literal["eager", "compiled", "compile", "graph", "compile_graph"]
"""Of the update's steps: torch operation by operation; compiled kernels of our own, on the CPU only; compiled by torch;
and on a GPU captured as a CUDA graph, or compiled and captured."""

COMPILED_BY_TORCH: frozenset[Execution] = frozenset({"compile", "compile_graph"})
CAPTURED: frozenset[Execution] = frozenset({"graph", "compile_graph"})


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU, or the slice of one that MIG gives this process.

    Attributes:
        name: as the driver gives it, for example ``"NVIDIA H200"``.
        capability: compute capability, (major, minor).
        total_bytes: all memory.
        free_bytes: memory that nobody uses now, on the whole device.
        uuid: of the device, without ``GPU-`` or ``MIG-``; empty if unknown.
        mig: whether it is a slice, of which other slices' memory and processes are no part.
        other_processes: that compute on it now; None if nobody can say (no NVML, or MIG).
        context_bytes: of the free ones that CUDA will take for this process; 0 where it has done so.
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


@dataclass(frozen=True)
class Machine:
    """Cores, memory and GPUs.

    Attributes:
        physical_cores: of the machine, without hyper-threads.
        usable_cores: those of them that this process may keep busy.
        total_bytes: memory of the host, or what the control group (a container's limit) allows.
        free_bytes: memory of the host that can be had without swapping and within that limit.
        gpus: those that torch can use, in torch's order, which respects CUDA_VISIBLE_DEVICES.
        gpu_note: why there is no GPU, for people who expect one; empty if there is one.
        cores_note: why fewer cores are usable than there are; empty if all are.
        numa_nodes: for each NUMA node with usable logical CPUs, their numbers; empty if the system does not say.
        driver: version of the NVIDIA driver; empty if unknown.
        system: ``"Linux"``, ``"Windows"``, ``"Darwin"``.
        allocator: what the environment already tells torch's CUDA allocator; usually empty.
        cpu_bf16: the instructions of the CPU for products in BF16, for example ``"AVX512-BF16"``; empty without.
    """

    physical_cores: int
    usable_cores: int
    total_bytes: int
    free_bytes: int
    gpus: tuple[Gpu, ...] = ()
    gpu_note: str = ""
    cores_note: str = ""
    numa_nodes: tuple[tuple[int, ...], ...] = ()
    driver: str = ""
    system: str = "Linux"
    allocator: str = ""
    cpu_bf16: str = ""

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that a run uses: the first."""
        return self.gpus[0] if self.gpus else None

    def with_gpu(self, gpu: Gpu) -> "Machine":
        """Return this host with one other GPU in it."""
        return replace(self, gpus=(gpu,), gpu_note="")


@dataclass(frozen=True)
class HostRollout:
    """What the trajectories of a round take of the host's memory.

    Attributes:
        copies: that play at once, each with a trajectory of its own.
        decisions: that a copy is expected to play in a round, or may play at most.
        rows: that a copy has room for.
        at_most: whether it may well be fewer, because nobody knows how long an episode is.
        bytes: of so many decisions of all copies. Rows that are never written are never taken from the system.
        pinned_bytes: of all rows of all copies, which are taken at once where a GPU reads them (pinned memory).
    """

    copies: int = 0
    decisions: int = 0
    rows: int = 0
    at_most: bool = False
    bytes: int = 0
    pinned_bytes: int = 0


@dataclass(frozen=True)
class PlanSettings:
    """What the user wants and what the run needs, as far as the machine has a say in it.

    Attributes:
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: ``"auto"``, or the format that is insisted on.
        mixed_precision: whether BF16 or FP16 is wanted where the GPU has it.
        tf32: whether TF32 is wanted where the GPU has it.
        auto_batch: choose the minibatch from samples and memory.
        largest_batch: most samples in a minibatch.
        samples: expected number in a rollout.
        bytes_per_sample: from ``planning.update_memory.bytes_of_a_sample``, by whether half precision is used.
        fixed_bytes: of an update, beside those of the samples of a microbatch.
        joining_bytes: that are needed on the device before the first step, while the rollout is put together.
        widest_layer: units.
        parallel_episodes: played at once.
        parallel_reason: where that number comes from.
        simulation_threads: 0 for all usable cores.
        update_threads: 0 for all usable cores.
        abilities: optional parts that the updater has, of ``compile``, ``graph_capture``, ``fp8``.
        update_execution: ``"auto"``, or the one that is insisted on.
        checkpointing: whether the backward pass shall compute activations again.
        whole_episodes: whether each copy plays one episode from its beginning to its end.
        step_launches: operations of an eager step in one piece, by whether half precision is used.
        rollout: bytes of the trajectories on the host.
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
    abilities: frozenset[str] = frozenset()
    fixed_bytes: int = 0
    joining_bytes: int = 0
    update_execution: Execution | Literal["auto"] = "auto"
    checkpointing: bool = False
    whole_episodes: bool = True
    step_launches: dict[bool, int] = field(default_factory=dict)
    rollout: HostRollout = HostRollout()
