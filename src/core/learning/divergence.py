"""When numbers explode: steps that are not finite are skipped, and if that does not end, training goes back."""

from typing import NamedTuple

import torch
from torch import Tensor

from core.hardware.detect import has_bf16
from core.hardware.types import Precision
from core.learning.steps.interface import Stepper

_PATIENCE = 3
"""Updates in a row with skipped steps. One may be a single sample; three say that the weights are at fault."""

_RATE_FACTOR = 0.8
"""What each return to good weights does to the learning rates."""

_MOST_FALLBACKS = 5
"""In a run: by then it computes in FP32 with at most a third of the learning rates, so they are not the cause."""

_LEAST_SCALE = 1.0
"""Above it FP16's gradient scaler is still looking for its scale, and skipped steps are how it does that."""


class DivergedError(Exception):
    """Going back to good weights did not help; the message is the reason of the last attempt."""


class Fallback(NamedTuple):
    """A return to the last good weights, for the record.

    Attributes:
        reason: what was wrong.
        precision_before: format of the matrix products until then.
        precision: the same from there on.
        learning_rate_factor: of both learning rates from there on, beside their schedule.
    """

    reason: str
    precision_before: Precision
    precision: Precision
    learning_rate_factor: float


class DivergenceGuard:
    """Keeps the last good weights and goes back to them.

    Good are the weights at the start of the last update that was finite throughout: those at its end have not shown
    yet that they work. An update in which every step was skipped has changed nothing, so the next one would fail in the
    same way and training goes back at once; where only some were, after three such updates in a row.

    Args:
        stepper: whose model and optimiser are guarded.

    Attributes:
        rate_factor: of the learning rates.
        fallbacks: returns so far.
        streak: updates in a row in which steps were skipped.
    """

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self.rate_factor, self.fallbacks, self.streak = 1.0, 0, 0
        self._start: dict[str, Tensor] | None = None
        self._good: dict[str, Tensor] | None = None

    def start_update(self) -> None:
        """Remember the weights that an update starts from."""
        self._start = {
            "flat": self._stepper.model.flat.clone(),
            **{name: tensor.clone() for name, tensor in self._stepper.optimizer_tensors().items()},
        }

    def end_update(self, steps: int, skipped: int) -> Fallback | None:
        """Judge an update that took so many steps and skipped some; return what was done about it.

        Raises:
            DivergedError: nothing helps.
        """
        searching = skipped > 0 and self._stepper.scaler.is_enabled() and self._searching()
        if skipped == 0 or (searching and skipped < steps):
            self._good, self.streak = self._start, 0
        elif not searching:
            self.streak += 1
            if skipped == steps:
                return self.rollback(f"no step of the update was finite ({steps} of {steps} skipped)")
            if self.streak >= _PATIENCE:
                return self.rollback(f"{_PATIENCE} updates in a row had steps that were not finite")
        return None

    def rollback(self, reason: str) -> Fallback:
        """Go back to the last good weights, with the next remedy.

        Raises:
            DivergedError: there are none, or all remedies have been tried.
        """
        good, stepper = self._good or self._start, self._stepper
        if good is None or self.fallbacks == _MOST_FALLBACKS:
            raise DivergedError(reason)
        with torch.no_grad():
            stepper.model.flat.copy_(good["flat"])
        stepper.load_optimizer_tensors(good)
        before, after = stepper.precision, safer_precision(stepper.precision, has_bf16(stepper.device.type))
        stepper.use_precision(after)
        self.fallbacks, self.streak = self.fallbacks + 1, 0
        self.rate_factor *= _RATE_FACTOR
        return Fallback(reason, before, after, self.rate_factor)

    def _searching(self) -> bool:
        return self._stepper.scaler.get_scale() >= _LEAST_SCALE


def safer_precision(precision: Precision, bf16: bool) -> Precision:
    """Return the format to try after one that did not stay finite.

    Args:
        precision: that did not.
        bf16: whether the device computes in BF16, which has the range of FP32.
    """
    return "bf16" if precision == "fp16" and bf16 else "fp32"
