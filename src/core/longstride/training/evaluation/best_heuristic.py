"""The best heuristic, which a run that trains is compared with."""

from typing import Any, NamedTuple

from longstride.errors import UserError
from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.evaluate import best_heuristic, heuristic_records, summarise

_SECONDS = 30.0
"""Time for which a run is watched before heuristics are played for it: they may take as long to compile."""


class BestHeuristic(NamedTuple):
    """A heuristic with its mean of the main metric."""

    name: str
    value: float


class Heuristics:
    """Plays a simulator's heuristics once, so that a run that trains can be compared with the best of them.

    Args:
        simulator: simulator of the run.
        episodes: episodes of each heuristic, those that an evaluation while the run trains plays too.
        seed: seed of their random streams, which are none of training.
        threads: threads that play.
        evaluation: content of the run's evaluation.json, which may name the best heuristic; empty without one.
    """

    def __init__(
        self, simulator: Simulator, episodes: int, seed: int, threads: int, evaluation: dict[str, Any] | None = None
    ) -> None:
        self._simulator, self._episodes, self._seed, self._threads = simulator, episodes, seed, threads
        self.best = _known(evaluation or {}, simulator.main_metric)
        self._played = self.best is not None or not simulator.heuristics

    def due(self, watched_seconds: float, evaluated: bool) -> bool:
        """Return whether it is time to play: an evaluation asks for a comparison, or somebody watches for a while."""
        return not self._played and (evaluated or watched_seconds >= _SECONDS)

    def play(self) -> str:
        """Play, and return a line for people; empty where it is not needed. A heuristic that fails ends no run."""
        self._played = True
        try:
            records = heuristic_records(self._simulator, self._episodes, self._seed, self._threads)
        except UserError as error:
            return f"There is no heuristic to compare with: {error}"
        name, metric = best_heuristic(records, self._simulator), self._simulator.main_metric
        if name is not None:
            self.best = BestHeuristic(name, float(summarise(records[name])[metric]["mean"]))
        return ""


def _known(evaluation: dict[str, Any], metric: str) -> BestHeuristic | None:
    """Return the best heuristic in the content of an evaluation.json."""
    try:
        name = evaluation["best_heuristic"]
        return BestHeuristic(name, float(evaluation["policies"][name][metric]["mean"]))
    except (KeyError, TypeError, ValueError):
        return None
