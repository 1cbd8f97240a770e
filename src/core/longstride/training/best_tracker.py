"""What a run is worth so far: evaluations at intervals, the best parameters, the heuristics to compare with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.policies.parameter_layout import ParameterLayout
from longstride.policies.spec import PolicySpec
from longstride.rollout.exploring.exploration import Exploring
from longstride.simulators.simulator import Simulator
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.choose import Choice, choice_line, choose
from longstride.training.choice.mean_policy import MeanPolicy
from longstride.training.choice.rare_losses import RareLosses
from longstride.training.choice.rare_states import MOST_STATES, excursions_sentence
from longstride.training.display.messages import evaluation_line, start_line
from longstride.training.display.progress import Progress
from longstride.training.evaluation.acting import acting_sentence
from longstride.training.evaluation.best_heuristic import BestHeuristic
from longstride.training.evaluation.direction import DirectionCheck
from longstride.training.evaluation.periodic import PeriodicEvaluation
from longstride.training.record import Best, JudgedBy, Summary, main_metric_of, main_metrics
from longstride.training.settings import Services


class BestTracker:
    """Judges the policy of a run by its main metric, and has the best parameters kept.

    Evaluations decide which are the best where some are made, else the episodes of iterations. ``best`` is their main
    metric so far, ``trained`` the environment steps of training. ``actor_params`` returns the present ones, float32[*],
    and ``keep`` saves those of a candidate, or the present ones (None). ``exploring`` knows rarely visited states.
    ``chosen`` is what the comparison at the end has found, None before.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        services: Services,
        actor_params: Callable[[], np.ndarray],
        keep: Callable[[Candidate | None], None],
        exploring: Exploring,
    ) -> None:
        self._simulator, self._actor_params, self._keep, self.best = simulator, actor_params, keep, Best()
        self._evaluation, self._heuristics = services.evaluation, services.heuristics
        self._ranks, self._sampler, self._seconds = services.ranks, services.utilization.sampler, 0.0
        self._exploring = exploring
        self._pace = 0.0  # seconds of an evaluated step
        self._direction, self._spec = DirectionCheck(simulator), spec
        self._candidates, self._mean = Candidates(simulator.main_metric_lower_is_better), MeanPolicy()
        self._rare_losses = RareLosses()
        self.trained = self._evaluated_at = self._spent = self._last_steps = 0
        self._outcomes = self._last_outcomes = 0  # further outcomes of the steps of training
        self._worst: float | None = None  # main metric of an episode that trained since the evaluation before
        self._episode_steps = 0.0  # steps that an episode took in the last evaluation; 0 if not known
        self._kept: int | None = None  # iteration of the candidate that is the best so far
        self.chosen: Choice | None = None

    def seconds_after(self, iteration: int, is_last: bool) -> float:
        """Return the seconds that evaluations after an iteration take: one if it is due, and the one at the end."""
        evaluation, trained = self._evaluation, self.trained + self._last_steps
        if evaluation is None or not self._spent:
            return 0.0
        seconds = self._seconds if evaluation.due(iteration, is_last, trained, self._evaluated_at) else 0.0
        further = evaluation.further_budget(self._outcomes + self._last_outcomes)
        return seconds + self._pace * (evaluation.budget(trained, self._spent) + further)

    def see_start(self, progress: Progress) -> float:
        """Evaluate the policy that training begins with, which may stay the best; return the seconds that took."""
        if self._evaluation is None:
            return 0.0
        metric, at_intervals = self._simulator.main_metric, self._evaluation.at_intervals
        result = self._played_greedily(self._evaluation, 0) if at_intervals else {}
        if not result:
            self._candidates.add(Candidate(0, self._actor_params().copy()))
            return self._seconds
        progress.say(start_line(metric, self._simulator.unit_of(metric), result, self._evaluation.cut))
        self._direction.see(result)
        return float(result["seconds"])

    def record_iteration(self, whole: Summary) -> None:
        """Take note of the steps and episodes that the present parameters have played."""
        self.trained, self._last_steps = self.trained + whole.steps, whole.steps
        self._outcomes, self._last_outcomes = self._outcomes + whole.outcomes, whole.outcomes
        self._rare_losses.include(whole.rewards)
        worst = max if self._simulator.main_metric_lower_is_better else min
        if values := main_metrics(self._simulator, whole.finished):
            self._worst = float(worst(values if self._worst is None else [*values, self._worst]))
        self._keep_best(main_metric_of(self._simulator, whole.finished), "iterations")

    def evaluate(self, iteration: int, is_last: bool, progress: Progress) -> dict[str, Any] | None:
        """Take the policy after an iteration into the mean; evaluate it where that is due, for the record."""
        evaluation = self._evaluation
        if evaluation is None or not evaluation.at_intervals or self._spec.has_memory:
            self._mean = MeanPolicy()
        else:
            self._mean.include(self._actor_params())
        if evaluation is None or not evaluation.due(iteration, is_last, self.trained, self._evaluated_at):
            return None
        self._evaluated_at = self.trained
        if not evaluation.affords(self._episode_steps, self._spent, self.trained):
            return None
        self._begin_phase(progress)
        result, metric = self._played_greedily(evaluation, iteration), self._simulator.main_metric
        if not result:
            return None
        best = self.compare(progress, is_last, evaluated=evaluation.asked)
        progress.say(evaluation_line(iteration, metric, self._simulator.unit_of(metric), result, best))
        if contradiction := self._direction.see(result):
            progress.say(contradiction)
        return result

    def forget_mean(self) -> None:
        """Let the mean of the late policies begin anew: parameters for other scales of observations have no mean."""
        self._mean = MeanPolicy()

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

    def finish(self, iteration: int, progress: Progress) -> None:
        """Compare the last policy with the mean of the late ones and the best candidates; keep the best of them."""
        evaluation = self._evaluation
        if evaluation is None:
            return
        if all(each.iteration != iteration for each in self._candidates.kept):
            worst = None if evaluation.cut else self._worst
            self._candidates.add(Candidate(iteration, self._actor_params().copy(), [], worst))
        if len(self._candidates.kept) < 2:  # none of a checkpoint of an earlier version
            return
        self._begin_phase(progress)
        budget, rare = evaluation.budget(self.trained, self._spent), self._exploring.rare_states(MOST_STATES)
        further = self._rare_losses.largest, self._episode_steps, evaluation.further_budget(self._outcomes)
        arguments = evaluation, self._simulator, self._spec, budget, rare, self._mean_candidate(iteration), *further
        self.chosen = self._ranks.from_first(lambda: choose(self._candidates, *arguments))
        if self.chosen is None and self.best.judged_by == "evaluations" and not self._candidates.kept[-1].values:
            self.best = Best(self.best.value, "iterations")  # evaluations ended long ago, so none speaks for another
            self._keep(None)
        if self.chosen is not None:
            self._keep_candidate(self.chosen.candidate, self.chosen.value)
            shown = acting_sentence(self.chosen.verdict) or excursions_sentence(self.chosen.rare)
            for line in filter(None, (choice_line(self._simulator, self.chosen, evaluation.cut), shown)):
                progress.say(line)

    def _mean_candidate(self, iteration: int) -> Candidate | None:
        """Return the mean of the late policies, judged as the newest one where that met no rare event."""
        params = self._mean.params
        return None if params is None else Candidate(iteration, params, [], self._candidates.kept[-1].worst, True)

    def metadata(self) -> dict[str, Any]:
        """Return what every checkpoint says of the best parameters, JSON values."""
        metric = self._simulator.main_metric
        return {"best": self.best.value, "best_judged_by": self.best.judged_by, "main_metric": metric}

    def state_dict(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return arrays by name and JSON values that a run continues from."""
        arrays, candidates = self._candidates.state_dict()
        arrays |= self._mean.arrays()
        counts: dict[str, Any] = {"trained": self.trained, "evaluated_at": self._evaluated_at, "spent": self._spent}
        counts |= {
            "outcomes": self._outcomes,
            "episode_steps": self._episode_steps,
            "rare_losses": self._rare_losses.state(),
        }
        counts |= self._mean.metadata()
        return arrays, {**counts, "worst": self._worst, "kept": self._kept, "candidates": candidates}

    def load_state_dict(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
        """Restore :meth:`state_dict` and :meth:`metadata` from a checkpoint; one of an earlier version has no state."""
        self.best = Best(metadata["best"], metadata.get("best_judged_by", "iterations"))
        state = metadata.get("judge", {})
        self.trained, self._evaluated_at = state.get("trained", 0), state.get("evaluated_at", 0)
        self._spent, self._worst, self._kept = state.get("spent", 0), state.get("worst"), state.get("kept")
        self._candidates.load_state_dict(arrays, state.get("candidates", []))
        self._mean.restore(arrays, state)
        self._rare_losses.restore(state.get("rare_losses", []))
        self._episode_steps, self._outcomes = state.get("episode_steps", 0.0), state.get("outcomes", 0)

    def _played_greedily(self, evaluation: PeriodicEvaluation, iteration: int) -> dict[str, Any]:
        """Return the figures of an evaluation, which the first rank plays for all; keep the best parameters.

        There are none if evaluations have taken their share of the run.
        """
        params = self._actor_params()
        spent, metric = (self._spent, self.trained), self._simulator.main_metric
        found = self._ranks.from_first(lambda: evaluation.run(params, metric, *spent))
        self._spent, self._seconds = self._spent + found.steps, found.seconds
        self._pace = self._seconds / max(found.steps, 1)
        self._episode_steps = found.steps / max(len(found.values), 1)
        if not found.record:
            return found.record
        worst = None if evaluation.cut else self._worst
        self._worst = None
        self._candidates.add(Candidate(iteration, params.copy(), found.values, worst))
        ranked = self._candidates.ranked()
        if ranked and ranked[0].iteration != self._kept:
            self._keep_candidate(ranked[0], self._candidates.mean_of(ranked[0]))
        return found.record

    def _keep_candidate(self, candidate: Candidate, value: float) -> None:
        self._kept, self.best = candidate.iteration, Best(value, "evaluations")
        self._keep(candidate)

    def _keep_best(self, value: float | None, judged_by: JudgedBy) -> None:
        if self.best.beaten_by(value, judged_by, self._simulator.main_metric_lower_is_better):
            self.best = Best(value, judged_by)
            self._keep(None)

    def _begin_phase(self, progress: Progress) -> None:
        progress.phase("evaluating")
        self._sampler.phase("evaluating")


def model_of(candidate: Candidate, tensors: Mapping[str, Tensor], layout: ParameterLayout) -> dict[str, Tensor]:
    """Return the model among the tensors of a checkpoint, with the actor of a candidate."""
    actor, model = torch.from_numpy(candidate.params), {n: t for n, t in tensors.items() if n.startswith("model.")}
    of_actor = [name for name, offset in layout.offsets.items() if offset < layout.actor_size]
    return model | {f"model.{name}": layout.view(actor, name) for name in of_actor}
