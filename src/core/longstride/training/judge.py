"""What a run is worth so far: evaluations at intervals, the best parameters, the heuristics to compare with."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longstride.rollout.collector import EpisodeOutcome
from longstride.simulators.simulator import Simulator
from longstride.training.display.messages import evaluation_line, start_line
from longstride.training.display.progress import Progress
from longstride.training.evaluation.best_heuristic import BestHeuristic
from longstride.training.evaluation.direction import DirectionCheck
from longstride.training.evaluation.evaluate import PeriodicEvaluation
from longstride.training.record import Best, JudgedBy, main_metric_of
from longstride.training.settings import Services


class Judge:
    """Judges the policy of a run by its main metric, and has the best parameters kept.

    Evaluations decide which are the best where some are made, else the episodes of iterations. ``best`` is their main
    metric so far. ``actor_params`` returns the present ones, float32[*], and ``keep`` saves them.
    """

    def __init__(
        self,
        simulator: Simulator,
        services: Services,
        actor_params: Callable[[], np.ndarray],
        keep: Callable[[], None],
    ) -> None:
        self._simulator, self._actor_params, self._keep, self.best = simulator, actor_params, keep, Best()
        self._evaluation, self._heuristics = services.evaluation, services.heuristics
        self._ranks, self._sampler, self._seconds = services.ranks, services.utilization.sampler, 0.0
        self._direction = DirectionCheck(simulator)

    def seconds_after(self, iteration: int, is_last: bool) -> float:
        """Return the seconds that the evaluation after an iteration is going to take; 0 where none is due."""
        due = self._evaluation is not None and self._evaluation.due(iteration, is_last)
        return self._seconds if due else 0.0

    def see_start(self, progress: Progress) -> float:
        """Evaluate the policy that training begins with, which may stay the best; return the seconds that took."""
        if self._evaluation is None:
            return 0.0
        result, metric = self._played_greedily(self._evaluation), self._simulator.main_metric
        progress.say(start_line(metric, self._simulator.unit_of(metric), result))
        self._direction.see(result)
        return float(result["seconds"])

    def see_iteration(self, finished: Sequence[EpisodeOutcome]) -> None:
        """Take note of the episodes that the present parameters have played."""
        self._keep_best(main_metric_of(self._simulator, finished), "iterations")

    def evaluate(self, iteration: int, is_last: bool, progress: Progress) -> dict[str, Any] | None:
        """Evaluate the policy where that is due after an iteration; return what the record says of it."""
        if self._evaluation is None or not self._evaluation.due(iteration, is_last):
            return None
        self._begin_phase(progress)
        result, metric = self._played_greedily(self._evaluation), self._simulator.main_metric
        self._seconds = result["seconds"]
        best = self.compare(progress, is_last, evaluated=self._evaluation.asked)
        progress.say(evaluation_line(iteration, metric, self._simulator.unit_of(metric), result, best))
        if contradiction := self._direction.see(result):
            progress.say(contradiction)
        return result

    def compare(self, progress: Progress, is_last: bool, evaluated: bool = False) -> BestHeuristic | None:
        """Play the heuristics where that is due; show the best one, if it is known, and return it."""
        heuristics = self._heuristics
        if heuristics is None:
            return None
        if not is_last and heuristics.due(progress.watched_seconds, evaluated):
            self._begin_phase(progress)
            if line := heuristics.play():
                progress.say(line)
        if heuristics.best is not None:
            progress.compare_with(*heuristics.best)
        return heuristics.best

    def _played_greedily(self, evaluation: PeriodicEvaluation) -> dict[str, Any]:
        """Return the figures of an evaluation, which the first rank plays for all; keep the best parameters."""
        result = self._ranks.from_first(lambda: evaluation.run(self._actor_params()))
        self._keep_best(result["metrics"].get(self._simulator.main_metric, {}).get("mean"), "evaluations")
        return result

    def _keep_best(self, value: float | None, judged_by: JudgedBy) -> None:
        if self.best.beaten_by(value, judged_by, self._simulator.main_metric_lower_is_better):
            self.best = Best(value, judged_by)
            self._keep()

    def _begin_phase(self, progress: Progress) -> None:
        progress.phase("evaluating")
        self._sampler.phase("evaluating")
