"""Checks of a run's sizes, of memory, threads, numbers and disk."""

from statistics import mean

from core.commands.doctor.finding import Case, Finding
from core.hardware.planning.efficiency import simulation_in_words
from core.hardware.planning.update_memory import LARGEST_BATCH

_FEW_SAMPLES = 500
"""Decisions of a round under which an update is over before it pays."""

_ROOM_ON_DISK = 1 << 30
"""Bytes that a run should find beside its checkpoints: metrics, TensorBoard, logs. A judgement."""

_MORE_CHECKPOINTS = 2
"""Beside the last ones that are kept: the best, and the one that is being written."""


def batch(case: Case) -> Finding:
    """Is the minibatch large enough for the card?"""
    name = "batch"
    if case.plan is None:
        return Finding(name, "not measured", "there is no plan")
    usual, size = case.plan.usual.minibatch, case.plan.batch_size
    measured = f"{size:,}: {case.plan.reasons['batch_size']}"
    if case.gpu is None or size >= usual:
        return Finding(name, "ok", measured)
    if case.config.batch_size < usual:
        remedy = f"--batch-size {min(usual, LARGEST_BATCH)}"
    elif case.settings.samples < usual:
        remedy = "raise EPISODES_PER_UPDATE or ROLLOUT_STEPS"
    else:
        remedy = "free memory of the GPU"
    return Finding(name, "warning", f"{measured}; usual on this card: {usual:,}", remedy)


def episodes(case: Case) -> Finding:
    """Is a round long enough for an update?"""
    samples = case.settings.samples
    if case.records:
        samples = round(mean(case.figures("steps")))
        measured = f"{samples:,} decisions a round in the run's metrics"
    else:
        measured = f"about {samples:,} decisions a round"
    if samples >= _FEW_SAMPLES:
        return Finding("episodes", "ok", measured)
    return Finding("episodes", "warning", measured, "raise EPISODES_PER_UPDATE, or ROLLOUT_STEPS for short episodes")


def threads(case: Case) -> Finding:
    """Do more threads want to run than there are cores?"""
    cores, around = case.machine.usable_cores, case.around
    asked = {"SIMULATION_THREADS": case.config.simulation_threads, "UPDATE_THREADS": case.config.update_threads}
    if (around.omp_threads or "").isdigit():
        asked["OMP_NUM_THREADS"] = int(around.omp_threads or 0)
    many = [f"{name} is {count}" for name, count in asked.items() if count > cores]
    note = f" ({case.machine.cores_note})" if case.machine.cores_note else ""
    measured = (
        f"{cores} usable cores{note}, OMP_NUM_THREADS {around.omp_threads or 'not set'}, "
        f"torch would take {around.torch_threads}, a run sets its own"
    )
    if not many:
        return Finding("threads", "ok", measured)
    return Finding("threads", "warning", f"{measured}; {', '.join(many)}", f"at most {cores}, or 0 for all cores")


def load(case: Case) -> Finding:
    """Do other processes want the cores?"""
    cores, busy = case.machine.usable_cores, case.around.load
    measured = f"load {busy:.1f} on {case.machine.physical_cores} cores, of which {cores} usable"
    if busy <= case.machine.physical_cores:
        return Finding("load", "ok", measured)
    return Finding("load", "warning", measured, "wait for the other processes, or end those that are not needed")


def memory(case: Case) -> Finding:
    """Did memory run out in the run?"""
    events = [event for record in case.records for event in record.get("out_of_memory") or ()]
    if not case.records:
        return Finding(
            "memory", "not measured", "needs a run", "--mode plan predicts it; name a run with --run-directory"
        )
    if not events:
        return Finding("memory", "ok", f"never ran out in {_rounds(case)}")
    last = events[-1]
    measured = f"ran out {len(events)} times; the microbatch fell to {last['microbatch_after']:,}"
    remedy = "lower BATCH_SIZE, then ROLLOUT_STEPS, then EPISODES_PER_UPDATE, then the network"
    return Finding("memory", "warning", measured, remedy)


def fragmentation(case: Case) -> Finding:
    """Is memory lost between blocks, and does the allocator help against it?"""
    name, remedy = "fragmentation", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    if case.gpu is None or case.plan is None:
        return Finding(name, "ok", "no GPU is used")
    measured = f"allocator {case.plan.allocator}: {case.plan.reasons['allocator']}"
    events = [event for record in case.records for event in record.get("out_of_memory") or ()]
    lost = [e for e in events if e.get("bytes_asked") and e.get("bytes_free") and e["bytes_asked"] < e["bytes_free"]]
    if lost:
        asked, free = lost[-1]["bytes_asked"] / 1e6, lost[-1]["bytes_free"] / 1e6
        measured += f"; {asked:,.0f} MB were refused while {free:,.0f} MB were free"
        return Finding(name, "warning", measured, remedy)
    if "expandable_segments:True" not in case.plan.allocator and case.machine.system == "Linux":
        return Finding(name, "warning", measured, remedy)
    return Finding(name, "ok", measured)


def numbers(case: Case) -> Finding:
    """Were losses or gradients not finite?"""
    if not case.records:
        return Finding("numbers", "not measured", "needs a run", "name one with --run-directory")
    returns = sum(len(record.get("fallbacks") or ()) for record in case.records)
    skipped, steps = sum(case.figures("skipped_steps")), sum(case.figures("optimizer_steps"))
    measured = f"{skipped:,.0f} of {steps:,.0f} steps skipped, {returns} returns to good weights"
    if not returns:
        return Finding("numbers", "ok", measured)
    remedy = "look at the size of the rewards, lower the learning rates by 10-20 %, then --precision fp32"
    return Finding("numbers", "warning", measured, remedy)


def disk(case: Case) -> Finding:
    """Is there room for checkpoints and metrics?"""
    around = case.around
    if around.disk_free is None:
        return Finding("disk", "not measured", f"the system does not say how much is free in {around.disk_path}")
    checkpoints = case.config.checkpoints_kept + _MORE_CHECKPOINTS
    needed = checkpoints * case.checkpoint_bytes
    measured = (
        f"{around.disk_free / 1e9:,.2f} GB free in {around.disk_path}; "
        f"{checkpoints} checkpoints of {case.checkpoint_bytes / 1e6:,.1f} MB"
    )
    remedy = "free space, or name a directory on another disk with --run-directory"
    if around.disk_free >= needed + _ROOM_ON_DISK:
        return Finding("disk", "ok", measured)
    return Finding("disk", "broken" if around.disk_free < needed else "warning", measured, remedy)


def simulation(case: Case) -> Finding:
    """How near does the simulation come to the bandwidth of a core's caches, as far as weights are concerned?"""
    rates, cache = case.figures("steps_per_second"), case.around.cache_bandwidth
    if not rates or cache is None or case.plan is None:
        return Finding(
            "simulation", "not measured", "needs a run", "name one that was trained here with --run-directory"
        )
    measured = simulation_in_words(mean(rates), case.plan.simulation_threads, case.actor_bytes, cache)
    return Finding("simulation", "ok", measured)


def _rounds(case: Case) -> str:
    count = len(case.records)
    return f"{count} round{'' if count == 1 else 's'}"
