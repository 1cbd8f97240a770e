"""What an update says about itself."""

import math
from typing import Any, NamedTuple

from torch import Tensor

from core.hardware.types import Execution
from core.learning.algorithms.ppo import LossTerms


class UpdateReport(NamedTuple):
    """Figures of one update; the losses are means over its steps. What was not finite is None.

    Attributes:
        skipped_steps: of ``optimizer_steps``, because loss or gradient was not finite; they are in no mean.
        out_of_memory: for each time that memory ran out what :class:`OutOfMemory` says.
        fallbacks: for each return to good weights what :class:`Fallback` says.
        execution: how its steps ran.
        execution_notes: sentences about what was chosen or given up.
        execution_trials: what each :class:`~core.learning.step_selection.execution_trial.ExecutionTrial` found.
        execution_seconds: that trying took, in the first update; not part of ``update_seconds``.
    """

    policy_loss: float | None
    value_loss: float | None
    entropy: float | None
    approx_kl: float | None
    clip_fraction: float | None
    initial_ratio_error: float | None
    explained_variance: float | None
    epochs: int
    optimizer_steps: int
    skipped_steps: int
    batch_size: int
    model_transfers: int
    transfer_seconds: float
    update_seconds: float
    out_of_memory: list[dict[str, Any]]
    fallbacks: list[dict[str, Any]]
    execution: Execution
    execution_notes: list[str]
    execution_trials: list[dict[str, Any]]
    execution_seconds: float


def figures_of_steps(steps: Tensor) -> dict[str, float | None]:
    """Return the loss terms of an update for its report.

    Args:
        steps: float32[steps, 8], what each of them returned, on the host.
    """
    means = steps[steps[:, -1] == 0][:, :-1].contiguous().mean(dim=0).tolist()
    terms = dict(zip(LossTerms._fields, means, strict=True))
    figures = {
        "policy_loss": terms["policy"],
        "value_loss": terms["value"],
        "entropy": terms["entropy"],
        "approx_kl": terms["approx_kl"],
        "clip_fraction": terms["clip_fraction"],
        "initial_ratio_error": float(steps[0, -2]),  # of the first minibatch alone, before any step
    }
    return {name: finite(figure) for name, figure in figures.items()}


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinity."""
    return number if math.isfinite(number) else None
