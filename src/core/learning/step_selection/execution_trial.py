"""Which execution of a step is the fastest of those that compute what torch does operation by operation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.hardware.types import Execution, Precision
from core.learning.algorithms.ppo import Batch
from core.learning.steps.torch_step import TorchStepper

TOLERANCES: dict[Precision, float] = {"fp32": 1e-2, "bf16": 5e-2, "fp16": 5e-2}
"""How far compiled steps may be from eager ones, of the norm of the gradient: other kernels round elsewhere, in FP32
with TF32's ten bits of mantissa. A wrong minibatch or a stale address is of the order of 1."""

_SCALE = 256.0
"""Of FP16's gradients in trials, at most."""


class StepResult(NamedTuple):
    """What some steps did.

    Attributes:
        gradient: float32[parameters], clipped, of the first of them.
        reports: float32[steps, 8], what they said.
        weights: float32[n], all of the model after them.
    """

    gradient: Tensor
    reports: Tensor
    weights: Tensor


class ExecutionTrial(NamedTuple):
    """What became of an execution.

    Attributes:
        execution: that was tried.
        seconds: a step, None where there is a problem.
        preparation_seconds: until its first steps were done, compilation included.
        problem: why it is not used, a phrase; empty where it could be.
    """

    execution: Execution
    seconds: float | None
    preparation_seconds: float
    problem: str


def fastest(trials: Sequence[ExecutionTrial]) -> ExecutionTrial:
    """Return the fastest trial without a problem, of equal ones the first.

    Args:
        trials: at least one of them, eager steps, has no problem.
    """
    return min((t for t in trials if not t.problem and t.seconds is not None), key=lambda t: t.seconds or 0.0)


def trial_lines(trials: Sequence[ExecutionTrial], chosen: Execution) -> list[str]:
    """Return what is said about trials: what runs and how fast each was, and why any was not used."""
    if not trials:
        return []
    times = [f"{t.execution} {1e3 * t.seconds:.2f}" for t in trials if t.seconds is not None]
    lines = [f"Update execution: {chosen}; ms a step: {', '.join(times)}."]
    return lines + [f"Update execution: {t.execution} is not used: {t.problem}." for t in trials if t.problem]


def difference(found: StepResult, expected: StepResult, tolerance: float | None) -> str:
    """Return how an outcome differs from that of eager steps, a phrase; empty where it does not.

    Args:
        found: of the execution that is tried.
        expected: of eager steps from the same state on the same minibatches.
        tolerance: relative; None where every bit must be the same.
    """
    if tolerance is None:
        names = [n for n, a, b in zip(StepResult._fields, found, expected, strict=True) if not _same_bits(a, b)]
        return f"its {' and '.join(names)} are not those of eager steps to the bit" if names else ""
    for name, a, b in zip(("gradient", "report"), found, expected, strict=False):
        error = float((a - b).norm() / b.norm().clamp(min=1e-12))
        if not error <= tolerance:
            return f"its {name} and that of eager steps are {error:.1%} apart, more than {tolerance:.0%}"
    return ""


def gradient_of(stepper: TorchStepper) -> Tensor:
    """Return a copy of the gradient of the last step."""
    return torch.cat([p.grad.flatten() for p in stepper.model.parameters() if p.grad is not None])


class Snapshot:
    """The state that steps change, to come back to.

    Args:
        stepper: whose state it is; one step that is skipped makes what its optimiser keeps.
        rollout: for that step.
        indices: int64[S].
        weights: float32[S].
    """

    def __init__(self, stepper: TorchStepper, rollout: Batch, indices: Tensor, weights: Tensor) -> None:
        self._stepper = stepper
        self._scale: dict[str, Any] = stepper.scaler.state_dict()
        # FP16's scale may still be too large for any step to be taken, and then there would be little to compare.
        self._small_scale = {**self._scale, "scale": min(self._scale["scale"], _SCALE)} if self._scale else {}
        stepper.step(rollout, indices, weights * torch.nan)
        self._weights = stepper.model.flat.clone()
        self._moments = {name: tensor.clone() for name, tensor in stepper.optimizer_tensors().items()}

    def put_back(self, tries: bool = True) -> None:
        """Go back; everything stays where it lies.

        Args:
            tries: whether another trial follows, for which the scale of FP16 is small.
        """
        with torch.no_grad():
            self._stepper.model.flat.copy_(self._weights)
        self._stepper.load_optimizer_tensors(self._moments)
        if self._scale:
            self._stepper.scaler.load_state_dict(self._small_scale if tries else self._scale)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))  # NaN equals itself
