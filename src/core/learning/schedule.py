"""How coefficients of the update change over a run: pure functions of the episode."""

from dataclasses import dataclass
from typing import NamedTuple


class Coefficients(NamedTuple):
    """Of one update.

    Attributes:
        learning_rate_factor: of both learning rates.
        clip_range: PPO's epsilon.
        value_clip_range: of the critic; 0 for none.
        entropy_coefficient: weight of the entropy bonus.
    """

    learning_rate_factor: float
    clip_range: float
    value_clip_range: float
    entropy_coefficient: float


@dataclass(frozen=True)
class Schedule:
    """Where coefficients begin and where they would be after the last episode; between, they move linearly.

    Attributes:
        start: of the first episode.
        end: after the last one; equal to ``start`` for what is constant.
    """

    start: Coefficients
    end: Coefficients

    def at(self, share_done: float) -> Coefficients:
        """Return the coefficients of an update.

        Args:
            share_done: share of the run that is over, from 0 to 1.
        """
        remaining = 1.0 - share_done
        pairs = zip(self.start, self.end, strict=True)
        return Coefficients(*(a if a == b else b + (a - b) * remaining for a, b in pairs))
