"""Each choice of a plan: a pure function that returns what is chosen and the reason, a phrase."""

from typing import Literal

from core.errors import UserError
from core.hardware.planning.gpu_catalog import TierDefaults, tier_of
from core.hardware.planning.number_formats import Chosen, optional
from core.hardware.planning.update_memory import SAFETY, auto_batch_size
from core.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution, Gpu, Machine, PlanSettings, Precision

CPU_MICROBATCH = 2048
"""Samples whose activations stay in the caches of a CPU core (about 7 KiB a sample in FP32)."""

TOGETHER = 8
"""Most episodes side by side: 16 are no faster (docs/benchmarks.md)."""

_SMALLEST_MICROBATCH = 256
"""Samples that a GPU must have room for; below that the CPU is the better place."""

_WIDEST_COMPILED = 512
"""Units. With 256 compiled steps take 0.5 to 0.9 of torch's time, with 1,024 the same (docs/benchmarks.md)."""


def device(machine: Machine, settings: PlanSettings) -> tuple[Gpu | None, str]:
    """Choose the GPU, if there is one with room, or the CPU.

    Raises:
        UserError: a GPU is demanded and there is none, or it has no room.
    """
    gpu = machine.gpu
    if gpu is None:
        problem, remedy = machine.gpu_note, "set DEVICE to auto or cpu, or mend the installation"
    elif settings.device == "cpu":
        return None, "DEVICE is cpu"
    elif not has_room(gpu, settings):
        problem = f"the {_room(gpu)}, too little for an update"
        remedy = (
            "free its memory, lower EPISODES_PER_UPDATE, name another in CUDA_VISIBLE_DEVICES, or set DEVICE to cpu"
        )
    else:
        more = f", the first of {len(machine.gpus)}, as an update uses one" if len(machine.gpus) > 1 else ""
        return gpu, f"a GPU is here{more} (tier {tier_of(gpu)}): {_room(gpu)}"
    if settings.device == "cuda":
        raise UserError(f"DEVICE is cuda, but {problem}; {remedy}.")
    return None, problem


def has_room(gpu: Gpu, settings: PlanSettings) -> bool:
    """Return whether a GPU has room for the rollout and a small microbatch of an update."""
    least = min(_SMALLEST_MICROBATCH, settings.samples)
    joined = settings.joining_bytes <= gpu.usable_bytes * SAFETY
    return joined and samples_in(settings, gpu.usable_bytes, half=False) >= least


def samples_in(settings: PlanSettings, free_bytes: int, half: bool) -> int:
    """Return the samples that free memory holds at once beside all else, with the safety margin; 0 for none."""
    return max(int(free_bytes * SAFETY) - settings.fixed_bytes, 0) // settings.bytes_per_sample[half]


def room_for_samples(settings: PlanSettings, machine: Machine, gpu: Gpu | None, half: bool) -> int:
    """Return the samples that a plan lets an update hold at once.

    On a CPU at least those of a microbatch, which can be made smaller still: memory that is short there must not leave
    minibatches of a single sample.
    """
    if gpu is None:
        return max(samples_in(settings, machine.free_bytes, half), CPU_MICROBATCH)
    return samples_in(settings, gpu.usable_bytes, half)


def batch_size(settings: PlanSettings, room: int) -> tuple[int, str]:
    """Choose the minibatch: the user's, or the power of two within samples, memory and the user's limit.

    Args:
        settings: what the user wants.
        room: samples that memory holds at once.

    Raises:
        UserError: the user's is not positive.
    """
    largest = settings.largest_batch
    if largest < 1:
        raise UserError(f"BATCH_SIZE is {largest}; a minibatch has at least one sample.")
    if not settings.auto_batch:
        return largest, "AUTO_BATCH_SIZE is off"
    reason = f"{settings.samples:,} samples, BATCH_SIZE {largest:,}, memory would allow {room:,}"
    return auto_batch_size(settings.samples, room, largest), reason


def microbatch(batch: int, gpu: Gpu | None, room: int, execution: str, half: bool) -> tuple[int, str]:
    """Choose how many samples go through the network at once; their gradients add up to the minibatch's."""
    if gpu is None:
        most = 2 * CPU_MICROBATCH if half else CPU_MICROBATCH
        smaller = "; compiled steps cut it smaller" if execution == "compiled" else ""
        return min(batch, most), f"activations of {most:,} samples stay in a core's caches{smaller}"
    if batch <= room:
        return batch, "the whole minibatch fits in memory"
    return auto_batch_size(batch, room, batch), f"memory holds {room:,} samples at once"


def parallel_episodes(settings: PlanSettings, gpu: Gpu | None, usual: TierDefaults) -> tuple[int, str]:
    """Say how many episodes are played at once, which decides what is learned: the machine has no say in it."""
    reason = settings.parallel_reason
    if gpu and usual.parallel_episodes > settings.parallel_episodes:
        reason += f"; {usual.parallel_episodes:,}, usual on this card, are for policies that act on a GPU"
    return settings.parallel_episodes, reason


def simulation_threads(settings: PlanSettings, machine: Machine) -> tuple[int, str]:
    """Choose the threads that play: one an episode, as far as there are cores."""
    threads, reason = _threads("SIMULATION_THREADS", settings.simulation_threads, machine)
    if threads <= settings.parallel_episodes:
        return threads, reason
    return settings.parallel_episodes, f"one for each episode played at once ({reason})"


def lockstep(settings: PlanSettings, threads: int) -> tuple[int, str]:
    """Choose how many episodes a thread plays side by side, one decision of each in turns."""
    if not settings.whole_episodes:
        return 1, "a copy that plays episode after episode has a loop to itself"
    if settings.parallel_episodes <= threads:
        return 1, "no more episodes than threads"
    return TOGETHER, "at most, of a thread's episodes: a part of the weights is read once for all of them"


def update_threads(settings: PlanSettings, machine: Machine) -> tuple[int, str]:
    """Choose torch's threads."""
    return _threads("UPDATE_THREADS", settings.update_threads, machine)


def update_execution(
    settings: PlanSettings, gpu: Gpu | None, why_device: str, precision: Precision
) -> tuple[Execution | Literal["auto"], str]:
    """Choose how the steps of an update run; ``"auto"`` on a GPU, where the first update tries what the plan allows.

    On a CPU nothing is tried, so that the same seed gives the same policy: what is faster was measured
    (docs/benchmarks.md).

    Raises:
        UserError: the device has not what is demanded, or compiled kernels with gradient checkpointing or in BF16.
    """
    wanted = settings.update_execution
    if gpu and wanted == "compiled":
        raise UserError("UPDATE_EXECUTION is compiled, which is for the CPU; set it to auto, or DEVICE to cpu.")
    if gpu is None and wanted in CAPTURED:
        problem = f"which is for a GPU, but the update runs on the CPU ({why_device})"
        raise UserError(f"UPDATE_EXECUTION is {wanted}, {problem}; set it to auto, compiled, compile or eager.")
    if wanted == "compiled" and settings.checkpointing:
        raise UserError(
            "GRADIENT_CHECKPOINTING is for torch's steps, but UPDATE_EXECUTION is compiled; drop one of the two."
        )
    if wanted == "compiled" and precision != "fp32":
        raise UserError(
            "UPDATE_EXECUTION is compiled, which knows only FP32, but PRECISION is bf16; drop one of the two."
        )
    if wanted != "auto":
        checked = ", checked against eager steps first" if wanted in COMPILED_BY_TORCH | CAPTURED else ""
        return wanted, f"UPDATE_EXECUTION is {wanted}{checked}"
    if gpu:
        return "auto", "the first update keeps the fastest that computes what eager steps do"
    if settings.checkpointing:
        return "eager", "GRADIENT_CHECKPOINTING is on, which compiled kernels have not"
    if precision != "fp32":
        return (
            "eager",
            "compiled kernels know only FP32; torch's compiler is slower in BF16 with relu, a little faster with tanh",
        )
    if settings.widest_layer > _WIDEST_COMPILED:
        return "eager", f"torch is as fast with layers of more than {_WIDEST_COMPILED} units, and compiles nothing"
    return "compiled", "compiled kernels are faster than torch on the CPU, most of all for small networks"


def compile_steps(settings: PlanSettings, gpu: Gpu | None, usual: TierDefaults) -> Chosen:
    """Choose whether steps go through torch.compile, or are tried so."""
    word = "usual" if usual.compile else "not usual"
    return _execution("compile", COMPILED_BY_TORCH, settings, gpu, usual.compile, f"{word} on this card")


def graph_capture(settings: PlanSettings, gpu: Gpu | None, half: bool) -> Chosen:
    """Choose whether a step is captured once and replayed as a CUDA graph, or that is tried."""
    count = settings.step_launches.get(half)
    why = f"one launch a step in place of about {count or 'two hundred'}"
    return _execution("graph_capture", CAPTURED, settings, gpu, True, why)


def _execution(
    part: str, executions: frozenset[Execution], settings: PlanSettings, gpu: Gpu | None, wanted: bool, why: str
) -> Chosen:
    """Switch a part of the updater on or off as UPDATE_EXECUTION says, else where it is wanted."""
    insisted = settings.update_execution
    if insisted in executions or (gpu and insisted != "auto"):
        return insisted in executions, why if insisted in executions else f"UPDATE_EXECUTION is {insisted}"
    return optional(part, settings, gpu, wanted, why)


def gradient_checkpointing(settings: PlanSettings, gpu: Gpu | None) -> Chosen:
    """Say whether activations are computed twice, which is for the user to decide."""
    if settings.checkpointing:
        return True, "GRADIENT_CHECKPOINTING is on: activations are computed twice and take less memory"
    return False, "microbatches save memory without computing anything twice" if gpu else "no GPU"


def allocator(machine: Machine, gpu: Gpu | None) -> tuple[str, str]:
    """Choose the settings of torch's CUDA allocator."""
    if gpu is None:
        return "default", "no GPU"
    if machine.allocator:
        return machine.allocator, "the environment says so (PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF)"
    if machine.system != "Linux":
        return "default", "expandable segments are for Linux"
    return "expandable_segments:True", "less memory is lost between blocks of different sizes"


def _threads(name: str, wanted: int, machine: Machine) -> tuple[int, str]:
    cores = machine.usable_cores
    if wanted:
        return wanted, f"{name} is {wanted}" + (f", more than the {cores} usable cores" if wanted > cores else "")
    note = f"; {machine.cores_note}" if machine.cores_note else ""
    return cores, f"{cores} usable {'core' if cores == 1 else 'cores'}{note}"


def _room(gpu: Gpu) -> str:
    count = gpu.other_processes
    others = f", {count} other {'process uses' if count == 1 else 'processes use'} it" if count else ""
    mig = " (a MIG slice)" if gpu.mig else ""
    return f"{gpu.name}{mig} has {gpu.free_bytes / 1e9:.1f} of {gpu.total_bytes / 1e9:.1f} GB free{others}"
