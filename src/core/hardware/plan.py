"""From settings and machine to the plan of a run: pure, printable, every choice with its reason."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from core.errors import UserError
from core.hardware.machine import Machine
from core.hardware.memory import SAFETY, auto_batch_size

Precision = Literal["bf16", "fp16", "fp32"]

_CPU_MICROBATCH = 2048
"""Samples whose activations stay in the caches of a CPU core (about 7 KiB a sample)."""


@dataclass(frozen=True)
class Plan:
    """How a run uses the machine.

    Attributes:
        device: ``"cuda"`` or ``"cpu"``.
        device_name: for people.
        precision: of matrix products in the update.
        tf32: whether float32 products on the GPU use TF32.
        cudnn_benchmark: whether cuDNN tries kernels.
        batch_size: most samples in a minibatch.
        microbatch: most samples in one forward pass.
        simulation_threads: threads that play episodes.
        update_threads: torch's threads.
        reasons: for each choice a phrase.
    """

    device: Literal["cuda", "cpu"]
    device_name: str
    precision: Precision
    tf32: bool
    cudnn_benchmark: bool
    batch_size: int
    microbatch: int
    simulation_threads: int
    update_threads: int
    reasons: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def make_plan(
    machine: Machine,
    *,
    device: str,
    mixed_precision: bool,
    tf32: bool,
    auto_batch: bool,
    largest_batch: int,
    samples: int,
    bytes_per_sample: dict[bool, int],
    episodes_per_update: int,
    simulation_threads: int,
    update_threads: int,
) -> Plan:
    """Choose how a run uses a machine.

    Args:
        machine: what is here.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        mixed_precision: whether BF16 or FP16 is wanted where the GPU has it.
        tf32: whether TF32 is wanted where the GPU has it.
        auto_batch: choose the minibatch from samples and memory.
        largest_batch: most samples in a minibatch.
        samples: expected number in a rollout.
        bytes_per_sample: from :func:`core.hardware.memory.sample_bytes`, by whether half precision is used.
        episodes_per_update: episodes played at once.
        simulation_threads: 0 for all physical cores.
        update_threads: 0 for all physical cores.

    Raises:
        UserError: a GPU is demanded and there is none.
    """
    gpu = machine.gpu if device != "cpu" else None
    if device == "cuda" and gpu is None:
        raise UserError(f"DEVICE is cuda, but {machine.gpu_note}; set DEVICE to auto or cpu, or mend the installation.")
    reasons = {"device": "a GPU is here" if gpu else "DEVICE is cpu" if machine.gpu else machine.gpu_note}
    precision = choose_precision(mixed_precision, gpu.capability if gpu else None)
    if gpu is None:
        reasons["precision"] = "the CPU updates in FP32"
    else:
        wanted = f"compute capability {gpu.capability[0]}.{gpu.capability[1]}"
        reasons["precision"] = wanted if mixed_precision else "USE_MIXED_PRECISION is off"
    ampere = gpu is not None and gpu.capability >= (8, 0)
    free = gpu.free_bytes if gpu else machine.free_bytes
    per_sample = bytes_per_sample[precision != "fp32"]
    batch = auto_batch_size(samples, free, per_sample, largest_batch) if auto_batch else largest_batch
    memory = int(free * SAFETY) // per_sample
    reasons["batch_size"] = (
        f"{samples:,} samples, BATCH_SIZE {largest_batch:,}, memory would allow {memory:,}"
        if auto_batch
        else "AUTO_BATCH_SIZE is off"
    )
    cores = machine.physical_cores
    return Plan(
        device="cuda" if gpu else "cpu",
        device_name=gpu.name if gpu else "CPU",
        precision=precision,
        tf32=tf32 and ampere,
        cudnn_benchmark=gpu is not None,
        batch_size=batch,
        microbatch=batch if gpu else min(batch, _CPU_MICROBATCH),
        simulation_threads=min(simulation_threads or cores, episodes_per_update),
        update_threads=update_threads or cores,
        reasons=reasons,
    )


def choose_precision(mixed: bool, capability: tuple[int, int] | None) -> Precision:
    """Return the format of matrix products: BF16 from compute capability 8.0, FP16 on 7.x, else FP32.

    Args:
        mixed: whether mixed precision is wanted at all.
        capability: of the GPU; None without one.
    """
    if not mixed or capability is None or capability < (7, 0):
        return "fp32"
    return "bf16" if capability >= (8, 0) else "fp16"
