"""Checks of a run's sizes, of memory, threads, numbers and disk."""

from statistics import mean

from core.commands.doctor.finding import DoctorInput, Finding, needs_run, warn_if
from core.hardware.planning.update_memory import LARGEST_BATCH
from core.text import counted, format_bytes

_FEW_SAMPLES = 500
"""Steps of an iteration under which an update is over before it pays."""

_ROOM_ON_DISK = 1 << 30
"""Bytes that a run should find beside its checkpoints: metrics, TensorBoard, logs. A judgement."""

_MORE_CHECKPOINTS = 2
"""Checkpoints beside the last ones that are kept: the best, and the one that is being written."""


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
        remedy = "raise EPISODES_PER_UPDATE or ROLLOUT_STEPS"
    else:
        remedy = "free memory of the GPU"
    return Finding("batch", "warning", f"{measured}; usual on this card: {usual:,}", remedy)


def episodes(run: DoctorInput) -> Finding:
    """Is an iteration long enough for an update?"""
    samples, measured = run.samples, f"about {run.samples:,} steps an iteration"
    if run.records:
        samples = round(mean(run.figures("steps")))
        measured = f"{samples:,} steps an iteration in the run's metrics"
    remedy = "raise EPISODES_PER_UPDATE, or ROLLOUT_STEPS for short episodes"
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
    remedy = "lower BATCH_SIZE, then ROLLOUT_STEPS, then EPISODES_PER_UPDATE, then the network"
    return Finding("memory", "warning", measured, remedy)


def fragmentation(run: DoctorInput) -> Finding:
    """Is memory lost between blocks, and does the allocator help against it?"""
    if run.gpu is None or run.plan is None:
        return Finding("fragmentation", "ok", "no GPU is used")
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
