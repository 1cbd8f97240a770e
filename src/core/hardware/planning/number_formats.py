"""Number formats of a plan: which matrix products take, and why."""

from core.errors import UserError
from core.hardware.planning.gpu_catalog import TierDefaults
from core.hardware.types import Gpu, Machine, PlanSettings, Precision

Chosen = tuple[bool, str]
"""Whether something is on, and why."""

_NARROWEST_FOR_FP8 = 2048
"""Width of layers below which FP8 loses: an estimate from the cost of its extra casts, not measured here."""

FIRST_WITH = {"bf16": (8, 0), "tf32": (8, 0), "fp16": (5, 3), "fp8": (8, 9)}
"""Compute capability from which a GPU has a format. FP16 is chosen from 7.0, where tensor cores begin."""


def precision(settings: PlanSettings, machine: Machine, gpu: Gpu | None, why_device: str) -> tuple[Precision, str]:
    """Choose the format of matrix products; on the CPU FP32, unless BF16 is insisted on.

    Raises:
        UserError: PRECISION insists on a format that the device has not, or that USE_MIXED_PRECISION forbids.
    """
    wanted = settings.precision
    if wanted in ("bf16", "fp16"):
        _check_precision(wanted, settings, machine, gpu, why_device)
    if wanted == "bf16" and gpu is None:
        return "bf16", f"PRECISION is bf16, and this CPU has {machine.cpu_bf16}"
    if gpu is None:
        return "fp32", "the CPU updates in FP32"
    if wanted != "auto":
        return wanted, f"PRECISION is {wanted}"
    if not settings.mixed_precision:
        return "fp32", "USE_MIXED_PRECISION is off"
    return choose_precision(True, gpu.capability), f"compute capability {_compute(gpu)}"


def _check_precision(wanted: str, settings: PlanSettings, machine: Machine, gpu: Gpu | None, why_device: str) -> None:
    """Raise an error where a format of 16 bits cannot be had."""
    if not settings.mixed_precision:
        problem = "USE_MIXED_PRECISION is False, which means FP32; drop one of the two"
    elif gpu is None and wanted == "bf16" and machine.cpu_bf16:
        return
    elif gpu is None:
        only = "only BF16 beside FP32" if machine.cpu_bf16 else "FP32 only"
        problem = f"the update runs on the CPU, which has {only} ({why_device}); set PRECISION to auto or fp32"
    elif gpu.capability < FIRST_WITH[wanted]:
        first = ".".join(map(str, FIRST_WITH[wanted]))
        problem = f"compute capability {_compute(gpu)} ({gpu.name}) has none, it begins at {first}; set it to auto"
    else:
        return
    raise UserError(f"PRECISION is {wanted}, but {problem}.")


def choose_precision(mixed: bool, capability: tuple[int, int] | None) -> Precision:
    """Return the format of matrix products: BF16 from compute capability 8.0, FP16 on 7.x, else FP32.

    Args:
        mixed: whether mixed precision is wanted at all.
        capability: of the GPU; None without one.
    """
    if not mixed or capability is None or capability < (7, 0):
        return "fp32"
    return "bf16" if capability >= FIRST_WITH["bf16"] else "fp16"


def tf32(settings: PlanSettings, gpu: Gpu | None) -> Chosen:
    """Choose whether the float32 products that remain use TF32."""
    if gpu is None or not settings.tf32:
        return False, "USE_TF32 is off" if gpu else "no GPU"
    has = gpu.capability >= FIRST_WITH["tf32"]
    return has, f"compute capability {_compute(gpu)}" + ("" if has else " has none, it begins at 8.0")


def fp8(settings: PlanSettings, gpu: Gpu | None, usual: TierDefaults) -> Chosen:
    """Choose whether matrix products take 8-bit inputs."""
    if gpu and gpu.capability < FIRST_WITH["fp8"]:
        return False, f"compute capability {_compute(gpu)} has none, it begins at 8.9"
    if settings.widest_layer < _NARROWEST_FOR_FP8:
        reason = (
            f"it pays from about {_NARROWEST_FOR_FP8:,} units a layer, the widest here has {settings.widest_layer:,}"
        )
        return False, reason if gpu else "no GPU"
    return optional("fp8", settings, gpu, usual.fp8, f"{'usual' if usual.fp8 else 'not usual'} on this card")


def optional(part: str, settings: PlanSettings, gpu: Gpu | None, wanted: bool, why: str) -> Chosen:
    """Switch an optional part on where it is wanted and the updater has it: what is printed as on must be on."""
    if gpu is None:
        return False, "no GPU"
    if part not in settings.abilities:
        return False, f"the updater cannot do it yet ({why})"
    return wanted, why


def _compute(gpu: Gpu) -> str:
    return f"{gpu.capability[0]}.{gpu.capability[1]}"
