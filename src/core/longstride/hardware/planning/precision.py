"""The number formats of a plan: which ones matrix products take, and why."""

from longstride.errors import UserError
from longstride.hardware.types import Gpu, Machine, PlanSettings, Precision

FIRST_WITH = {"bf16": (8, 0), "tf32": (8, 0), "fp16": (5, 3)}
"""Compute capability from which a GPU has a format. FP16 is chosen from 7.0, where tensor cores begin."""


def plan_precision(settings: PlanSettings, machine: Machine, gpu: Gpu | None, why_device: str) -> tuple[Precision, str]:
    """Choose the format of matrix products; on the CPU FP32, unless the user insists on BF16.

    Raises:
        UserError: PRECISION names a format that the device has not, or that USE_MIXED_PRECISION forbids.
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
    return choose_precision(gpu.capability), f"compute capability {gpu.compute}"


def _check_precision(wanted: str, settings: PlanSettings, machine: Machine, gpu: Gpu | None, why_device: str) -> None:
    """Raise an error where a 16-bit format is not available."""
    if not settings.mixed_precision:
        problem = "USE_MIXED_PRECISION is False, which means FP32; drop one of the two"
    elif gpu is None and wanted == "bf16" and machine.cpu_bf16:
        return
    elif gpu is None:
        only = "only BF16 beside FP32" if machine.cpu_bf16 else "FP32 only"
        problem = f"the update runs on the CPU, which has {only} ({why_device}); set PRECISION to auto or fp32"
    elif gpu.capability < FIRST_WITH[wanted]:
        first = ".".join(map(str, FIRST_WITH[wanted]))
        problem = f"compute capability {gpu.compute} ({gpu.name}) has none, it begins at {first}; set it to auto"
    else:
        return
    raise UserError(f"PRECISION is {wanted}, but {problem}.")


def choose_precision(capability: tuple[int, int]) -> Precision:
    """Return the format of matrix products on a GPU: BF16 from compute capability 8.0, FP16 on 7.x, else FP32."""
    if capability < (7, 0):
        return "fp32"
    return "bf16" if capability >= FIRST_WITH["bf16"] else "fp16"


def plan_tf32(settings: PlanSettings, gpu: Gpu | None) -> tuple[bool, str]:
    """Choose whether the remaining float32 products use TF32."""
    if gpu is None or not settings.tf32:
        return False, "USE_TF32 is off" if gpu else "no GPU"
    supported = gpu.capability >= FIRST_WITH["tf32"]
    return supported, f"compute capability {gpu.compute}" + ("" if supported else " has none, it begins at 8.0")
