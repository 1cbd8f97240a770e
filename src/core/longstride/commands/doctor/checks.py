"""The doctor's checks: of GPU, driver and number formats, then of a run's sizes, memory, threads, numbers and disk."""

from statistics import mean

from longstride.commands.doctor.finding import DoctorInput, Finding, needs_run, warn_if
from longstride.hardware.planning.precision import FIRST_WITH
from longstride.hardware.planning.update_memory import LARGEST_BATCH
from longstride.text import counted, format_bytes
from longstride.training.learning_advice import signs

_IDLE_BELOW = 20.0
"""Percent of utilisation under which a GPU is called idle."""

_SLOWED_ABOVE = 10.0
"""Percent of an update's samples with a lowered clock above which there is a warning: a judgement."""

_NO_GPU = "no GPU is used"

_FEW_SAMPLES = 500
"""Steps of an iteration under which an update is over before it pays."""

_ROOM_ON_DISK = 1 << 30
"""Bytes that a run should find beside its checkpoints: metrics, TensorBoard, logs. A judgement."""

_MORE_CHECKPOINTS = 2
"""Checkpoints beside the last ones that are kept: the best, and the one that is being written."""


def torch_build(run: DoctorInput) -> Finding:
    """Is torch a build with CUDA, where there is a GPU for it?"""
    diagnostics, name = run.diagnostics, "torch build"
    if diagnostics.torch_cuda is not None:
        return Finding(name, "ok", f"torch {diagnostics.torch_version} for CUDA {diagnostics.torch_cuda}")
    measured = f"torch {diagnostics.torch_version} without CUDA"
    if not diagnostics.driver_gpus:
        return Finding(name, "ok", f"{measured}; no NVIDIA driver lists a GPU here")
    names = ", ".join(dict.fromkeys(diagnostics.driver_gpus))
    remedy = "install torch with CUDA: make train CONSTRAINTS=, or see pytorch.org/get-started"
    return Finding(name, "broken", f"{measured}, while the driver lists {names}", remedy)


def driver(run: DoctorInput) -> Finding:
    """Can driver, torch and the card work together?"""
    diagnostics, machine, name = run.diagnostics, run.machine, "driver and capability"
    if gpu := machine.gpu:
        return Finding(name, "ok", f"{gpu.name}, compute capability {gpu.compute}, driver {machine.driver or '?'}")
    if not diagnostics.driver_gpus:
        return Finding(name, "ok", "no NVIDIA driver lists a GPU here")
    if diagnostics.torch_cuda is None:
        return Finding(name, "not measured", "torch has no CUDA")
    if diagnostics.visible is not None and "CUDA_VISIBLE_DEVICES" in machine.gpu_note:
        return Finding(name, "warning", machine.gpu_note, "unset CUDA_VISIBLE_DEVICES to use the GPU")
    remedy = "update the NVIDIA driver, or install a torch that is built for this driver and card"
    return Finding(name, "broken", machine.gpu_note, remedy)


def device(run: DoctorInput) -> Finding:
    """Does the run use the GPU that is here?"""
    name = "device"
    if run.plan is None:
        return Finding(name, "broken", run.plan_error.rstrip("."), "change the setting that the sentence names")
    if run.machine.gpu is None or run.gpu is not None:
        return Finding(name, "ok", f"{run.plan.device}: {run.plan.reasons['device']}")
    remedy = "leave out --device cpu" if run.config.device == "cpu" else "free its memory or lower NUM_ENVS"
    return Finding(name, "warning", f"{run.machine.gpu.name} is not used: {run.plan.reasons['device']}", remedy)


def gpus(run: DoctorInput) -> Finding:
    """Are all GPUs used that would make updates shorter?"""
    name, count = "several GPUs", len(run.machine.gpus)
    if run.gpu is None or count < 2:
        return Finding(name, "ok", _NO_GPU if run.gpu is None else "one GPU is here")
    measured = f"one of {count} is used. {run.another.rstrip('.') or 'What a second one saves is not known'}"
    return warn_if(
        run.another_pays, name, measured, f"longstride-torchrun --nproc-per-node={count} starts a process for each"
    )


def precision(run: DoctorInput) -> Finding:
    """Do matrix products use the tensor cores' half precision?"""
    if run.plan is None:
        return Finding("precision", "ok", "FP32 on the CPU")
    wasted = run.gpu is not None and run.plan.precision == "fp32" and run.gpu.capability >= (7, 0)
    measured = f"{run.plan.precision.upper()}: {run.plan.reasons['precision']}"
    remedy = "--use-mixed-precision and --precision auto, unless FP32 is meant"
    return warn_if(wasted, "precision", measured, remedy)


def tf32(run: DoctorInput) -> Finding:
    """Do the remaining float32 products use TF32?"""
    if run.gpu is None or run.plan is None:
        return Finding("TF32", "ok", _NO_GPU)
    measured = f"{'on' if run.plan.tf32 else 'off'}: {run.plan.reasons['tf32']}"
    return warn_if(not run.plan.tf32 and run.gpu.capability >= FIRST_WITH["tf32"], "TF32", measured, "--use-tf32")


def utilisation(run: DoctorInput) -> Finding:
    """Does the GPU work while it should?"""
    busy = run.update_figures("utilisation")
    if not busy:
        return _not_measured("utilisation", run)
    measured = f"{mean(busy):.0f} % busy in the updates of {len(busy)} iterations"
    remedy = "raise BATCH_SIZE and NUM_ENVS; or --device cpu, which may be as fast for a small network"
    return warn_if(mean(busy) < _IDLE_BELOW, "utilisation", measured, remedy)


def clocks(run: DoctorInput) -> Finding:
    """Is the GPU slowed down, at present or in the run's updates?"""
    shares, present = run.update_figures("throttled"), run.diagnostics.throttled
    if present is None and not shares:
        return _not_measured("clocks", run)
    parts = []
    if present is not None:
        parts.append(f"now slowed by {', '.join(present)}" if present else "not slowed now")
    if shares:
        parts.append(f"slowed in {mean(shares):.0f} % of the samples of updates")
    slowed = bool(present) or (bool(shares) and mean(shares) > _SLOWED_ABOVE)
    remedy = "cool the card, or raise its power limit (nvidia-smi -q -d PERFORMANCE)"
    return warn_if(slowed, "clocks", "; ".join(parts), remedy)


def pinned(run: DoctorInput) -> Finding:
    """Can memory be pinned, so that copies to the GPU run at full speed?"""
    name = "pinned memory"
    if run.diagnostics.pinned is None:
        return Finding(name, "ok", _NO_GPU)
    if run.diagnostics.pinned:
        return Finding(name, "ok", "a megabyte was pinned")
    return Finding(name, "broken", "a megabyte could not be pinned", "raise the limit of locked memory (ulimit -l)")


def batch(run: DoctorInput) -> Finding:
    """Is the minibatch large enough for the card?"""
    if run.plan is None:
        return Finding("batch", "not measured", "there is no plan")
    usual, size = run.plan.usual.minibatch, run.plan.batch_size
    measured = f"{size:,}: {run.plan.reasons['batch_size']}"
    if run.gpu is None or size >= usual:
        return Finding("batch", "ok", measured)
    if run.config.batch_size < usual:
        remedy = f"--batch-size {min(usual, LARGEST_BATCH)}"
    elif run.samples < usual:
        remedy = "raise NUM_ENVS or ROLLOUT_STEPS"
    else:
        remedy = "free memory of the GPU"
    return Finding("batch", "warning", f"{measured}; usual on this card: {usual:,}", remedy)


def episodes(run: DoctorInput) -> Finding:
    """Is an iteration long enough for an update?"""
    samples, measured = run.samples, f"about {run.samples:,} steps an iteration"
    if run.records:
        samples = round(mean(run.figures("steps")))
        measured = f"{samples:,} steps an iteration in the run's metrics"
    remedy = "raise NUM_ENVS, or ROLLOUT_STEPS for short episodes"
    return warn_if(samples < _FEW_SAMPLES, "episodes", measured, remedy)


def threads(run: DoctorInput) -> Finding:
    """Do more threads want to run than there are cores?"""
    cores, omp = run.machine.usable_cores, run.diagnostics.omp_threads or "not set"
    wanted = {"SIMULATION_THREADS": run.config.simulation_threads, "UPDATE_THREADS": run.config.update_threads}
    if omp.isdigit():
        wanted["OMP_NUM_THREADS"] = int(omp)
    too_many = [f"; {name} is {count}" for name, count in wanted.items() if count > cores]
    note = f" ({run.machine.cores_note})" if run.machine.cores_note else ""
    measured = (
        f"{cores} usable cores{note}, OMP_NUM_THREADS {omp}, torch would take {run.diagnostics.torch_threads}, "
        f"a run sets its own{''.join(too_many)}"
    )
    return warn_if(bool(too_many), "threads", measured, f"at most {cores}, or 0 for all cores")


def load(run: DoctorInput) -> Finding:
    """Do other processes want the cores?"""
    machine, busy = run.machine, run.diagnostics.load
    measured = f"load {busy:.1f} on {machine.physical_cores} cores, of which {machine.usable_cores} usable"
    remedy = "wait for the other processes, or end those that are not needed"
    return warn_if(busy > machine.physical_cores, "load", measured, remedy)


def memory(run: DoctorInput) -> Finding:
    """Did memory run out in the run?"""
    if not run.records:
        return needs_run("memory")
    events = run.events("out_of_memory")
    if not events:
        return Finding("memory", "ok", f"never ran out in {counted(len(run.records), 'iteration')}")
    measured = f"ran out {len(events)} times; the microbatch fell to {events[-1]['microbatch_after']:,}"
    remedy = "lower BATCH_SIZE, then ROLLOUT_STEPS, then NUM_ENVS, then the network"
    return Finding("memory", "warning", measured, remedy)


def fragmentation(run: DoctorInput) -> Finding:
    """Is memory lost between blocks, and does the allocator help against it?"""
    if run.gpu is None or run.plan is None:
        return Finding("fragmentation", "ok", _NO_GPU)
    measured = f"allocator {run.plan.allocator}: {run.plan.reasons['allocator']}"
    events = [e for e in run.events("out_of_memory") if 0 < (e.get("bytes_asked") or 0) < (e.get("bytes_free") or 0)]
    if events:
        asked, free = (format_bytes(events[-1][name]) for name in ("bytes_asked", "bytes_free"))
        measured += f"; {asked} were refused while {free} were free"
    fixed = "expandable_segments:True" not in run.plan.allocator and run.machine.system == "Linux"
    remedy = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    return warn_if(bool(events) or fixed, "fragmentation", measured, remedy)


def numbers(run: DoctorInput) -> Finding:
    """Were losses or gradients not finite?"""
    if not run.records:
        return needs_run("numbers")
    skipped, steps = sum(run.figures("skipped_steps")), sum(run.figures("optimizer_steps"))
    returns = len(run.events("fallbacks"))
    measured = f"{skipped:,.0f} of {steps:,.0f} steps skipped, {returns} returns to good parameters"
    remedy = "look at the size of the rewards, lower the learning rates by 10-20 %, then --precision fp32"
    return warn_if(returns > 0, "numbers", measured, remedy)


def learning(run: DoctorInput) -> Finding:
    """Does the policy learn as it should?"""
    if not run.records:
        return needs_run("learning")
    found = signs(run.records)
    if not found:
        return Finding("learning", "ok", f"nothing strange in {len(run.records)} iterations")
    return Finding("learning", "warning", found[0].measured, found[0].remedy)


def disk(run: DoctorInput) -> Finding:
    """Is there room for checkpoints and metrics?"""
    free, path = run.diagnostics.disk_free, run.diagnostics.disk_path
    if free is None:
        return Finding("disk", "not measured", f"the system does not say how much is free in {path}")
    checkpoints = run.config.checkpoints_kept + _MORE_CHECKPOINTS
    needed = checkpoints * run.checkpoint_bytes
    size = format_bytes(run.checkpoint_bytes)
    measured = f"{format_bytes(free)} free in {path}; {checkpoints} checkpoints of {size}"
    remedy = "free space, or name a directory on another disk with --run-directory"
    if free < needed:
        return Finding("disk", "broken", measured, remedy)
    return warn_if(free < needed + _ROOM_ON_DISK, "disk", measured, remedy)


def _not_measured(name: str, run: DoctorInput) -> Finding:
    if run.gpu is None:
        return Finding(name, "ok", _NO_GPU)
    if not run.records:
        return needs_run(name)
    return Finding(name, "not measured", "the run's metrics.jsonl has no such figure")


CHECKS = (
    *(torch_build, driver, device, gpus, precision, tf32, utilisation, clocks, pinned),
    *(batch, episodes, memory, fragmentation, numbers, learning, threads, load, disk),
)
