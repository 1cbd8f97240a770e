"""What a plan depends on, machine and wishes: plain data, detected or written by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from longstride.hardware.operations import NO_OPERATIONS, Operations

Precision = Literal["bf16", "fp16", "fp32"]
Execution = Literal["eager", "numba", "torch_compile", "graph", "torch_compile_graph"]
"""Execution of the update's steps: torch operation by operation; compiled kernels of our own, on the CPU only; compiled
by torch; on a GPU captured as a CUDA graph, or compiled and captured."""

COMPILED_BY_TORCH: frozenset[Execution] = frozenset({"torch_compile", "torch_compile_graph"})
CAPTURED: frozenset[Execution] = frozenset({"graph", "torch_compile_graph"})


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU, or the slice of one that MIG gives this process."""

    name: str  # name that the driver gives, for example "NVIDIA H200"
    capability: tuple[int, int]  # compute capability, (major, minor)
    total_bytes: int  # all memory of the device
    free_bytes: int  # memory of the whole device that no process uses
    uuid: str = ""  # UUID of the device, without `GPU-` or `MIG-`; empty if unknown
    mig: bool = False  # whether the device is a slice, whose memory and processes are not those of other slices
    # number of other processes that compute on the device; None if unknown (no NVML, or MIG)
    other_processes: int | None = None
    context_bytes: int = 0  # part of the free bytes that CUDA will take for this process; 0 where it has done so

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
    """Cores, memory and GPUs."""

    physical_cores: int  # cores of the machine, without hyper-threads
    usable_cores: int  # cores that this process may keep busy
    total_bytes: int  # memory of the host, or the limit of the control group (a container's limit)
    free_bytes: int  # memory of the host that is available without swapping and within that limit
    gpus: tuple[Gpu, ...] = ()  # GPUs that torch can use, in torch's order, which respects CUDA_VISIBLE_DEVICES
    gpu_note: str = ""  # reason for having no GPU, for people who expect one; empty if there is one
    cores_note: str = ""  # reason for having fewer usable cores than cores; empty if all are usable
    driver: str = ""  # version of the NVIDIA driver; empty if unknown
    system: str = "Linux"  # "Linux", "Windows", "Darwin"
    allocator: str = ""  # settings of torch's CUDA allocator in the environment; usually empty
    cpu_bf16: str = ""  # instructions of the CPU for products in BF16, for example "AVX512-BF16"; empty without

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that a run uses: the first."""
        return self.gpus[0] if self.gpus else None

    def with_gpu(self, gpu: Gpu) -> "Machine":
        """Return this host with another GPU as its only one."""
        return replace(self, gpus=(gpu,), gpu_note="")


@dataclass(frozen=True)
class HostRollout:
    """Host memory of an iteration's trajectories."""

    copies: int = 0  # environment instances that play at once, each with a trajectory of its own
    decisions: int = 0  # steps that an instance is expected to play in an iteration, or may play at most
    rows: int = 0  # steps that an instance has room for
    row_bytes: int = 0  # memory of all rows of an instance
    at_most: bool = False  # whether the steps may be far fewer, because the length of an episode is unknown
    bytes: int = 0  # memory of the expected steps of all instances. Rows that are never written take none
    pinned_bytes: int = 0  # memory of all rows of all instances, which a GPU's pinned memory takes at once
    state_bytes: int = 0  # of them, or of the expected steps, the states of a policy with memory before chunks


@dataclass(frozen=True)
class CollectionWork:
    """What the policy computes while rollouts are collected."""

    weights: int = 0  # numbers of the actor's matrices, each used once for an observation
    answer: Operations = NO_OPERATIONS  # of a forward pass of a batch, by its rows
    bf16_answer: Operations = NO_OPERATIONS  # the same with states in BF16; none if they are never kept so
    states_problem: str = ""  # why they are never kept so, a phrase; empty if they are
    row_bytes: int = 0  # bytes that cross the bus for an observation and its outputs
    card_bytes: int = 0  # memory of parameters and states on a GPU
    problem: str = ""  # why a batch cannot answer, a phrase; empty if it can


@dataclass(frozen=True)
class PlanSettings:
    """Wishes of the user and needs of the run, as far as they depend on the machine."""

    device: str  # "auto", "cpu" or "cuda"
    precision: Precision | Literal["auto"]  # "auto", or the format that the user insists on
    mixed_precision: bool  # whether BF16 or FP16 is wanted where the GPU has it
    tf32: bool  # whether TF32 is wanted where the GPU has it
    auto_batch: bool  # whether the minibatch is chosen from samples and memory
    largest_batch: int  # most samples in a minibatch
    samples: int  # expected number of samples in a rollout
    bytes_per_sample: Mapping[bool, int]  # bytes of a microbatch's sample, by whether half precision is used
    widest_layer: int  # units of the widest layer
    parallel_episodes: int  # episodes played at once
    parallel_reason: str  # reason for that number
    simulation_threads: int  # threads that play; 0 for all usable cores
    update_threads: int  # threads of the update; 0 for all usable cores
    batch_reason: str = ""  # what limits the minibatch, a phrase, if BATCH_SIZE does not; else empty
    fixed_bytes: int = 0  # bytes of an update that do not depend on the microbatch
    joining_bytes: int = 0  # bytes needed on the device before the first step
    update_execution: Execution | Literal["auto"] = "auto"  # "auto", or the execution that the user insists on
    kernel_problem: str = ""  # why the compiled kernels cannot take the steps, a phrase; empty if they can
    varying_shapes: str = ""  # why steps can be neither captured nor compiled by torch, a phrase; empty if they can
    checkpointing: bool = False  # whether the backward pass computes activations again
    whole_episodes: bool = True  # whether each instance plays one episode from its beginning to its end
    # operations of an eager step in one piece, by whether half precision is used
    step_launches: Mapping[bool, int] = field(default_factory=dict)
    rollout: HostRollout = HostRollout()  # memory of the trajectories on the host
    collect_on: Literal["auto", "cpu", "gpu", "torch"] = "cpu"  # where the policy answers, or "auto"
    collection: CollectionWork = CollectionWork()  # what it computes there
