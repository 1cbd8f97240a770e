"""How long a run is, and how many steps each of its iterations collects: a fixed number, or as noise suggests."""

from typing import Any, Protocol

from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import UpdateReport
from longstride.training.rollout_growth import GrowthLimits, RolloutGrowth


class RunLength(Protocol):
    """What the trainer asks about the length of its run.

    Attributes:
        ratio: size of the next rollout divided by that of the last one.
        rate_factor: factor of both learning rates.
    """

    ratio: float
    rate_factor: float

    @property
    def steps(self) -> int | None:
        """Steps of each instance in the next rollout; None if they never change."""

    def share(self, iteration: int) -> float:
        """Return the share of the run that is done after so many iterations, 0 .. 1; 1 ends it."""

    def shown_share(self, iteration: int) -> float:
        """Return the same if iterations differ in length, for the display; else 0."""

    def iterations_left(self, iteration: int) -> int:
        """Return the number of iterations that are left, as far as it is known."""

    def warm_up(self, instances: int) -> int:
        """Return the instances, of so many, that play the rollout before the first one."""

    def finish_iteration(
        self, report: UpdateReport, settings: UpdateSettings, can_move: bool, left: float
    ) -> str | None:
        """Take note of an iteration with an update; return a sentence if the next one collects more.

        A policy that cannot move is as good as fixed, or its units are dead: its divergence says nothing of the rate.
        What is left is its entropy as a share of the most possible, 1 where that is not known.
        """

    def figures(self) -> dict[str, Any]:
        """Return what metrics.jsonl holds of it after an iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values that a checkpoint keeps."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""


class FixedLength:
    """A run of so many iterations, whose rollouts have one size."""

    def __init__(self, iterations: int) -> None:
        self._iterations, self.ratio, self.rate_factor = iterations, 1.0, 1.0

    @property
    def steps(self) -> None:
        """None: they never change."""
        return None

    def share(self, iteration: int) -> float:
        """Return the share of the iterations."""
        return iteration / self._iterations

    def shown_share(self, iteration: int) -> float:
        """Return 0: all iterations are alike."""
        return 0.0

    def iterations_left(self, iteration: int) -> int:
        """Return the number of iterations that are left."""
        return self._iterations - iteration

    def warm_up(self, instances: int) -> int:
        """Return 1: a single instance shows the scales of observations."""
        return 1

    def finish_iteration(self, report: UpdateReport, settings: UpdateSettings, can_move: bool, left: float) -> None:
        """Do nothing."""

    def figures(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the checkpoint counts the iterations."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def run_length(iterations: int, limits: GrowthLimits | None) -> RunLength:
    """Return the length of a run: so many iterations, or by limits of rollouts that grow."""
    return FixedLength(iterations) if limits is None else RolloutGrowth(limits)
