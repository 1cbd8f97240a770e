"""Divergence: steps that are not finite are skipped; if that does not end, training returns to good parameters."""

from typing import Any, NamedTuple

from longstride.hardware.detect import has_bf16
from longstride.hardware.types import Precision
from longstride.learning.steps.interface import Stepper, StepperState, restore, snapshot

_PATIENCE = 3
"""Updates in a row with skipped steps. One may come from a single sample; three come from the parameters."""

_RATE_FACTOR = 0.8
"""Factor of the learning rates for each return to good parameters."""

_MOST_FALLBACKS = 5
"""Returns in a run. After them it computes in FP32 with a third of the learning rates, so they are not the cause."""

_LEAST_SCALE = 1.0
"""Above this scale FP16's gradient scaler still searches for its scale, by skipping steps."""


class DivergedError(Exception):
    """Returning to good parameters did not help; the message is the reason of the last return."""


class Fallback(NamedTuple):
    """A return to the last good parameters, for the record.

    Number formats are those of the matrix products; the factor is that of both learning rates beside their schedule.
    """

    reason: str
    precision_before: Precision
    precision: Precision
    learning_rate_factor: float


class DivergenceGuard:
    """Keeps the last good parameters of a stepper's model and optimiser, and returns to them.

    Good are the parameters at the start of the last update that was finite throughout: those at its end have not shown
    yet that they work. An update in which every step was skipped has changed nothing and the next one would fail alike,
    so training returns at once. Where only some steps were skipped, it returns after three such updates in a row:
    ``streak`` counts them, ``fallbacks`` the returns so far, and ``rate_factor`` is what they leave of the learning
    rates.
    """

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self.rate_factor, self.fallbacks, self.streak = 1.0, 0, 0
        self._start: StepperState | None = None
        self._good: StepperState | None = None

    def start_update(self) -> None:
        """Remember the parameters at the start of an update."""
        self._start = snapshot(self._stepper)

    def end_update(self, steps: int, skipped: int) -> Fallback | None:
        """Judge an update by its number of steps and of skipped ones; return the remedy, None if none was needed.

        Raises:
            DivergedError: no remedy is left.
        """
        scaler = self._stepper.scaler
        searching = skipped > 0 and scaler.is_enabled() and scaler.get_scale() >= _LEAST_SCALE
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
        """Return to the last good parameters, with the next remedy.

        Raises:
            DivergedError: there are no such parameters, or no remedy is left.
        """
        good, stepper = self._good or self._start, self._stepper
        if good is None or self.fallbacks == _MOST_FALLBACKS:
            raise DivergedError(reason)
        restore(stepper, good)
        before, after = stepper.precision, safer_precision(stepper.precision, has_bf16(stepper.device.type))
        stepper.use_precision(after)
        self.fallbacks, self.streak = self.fallbacks + 1, 0
        self.rate_factor *= _RATE_FACTOR
        return Fallback(reason, before, after, self.rate_factor)

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values of a checkpoint; the parameters themselves are not among them."""
        return {"rate_factor": self.rate_factor, "fallbacks": self.fallbacks, "streak": self.streak}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; other names are ignored."""
        self.rate_factor, self.fallbacks, self.streak = state["rate_factor"], state["fallbacks"], state["streak"]


def safer_precision(precision: Precision, bf16: bool) -> Precision:
    """Return the number format to try after one that did not stay finite; BF16 has the range of FP32."""
    return "bf16" if precision == "fp16" and bf16 else "fp32"
