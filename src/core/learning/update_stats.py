"""Figures of an update for its record."""

import math
from typing import Any, NamedTuple

from torch import Tensor

from core.hardware.types import Execution, Precision
from core.learning.algorithms.interface import Algorithm
from core.learning.steps.interface import RATIO_ERROR, SKIPPED, by_name


class UpdateReport(NamedTuple):
    """Figures of one update. What was not finite is None.

    Attributes:
        losses: figures of the algorithm's loss terms by name, means over the steps that were not skipped, and
            ``initial_ratio_error``, that of the first minibatch alone.
        learning_rate: learning rate of the actor.
        skipped_steps: steps of ``optimizer_steps`` that were skipped because loss or gradient was not finite.
        out_of_memory: fields of :class:`OutOfMemory` for each time that memory ran out.
        fallbacks: fields of :class:`Fallback` for each return to good parameters.
        execution: how the steps ran.
        execution_notes: sentences about what was chosen or given up.
        execution_trials: fields of each :class:`~core.learning.step_selection.execution_trial.ExecutionTrial`.
        execution_seconds: seconds of these trials, in the first update; not part of ``update_seconds``.
    """

    losses: dict[str, float | None]
    explained_variance: float | None
    precision: Precision
    learning_rate: float
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

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name as JSON values, those of the loss terms beside the others."""
        others = self._asdict()
        return {**others.pop("losses"), **others}


def loss_figures(algorithm: Algorithm, reports: Tensor) -> dict[str, float | None]:
    """Return the figures of an update's loss terms from float32[steps, columns], the reports of its steps."""
    columns = by_name(algorithm, reports)
    means = by_name(algorithm, reports[columns[SKIPPED] == 0].mean(dim=0))
    figures = {name: finite(means[name].item()) for name in algorithm.terms if name != RATIO_ERROR}
    return {**figures, f"initial_{RATIO_ERROR}": finite(columns[RATIO_ERROR][0].item())}


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinity."""
    return number if math.isfinite(number) else None
