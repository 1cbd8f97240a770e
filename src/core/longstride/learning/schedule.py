"""How coefficients of the update change over a run: pure functions of the share that is done."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Coefficients(NamedTuple):
    """Coefficients of one update: the factor of both learning rates, and the NamedTuple of floats of the loss."""

    learning_rate_factor: float
    loss: Any


@dataclass(frozen=True)
class Schedule:
    """Coefficients that move linearly over a run: of the first iteration, and those that would follow the last."""

    start: Coefficients
    end: Coefficients

    def at(self, share_done: float) -> Coefficients:
        """Return the coefficients of an update after some share of the run, from 0 to 1."""

        def between(start: float, end: float) -> float:
            return start if start == end else end + (start - end) * (1.0 - share_done)

        loss = type(self.start.loss)(*map(between, self.start.loss, self.end.loss))
        return Coefficients(between(self.start.learning_rate_factor, self.end.learning_rate_factor), loss)
