"""Which execution of a step is the fastest of those that compute what torch does operation by operation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.hardware.types import Execution, Precision
from core.learning.algorithms.interface import Samples
from core.learning.minibatches import Minibatches
from core.learning.steps.interface import restore, snapshot
from core.learning.steps.torch_step import TorchStepper

TOLERANCES: dict[Precision, float] = {"fp32": 1e-2, "bf16": 5e-2, "fp16": 5e-2}
"""Largest distance of compiled steps from eager ones, as a share of the gradient's norm. Other kernels round elsewhere,
in FP32 with TF32's ten bits of mantissa. A wrong minibatch or a stale address is of the order of 1."""

_SCALE = 256.0
"""Largest scale of FP16's gradients in trials."""


class StepResult(NamedTuple):
    """Clipped gradient of the first of some steps, their reports, and the whole model after them, all float32."""

    gradient: Tensor
    reports: Tensor
    parameters: Tensor


class ExecutionTrial(NamedTuple):
    """The trial of an execution.

    Attributes:
        execution: execution that was tried.
        seconds: seconds of a step, None where there is a problem.
        preparation_seconds: seconds until the first steps were done.
        problem: why it is not used, a phrase; empty where it could be.
    """

    execution: Execution
    seconds: float | None
    preparation_seconds: float
    problem: str


def fastest(trials: Sequence[ExecutionTrial]) -> ExecutionTrial:
    """Return the fastest trial without a problem, of equal ones the first; eager steps never have a problem."""
    return min((t for t in trials if not t.problem and t.seconds is not None), key=lambda t: t.seconds or 0.0)


def trial_lines(trials: Sequence[ExecutionTrial], chosen: Execution) -> list[str]:
    """Return the lines about trials: what runs and how fast each was, and why any was not used."""
    if not trials:
        return []
    times = [f"{t.execution} {1e3 * t.seconds:.2f}" for t in trials if t.seconds is not None]
    lines = [f"Update execution: {chosen}; ms a step: {', '.join(times)}."]
    return lines + [f"Update execution: {t.execution} is not used: {t.problem}." for t in trials if t.problem]


def difference(result: StepResult, expected: StepResult, tolerance: float | None) -> str:
    """Return how a result differs from that of eager steps by more than a relative error, a phrase; else nothing.

    With a tolerance of None every bit must be the same.
    """
    if tolerance is None:
        names = [n for n, a, b in zip(StepResult._fields, result, expected, strict=True) if not _same_bits(a, b)]
        return f"its {' and '.join(names)} are not those of eager steps to the bit" if names else ""
    for name, a, b in (
        ("gradient", result.gradient, expected.gradient),
        ("report", result.reports, expected.reports),
    ):
        error = float((a - b).norm() / b.norm().clamp(min=1e-12))
        if not error <= tolerance:
            return f"its {name} and that of eager steps are {error:.1%} apart, more than {tolerance:.0%}"
    return ""


def gradient_of(stepper: TorchStepper) -> Tensor:
    """Return a copy of the gradient of the last step, float32[parameters]."""
    return torch.cat([p.grad.flatten() for p in stepper.model.parameters() if p.grad is not None])


class Snapshot:
    """The state before trials, which steps change and :meth:`put_back` restores.

    Args:
        stepper: stepper of the trials. One step that is skipped makes the state of its optimiser.
        rollout: all samples of the rollout.
        minibatches: minibatches of an epoch.
    """

    def __init__(self, stepper: TorchStepper, rollout: Samples, minibatches: Minibatches) -> None:
        self._stepper, self.rollout, self.minibatches = stepper, rollout, minibatches
        self._scale: dict[str, Any] = stepper.scaler.state_dict()
        # FP16's scale may still be too large for any step to be taken, and then there would be little to compare.
        self._small_scale = {**self._scale, "scale": min(self._scale["scale"], _SCALE)} if self._scale else {}
        indices, weights = (torch.from_numpy(part[0]).to(stepper.device) for part in minibatches)
        stepper.step(rollout, indices, weights * torch.nan)
        self._tensors = snapshot(stepper)

    def put_back(self, tries: bool = True) -> None:
        """Restore the state in place; for another trial with a small scale of FP16."""
        restore(self._stepper, self._tensors)
        if self._scale:
            self._stepper.scaler.load_state_dict(self._small_scale if tries else self._scale)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))  # NaN equals itself
