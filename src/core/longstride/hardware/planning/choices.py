"""Each choice of a plan: a pure function that returns the choice and its reason, a phrase."""

from typing import Literal

from longstride.errors import UserError
from longstride.hardware.planning.gpu_catalog import TierDefaults, tier_of
from longstride.hardware.planning.update_memory import LARGEST_BATCH, SAFETY
from longstride.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution, Gpu, Machine, PlanSettings, Precision
from longstride.text import counted, format_bytes

CPU_MICROBATCH = 2048
"""Samples whose activations stay in the caches of a CPU core (about 7 KiB a sample in FP32)."""

MOST_SIDE_BY_SIDE = 8
"""Most episodes that one thread plays side by side: 16 are no faster (docs/benchmarks.md)."""

_SMALLEST_MICROBATCH = 256
"""Samples that a GPU must have room for; below that the CPU is the better place."""

_WIDEST_COMPILED = 512
"""Units. With 256 compiled steps take 0.5 to 0.9 of torch's time, with 1,024 the same (docs/benchmarks.md)."""


def device(machine: Machine, settings: PlanSettings) -> tuple[Gpu | None, str]:
    """Choose the GPU, if there is one with room, or the CPU.

    Raises:
        UserError: DEVICE demands a GPU, and there is none or it has no room.
    """
    gpu = machine.gpu
    if gpu is None:
        problem, remedy = machine.gpu_note, "set DEVICE to auto or cpu, or mend the installation"
    elif settings.device == "cpu":
        return None, "DEVICE is cpu"
    elif not has_room(gpu, settings):
        problem = f"the {_free_memory(gpu)}, too little for an update"
        remedy = "free its memory, lower NUM_ENVS, name another in CUDA_VISIBLE_DEVICES, or set DEVICE to cpu"
    else:
        count = len(machine.gpus)
        more = (
            f", the first of {count}; longstride-torchrun --nproc-per-node={count} would use all" if count > 1 else ""
        )
        return gpu, f"a GPU is here{more} (tier {tier_of(gpu)}): {_free_memory(gpu)}"
    if settings.device == "cuda":
        raise UserError(f"DEVICE is cuda, but {problem}; {remedy}.")
    return None, problem


def has_room(gpu: Gpu, settings: PlanSettings) -> bool:
    """Return whether a GPU has room for the rollout and a small microbatch of an update."""
    least = min(_SMALLEST_MICROBATCH, settings.samples)
    joined = settings.joining_bytes + _playing_bytes(settings) <= gpu.usable_bytes * SAFETY
    return joined and _samples_in(settings, gpu.usable_bytes, half=False) >= least


def room_for_samples(settings: PlanSettings, machine: Machine, gpu: Gpu | None, half: bool) -> int:
    """Return the samples that a plan lets an update hold at once.

    On a CPU this is at least one microbatch, which can still be made smaller. Short memory must not lead to
    minibatches of a single sample there.
    """
    if gpu is None:
        return max(_samples_in(settings, machine.free_bytes, half), CPU_MICROBATCH)
    return _samples_in(settings, gpu.usable_bytes, half)


def _samples_in(settings: PlanSettings, free_bytes: int, half: bool) -> int:
    """Return the samples that free memory holds beside the fixed bytes, with the safety margin; 0 for none."""
    fixed = settings.fixed_bytes + _playing_bytes(settings)
    return max(int(free_bytes * SAFETY) - fixed, 0) // settings.bytes_per_sample[half]


def _playing_bytes(settings: PlanSettings) -> int:
    """Return the bytes of a policy that the user wants to play on the GPU; ``auto`` is chosen later."""
    return settings.collection.card_bytes if settings.collect_on == "gpu" else 0


def batch_size(settings: PlanSettings, room: int) -> tuple[int, str]:
    """Choose the minibatch: the user's, or the power of two within samples, room (in samples) and the user's limit.

    Raises:
        UserError: BATCH_SIZE is not positive.
    """
    largest = settings.largest_batch
    if largest < 1:
        raise UserError(f"BATCH_SIZE is {largest}; a minibatch has at least one sample.")
    if not settings.auto_batch:
        return largest, "AUTO_BATCH_SIZE is off"
    limit = settings.batch_reason or f"BATCH_SIZE {largest:,}"
    reason = f"{settings.samples:,} samples, {limit}, memory would allow {room:,}"
    return auto_batch_size(settings.samples, room, largest), reason


def auto_batch_size(samples: int, room: int, largest: int) -> int:
    """Return the largest power of two within the samples, the room for them in memory, a user's limit, and 65,536."""
    limit = max(1, min(samples, largest, LARGEST_BATCH, room))
    return 1 << (limit.bit_length() - 1)


def microbatch(batch: int, gpu: Gpu | None, room: int, execution: str, half: bool) -> tuple[int, str]:
    """Choose how many samples pass through the network at once; their gradients add up to the minibatch's."""
    if gpu is None:
        most = 2 * CPU_MICROBATCH if half else CPU_MICROBATCH
        smaller = "; compiled steps cut it smaller" if execution == "numba" else ""
        return min(batch, most), f"activations of {most:,} samples stay in a core's caches{smaller}"
    if batch <= room:
        return batch, "the whole minibatch fits in memory"
    return auto_batch_size(batch, room, batch), f"memory holds {room:,} samples at once"


def parallel_episodes(settings: PlanSettings, gpu: Gpu | None, usual: TierDefaults) -> tuple[int, str]:
    """Return how many episodes are played at once. That decides what is learned, so the machine has no influence."""
    reason = settings.parallel_reason
    if gpu and usual.parallel_episodes > settings.parallel_episodes:
        reason += f"; {usual.parallel_episodes:,}, usual on this card, are for policies that act on a GPU"
    return settings.parallel_episodes, reason


def simulation_threads(settings: PlanSettings, machine: Machine) -> tuple[int, str]:
    """Choose the threads that play: one for each episode, as far as there are cores."""
    number, reason = threads("SIMULATION_THREADS", settings.simulation_threads, machine)
    if number <= settings.parallel_episodes:
        return number, reason
    return settings.parallel_episodes, f"one for each episode played at once ({reason})"


def lockstep(settings: PlanSettings, threads: int) -> tuple[int, str]:
    """Choose how many episodes a thread plays side by side, one step of each in turn."""
    if not settings.whole_episodes:
        return 1, "an instance that plays episode after episode has a loop to itself"
    if settings.parallel_episodes <= threads:
        return 1, "no more episodes than threads"
    return MOST_SIDE_BY_SIDE, "at most, of a thread's episodes: each part of the parameters is read once for all"


def threads(name: str, wanted: int, machine: Machine) -> tuple[int, str]:
    """Choose the threads of a hyperparameter: the user's number, or one for each usable core where that is 0."""
    cores = machine.usable_cores
    if wanted:
        return wanted, f"{name} is {wanted}" + (f", more than the {cores} usable cores" if wanted > cores else "")
    note = f"; {machine.cores_note}" if machine.cores_note else ""
    return cores, counted(cores, "usable core") + note


def update_execution(
    settings: PlanSettings, gpu: Gpu | None, why_device: str, precision: Precision
) -> tuple[Execution | Literal["auto"], str]:
    """Choose how the steps of an update run; ``"auto"`` on a GPU, where the first update tries what the plan allows.

    On a CPU nothing is tried, so that the same seed gives the same policy. The choice follows measurements
    (docs/benchmarks.md).

    Raises:
        UserError: the device cannot run the demanded execution, or it does not go with PRECISION or
            GRADIENT_CHECKPOINTING.
    """
    wanted = settings.update_execution
    if wanted != "auto":
        _check_execution(wanted, settings, gpu, why_device, precision)
        checked = ", checked against eager steps first" if wanted in COMPILED_BY_TORCH | CAPTURED else ""
        return wanted, f"UPDATE_EXECUTION is {wanted}{checked}"
    if settings.varying_shapes:
        return "eager", settings.varying_shapes
    if gpu:
        return "auto", "the first update keeps the fastest that computes what eager steps do"
    if settings.kernel_problem:
        return "eager", settings.kernel_problem
    if settings.checkpointing:
        return "eager", "GRADIENT_CHECKPOINTING is on, which the compiled kernels do not support"
    if precision != "fp32":
        return (
            "eager",
            "compiled kernels know only FP32; torch's compiler is slower in BF16 with relu, a little faster with tanh",
        )
    if settings.widest_layer > _WIDEST_COMPILED:
        return "eager", f"torch is as fast with layers of more than {_WIDEST_COMPILED} units, and compiles nothing"
    return "numba", "compiled kernels are faster than torch on the CPU, most of all for small networks"


def _check_execution(
    wanted: Execution, settings: PlanSettings, gpu: Gpu | None, why_device: str, precision: Precision
) -> None:
    """Raise an error where UPDATE_EXECUTION cannot be had."""
    if gpu and wanted == "numba":
        problem = "which is for the CPU; set it to auto, or DEVICE to cpu"
    elif gpu is None and wanted in CAPTURED:
        problem = f"which is for a GPU, but the update runs on the CPU ({why_device}); set it to auto, numba, "
        problem += "torch_compile or eager"
    elif wanted in COMPILED_BY_TORCH | CAPTURED and settings.varying_shapes:
        problem = f"but {settings.varying_shapes}; set it to auto or eager"
    elif wanted == "numba" and settings.kernel_problem:
        problem = f"but {settings.kernel_problem}; set it to auto or eager"
    elif wanted == "numba" and settings.checkpointing:
        problem = "which has no GRADIENT_CHECKPOINTING; drop one of the two"
    elif wanted == "numba" and precision != "fp32":
        problem = f"which knows only FP32, but PRECISION is {precision}; drop one of the two"
    else:
        return
    raise UserError(f"UPDATE_EXECUTION is {wanted}, {problem}.")


def compile_steps(settings: PlanSettings, gpu: Gpu | None, usual: TierDefaults) -> tuple[bool, str]:
    """Choose whether steps run through torch.compile, or are tried so."""
    word = "usual" if usual.compile else "not usual"
    return _part_of(COMPILED_BY_TORCH, settings, gpu, usual.compile, f"{word} on this card")


def graph_capture(settings: PlanSettings, gpu: Gpu | None, half: bool) -> tuple[bool, str]:
    """Choose whether a step is captured once and replayed as a CUDA graph, or that is tried."""
    if gpu is None and settings.update_execution not in CAPTURED:  # nobody asks how many launches there are
        return False, "no GPU"
    launches = settings.step_launches.get(half)
    return _part_of(CAPTURED, settings, gpu, True, f"one launch per step instead of about {launches or 'two hundred'}")


def _part_of(
    executions: frozenset[Execution], settings: PlanSettings, gpu: Gpu | None, usual: bool, reason: str
) -> tuple[bool, str]:
    """Return whether some executions are used or tried: as UPDATE_EXECUTION says, else where they are usual."""
    wanted = settings.update_execution
    if wanted in executions:
        return True, reason
    if gpu is None:
        return False, "no GPU"
    return (usual, reason) if wanted == "auto" else (False, f"UPDATE_EXECUTION is {wanted}")


def gradient_checkpointing(settings: PlanSettings, gpu: Gpu | None) -> tuple[bool, str]:
    """Return whether activations are computed twice, which is the user's decision."""
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


def _free_memory(gpu: Gpu) -> str:
    count, mig = gpu.other_processes, " (a MIG slice)" if gpu.mig else ""
    others = f", {count} other {'process uses' if count == 1 else 'processes use'} it" if count else ""
    return f"{gpu.name}{mig} has {format_bytes(gpu.free_bytes)} of {format_bytes(gpu.total_bytes)} free{others}"
