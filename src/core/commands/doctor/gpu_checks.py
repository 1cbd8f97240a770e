"""Checks of GPU, driver and number formats."""

from statistics import mean

from core.commands.doctor.finding import DoctorInput, Finding, needs_run, warn_if
from core.hardware.planning.precision import FIRST_WITH

_IDLE_BELOW = 20.0
"""Percent of utilisation under which a GPU is called idle."""

_SLOWED_ABOVE = 10.0
"""Percent of an update's samples with a lowered clock above which there is a warning: a judgement."""

_NO_GPU = "no GPU is used"


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
    remedy = "leave out --device cpu" if run.config.device == "cpu" else "free its memory or lower EPISODES_PER_UPDATE"
    return Finding(name, "warning", f"{run.machine.gpu.name} is not used: {run.plan.reasons['device']}", remedy)


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
    remedy = "raise BATCH_SIZE and EPISODES_PER_UPDATE; or --device cpu, which may be as fast for a small network"
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


def _not_measured(name: str, run: DoctorInput) -> Finding:
    if run.gpu is None:
        return Finding(name, "ok", _NO_GPU)
    if not run.records:
        return needs_run(name)
    return Finding(name, "not measured", "the run's metrics.jsonl has no such figure")
