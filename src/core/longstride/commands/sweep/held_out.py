"""The best trials and the base settings on seeds that no trial had, so that luck is not taken for a gain."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from longstride.commands.sweep.runs import Result
from longstride.commands.sweep.study import Trial
from longstride.commands.sweep.sweep import BASE, Sweep, trial_name
from longstride.simulators.simulator import Simulator
from longstride.text import Say, counted
from longstride.training.evaluation.comparison import Verdict, compare
from longstride.training.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Finalist:
    """A trial's settings on held-out seeds, beside the base settings."""

    trial: Trial
    scores: dict[int, float]  # seed -> score, but for trainings that failed
    verdict: Verdict | None  # against the base settings, seed by seed; None for less than two common seeds

    @property
    def mean(self) -> float | None:
        """Mean score over the held-out seeds."""
        return fmean(self.scores.values()) if self.scores else None


@dataclass(frozen=True)
class HeldOut:
    """The comparison at the end of a sweep."""

    base: dict[int, float]  # seed -> score with the base settings
    finalists: list[Finalist]  # in the order of their scores in the search

    def winner(self, lower_is_better: bool) -> Finalist | None:
        """Return the finalist that is shown to be better than the base settings, the best of several; else None."""
        sign = 1.0 if lower_is_better else -1.0
        better = [(sign * f.verdict.value, f) for f in self.finalists if f.verdict and f.verdict.word == "better"]
        return min(better, key=lambda each: each[0])[1] if better else None

    def as_json(self) -> dict[str, Any] | None:
        """Return what sweep.json holds of it; None where nothing was compared."""
        if not self.finalists:
            return None
        finalists = [
            {
                "trial": finalist.trial.number,
                "scores": {str(seed): score for seed, score in finalist.scores.items()},
                "verdict": finalist.verdict.as_json() if finalist.verdict else None,
            }
            for finalist in self.finalists
        ]
        return {"base": {str(seed): score for seed, score in self.base.items()}, "finalists": finalists}


NOTHING_COMPARED = HeldOut({}, [])


def compare_held_out(sweep: Sweep, trials: list[Trial], say: Say) -> HeldOut:
    """Train the base settings and those of some trials with each held-out seed, as far as that was not done before.

    Raises:
        UserError: another process still trains in one of their folders.
    """
    seeds = sweep.held_out_seeds
    if not (trials and seeds):
        return NOTHING_COMPARED
    scores: dict[str, dict[int, float]] = {BASE: {}, **{trial_name(trial.number): {} for trial in trials}}
    settings = {BASE: None, **{trial_name(trial.number): trial.params for trial in trials}}
    best = f"the {counted(len(trials), 'best trial')}" if len(trials) > 1 else "the best trial"
    numbers = f"{seeds[0]} to {seeds[-1]}"
    say(f"Training {best} and the {BASE} with {counted(len(seeds), 'seed')} that no trial had, {numbers} ...")
    for seed in seeds:
        for name, params in settings.items():
            result = sweep.held_out("base" if params is None else name, params, seed).run_once()
            _tell(sweep, name, seed, result, say)
            if result.score is not None and not result.error:
                scores[name][seed] = result.score
    return HeldOut(scores[BASE], judged(trials, scores, sweep.simulator, seeds))


def judged(
    trials: list[Trial], scores: dict[str, dict[int, float]], simulator: Simulator, seeds: list[int]
) -> list[Finalist]:
    """Return trials with the verdicts on their scores (name -> seed -> score) against those of the base settings."""
    metric = simulator.main_metric
    records = {name: [{metric: of[s]} if s in of else {} for s in seeds] for name, of in scores.items()}
    evaluation = Evaluation(len(seeds), records)
    names = [trial_name(trial.number) for trial in trials]
    return [
        Finalist(trial, scores[name], compare(evaluation, simulator, name, BASE))
        for trial, name in zip(trials, names, strict=True)
    ]


def _tell(sweep: Sweep, name: str, seed: int, result: Result, say: Say) -> None:
    if result.error:
        say(f"  seed {seed}, {name}: failed: {result.error}")
