"""Compares what an execution of steps did with what eager steps do."""

from typing import NamedTuple

import torch
from torch import Tensor

from longstride.hardware.types import Precision

TOLERANCES: dict[Precision, float] = {"fp32": 1e-2, "bf16": 5e-2, "fp16": 5e-2}
"""Largest distance of compiled steps from eager ones, as a share of the gradient's norm. Other kernels round elsewhere,
in FP32 with TF32's ten bits of mantissa. A wrong minibatch or a stale address is of the order of 1."""

_ROUNDING = 1e-5
"""Distance of captured steps from eager ones, as a share of the norm, up to which they are the same but for rounding:
a library may choose other kernels on another stream. A step that was left out moves parameters by far more."""


class StepResult(NamedTuple):
    """Clipped gradient of the first of some steps, their reports, and the whole model after them, all float32."""

    gradient: Tensor
    reports: Tensor
    parameters: Tensor


def other_bits(result: StepResult, expected: StepResult) -> str:
    """Return, in words, what of a result has other bits than eager steps'; empty where nothing has."""
    bits = (torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(result, expected, strict=True))
    names = [name for name, same in zip(StepResult._fields, bits, strict=True) if not same]  # NaN equals itself
    return f"its {' and '.join(names)} differ from those of eager steps" if names else ""


def difference(result: StepResult, expected: StepResult, tolerance: float) -> str:
    """Return, in words, how a result differs from eager steps' by more than a share of the norm."""
    for name, a, b in zip(("gradient", "report"), result, expected, strict=False):
        if not (error := _distance(a, b)) <= tolerance:
            return f"its {name} and that of eager steps are {error:.1%} apart, more than {tolerance:.0%}"
    return ""


def judge_capture(result: StepResult, expected: StepResult, again: StepResult, tolerance: float) -> tuple[str, str]:
    """Return the problem of captured steps and a note, both phrases, empty where there is none.

    ``expected`` and ``again`` are what eager steps did from the same state. Kernels that add with atomics do not repeat
    themselves, and then captured steps cannot do what they did to the bit: the tolerance of compiled steps holds.
    """
    if not (problem := other_bits(result, expected)):
        return "", ""
    if other_bits(again, expected):
        too_far = difference(result, expected, tolerance)
        return too_far, "" if too_far else f"eager steps do not repeat themselves; within {tolerance:.0%} of them"
    distance = max(_distance(a, b) for a, b in zip(result, expected, strict=True))
    if all(_distance(a, b) <= _ROUNDING for a, b in zip(result, expected, strict=True)):
        return "", f"rounds otherwise than eager steps, by {distance:.0e} of the norm"
    return problem, ""


def _distance(a: Tensor, b: Tensor) -> float:
    """Return the distance of two tensors as a share of the second one's norm."""
    return float((a - b).norm() / b.norm().clamp(min=1e-12))
