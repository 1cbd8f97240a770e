"""Which weights of a run are its best."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from core.rollout.collector import EpisodeOutcome
from core.simulators.simulator import Simulator
from core.training.record import mean_of

Judged = Literal["rounds", "evaluations"]
"""By what weights are judged: the episodes that they played in training, or an evaluation."""


class Best(NamedTuple):
    """The main metric of the best weights so far, and by what it was found."""

    value: float | None = None
    judged_by: Judged = "rounds"

    def beaten_by(self, value: float | None, judged_by: Judged, lower_is_better: bool) -> bool:
        """Return whether other weights are better.

        An evaluation takes the place of what the luck of a round chose; a round never takes an evaluation's.
        """
        if value is None or (self.judged_by == "evaluations" and judged_by == "rounds"):
            return False
        if self.value is None or self.judged_by != judged_by:
            return True
        return value < self.value if lower_is_better else value > self.value


def main_metric_of(simulator: Simulator, finished: Sequence[EpisodeOutcome]) -> float | None:
    """Return the mean of a simulator's main metric over episodes; None where none has it."""
    name = simulator.main_metric
    if name == "return":
        return mean_of([e.total_reward for e in finished])
    return mean_of([e.metrics[name] for e in finished if name in e.metrics])
