"""Checks of GPU, driver and number formats."""

from statistics import mean

from core.commands.doctor.finding import Case, Finding
from core.hardware.planning.efficiency import rate_mfu
from core.hardware.planning.gpu_catalog import card_of
from core.hardware.planning.number_formats import FIRST_WITH

_IDLE_BELOW = 20.0
"""Percent of utilisation under which a GPU is called idle."""

_SLOWED_ABOVE = 10.0
"""Percent of the samples of an update with a lowered clock above which it is worth a word: a judgement."""

NO_GPU = "no GPU is used"


def torch_build(case: Case) -> Finding:
    """Is torch a build with CUDA, where there is a GPU for it?"""
    around, name = case.around, "torch build"
    if around.torch_cuda is not None:
        return Finding(name, "ok", f"torch {around.torch_version} for CUDA {around.torch_cuda}")
    if not around.listed:
        return Finding(name, "ok", f"torch {around.torch_version} without CUDA; no NVIDIA driver lists a GPU here")
    return Finding(
        name,
        "broken",
        f"torch {around.torch_version} without CUDA, while the driver lists {_names(case)}",
        "install torch with CUDA: make train CONSTRAINTS=, or see pytorch.org/get-started",
    )


def driver(case: Case) -> Finding:
    """Can driver, torch and the card work together?"""
    around, machine, name = case.around, case.machine, "driver and capability"
    if machine.gpu is not None:
        compute = ".".join(map(str, machine.gpu.capability))
        return Finding(name, "ok", f"{machine.gpu.name}, compute capability {compute}, driver {machine.driver or '?'}")
    if not around.listed:
        return Finding(name, "ok", "no NVIDIA driver lists a GPU here")
    if around.torch_cuda is None:
        return Finding(name, "not measured", "torch has no CUDA")
    if around.visible is not None and "CUDA_VISIBLE_DEVICES" in machine.gpu_note:
        return Finding(name, "warning", machine.gpu_note, "unset CUDA_VISIBLE_DEVICES to use the GPU")
    remedy = "update the NVIDIA driver, or install a torch that is built for this driver and card"
    return Finding(name, "broken", machine.gpu_note, remedy)


def device(case: Case) -> Finding:
    """Does the run use the GPU that is here?"""
    name = "device"
    if case.plan is None:
        return Finding(name, "broken", case.plan_error.rstrip("."), "change the setting that the sentence names")
    if case.machine.gpu is None or case.gpu is not None:
        return Finding(name, "ok", f"{case.plan.device}: {case.plan.reasons['device']}")
    remedy = "leave out --device cpu" if case.config.device == "cpu" else "free its memory or lower EPISODES_PER_UPDATE"
    return Finding(name, "warning", f"{case.machine.gpu.name} is not used: {case.plan.reasons['device']}", remedy)


def precision(case: Case) -> Finding:
    """Do matrix products use the tensor cores' half precision?"""
    name = "precision"
    if case.plan is None:
        return Finding(name, "ok", "FP32 on the CPU")
    measured = f"{case.plan.precision.upper()}: {case.plan.reasons['precision']}"
    if case.gpu is None:
        return Finding(name, "ok", measured)
    if case.plan.precision == "fp32" and case.gpu.capability >= (7, 0):
        return Finding(name, "warning", measured, "--use-mixed-precision and --precision auto, unless FP32 is meant")
    return Finding(name, "ok", measured)


def tf32(case: Case) -> Finding:
    """Do the float32 products that remain use TF32?"""
    name = "TF32"
    if case.gpu is None or case.plan is None:
        return Finding(name, "ok", NO_GPU)
    measured = f"{'on' if case.plan.tf32 else 'off'}: {case.plan.reasons['tf32']}"
    if not case.plan.tf32 and case.gpu.capability >= FIRST_WITH["tf32"]:
        return Finding(name, "warning", measured, "--use-tf32")
    return Finding(name, "ok", measured)


def compiled(case: Case) -> Finding:
    """Are compiled steps tried where that is usual?"""
    return _part(case, "compile", "compile")


def fp8(case: Case) -> Finding:
    """Is FP8 used where it would pay: Hopper and wide layers?"""
    return _part(case, "FP8", "fp8")


def _part(case: Case, name: str, part: str) -> Finding:
    if case.gpu is None or case.plan is None:
        return Finding(name, "ok", NO_GPU)
    on = bool(getattr(case.plan, part))
    return Finding(name, "ok", f"{'on' if on else 'off'}: {case.plan.reasons[part]}")


def utilisation(case: Case) -> Finding:
    """Does the GPU work while it should?"""
    name, busy = "utilisation", case.of_phase("updating", "utilisation")
    if not busy:
        return _not_measured(name, case)
    measured = f"{mean(busy):.0f} % busy in the updates of {len(busy)} rounds"
    if mean(busy) >= _IDLE_BELOW:
        return Finding(name, "ok", measured)
    remedy = "raise BATCH_SIZE and EPISODES_PER_UPDATE; or --device cpu, which may be as fast for a small network"
    return Finding(name, "warning", measured, remedy)


def efficiency(case: Case) -> Finding:
    """How near do updates come to the card's peaks? Not a fault of its own: small networks are far from them."""
    name, shares = "MFU", case.figures("mfu")
    if not shares:
        return _not_measured(name, case)
    measured = f"{100 * mean(shares):.1f} %"
    if traffic := case.figures("bandwidth_share"):
        measured += f", {100 * mean(traffic):.1f} % of the memory's bandwidth"
    card = card_of(case.gpu) if case.gpu else None
    judged = rate_mfu(card, mean(shares)) if card else ""
    return Finding(name, "ok", measured + (f" ({judged})" if judged else ""))


def clocks(case: Case) -> Finding:
    """Is the GPU slowed down, now or in the run's updates?"""
    name, shares = "clocks", case.of_phase("updating", "throttled")
    now = case.around.throttled
    if now is None and not shares:
        return _not_measured(name, case)
    slowed = mean(shares) if shares else 0.0
    measured = f"now slowed by {', '.join(now)}" if now else "" if now is None else "not slowed now"
    if shares:
        measured += f"{'; ' if measured else ''}slowed in {slowed:.0f} % of the samples of updates"
    if now or slowed > _SLOWED_ABOVE:
        return Finding(
            name, "warning", measured, "cool the card, or raise its power limit (nvidia-smi -q -d PERFORMANCE)"
        )
    return Finding(name, "ok", measured)


def pinned(case: Case) -> Finding:
    """Can memory be pinned, so that copies to the GPU run at full speed?"""
    name = "pinned memory"
    if case.around.pinned is None:
        return Finding(name, "ok", NO_GPU)
    if case.around.pinned:
        return Finding(name, "ok", "a megabyte was pinned")
    return Finding(name, "broken", "a megabyte could not be pinned", "raise the limit of locked memory (ulimit -l)")


def _not_measured(name: str, case: Case) -> Finding:
    if case.gpu is None:
        return Finding(name, "ok", NO_GPU)
    if not case.records:
        return Finding(name, "not measured", "needs a run", "name one that was trained here with --run-directory")
    return Finding(name, "not measured", "the run's metrics.jsonl has no such figure")


def _names(case: Case) -> str:
    return ", ".join(dict.fromkeys(case.around.listed))
