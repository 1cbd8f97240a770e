"""The search by Optuna: what to try next, what to give up, what mattered. Its journal survives a kill."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from longstride.commands.sweep.journal import import_optuna, open_study, repair_study
from longstride.commands.sweep.space import Dimension
from longstride.seeding import stream

Objectives = Literal["score", "score,seconds"]
State = Literal["complete", "pruned", "failed"]

RUNGS = 10
"""Parts of a trial; after each its score so far is compared with that of others at the same part."""

_FIRST_RUNG, _FIRST_TRIALS = 3, 5
"""Parts of a trial, and complete trials, before the first comparison."""

_TOP, _LEAST_COMPLETE = 0.25, 8
"""Share of the trials whose values are compared with those of all, and the complete trials that it takes."""


@dataclass(frozen=True)
class Trial:
    """A trial that has ended."""

    number: int  # from 0, in the order of their beginnings; a repeated trial has a new one
    state: State
    params: dict[str, Any]  # setting -> value
    score: float | None  # main metric; None unless complete
    seconds: float | None  # seconds of training, evaluations left out; None unless complete
    took: float  # seconds of its process
    error: str = ""  # why it failed
    same_as: int | None = None  # number of an earlier trial with the same values, whose score this is
    so_far: dict[int, float] = field(default_factory=dict)  # part of the run -> score at its end


@dataclass(frozen=True)
class Aim:
    """What a search looks for."""

    objectives: Objectives
    lower_is_better: bool  # of the score
    pruning: bool  # whether trials below the median are given up
    seed: int  # of the search's random streams


class Search:
    """A study of Optuna in a journal file.

    Raises:
        UserError: Optuna is not installed, or the journal is damaged.
    """

    def __init__(self, journal: Path, space: Sequence[Dimension], aim: Aim) -> None:
        optuna = self._optuna = import_optuna("sweep")
        self._space, self._aim = {d.name: _distribution(optuna, d) for d in space}, aim
        directions = ["minimize" if aim.lower_is_better else "maximize"]
        pruner: Any = optuna.pruners.NopPruner()
        if aim.objectives == "score,seconds":
            directions.append("minimize")
        elif aim.pruning:
            pruner = optuna.pruners.MedianPruner(n_startup_trials=_FIRST_TRIALS, n_warmup_steps=0)
        self._study = open_study(optuna, journal, "sweep", directions, pruner)
        self._running: Any = None

    def repair(self) -> list[int]:
        """Mark trials that died with their process as failed, to be repeated; return their numbers."""
        return repair_study(self._optuna, self._study)

    def begin(self) -> tuple[int, dict[str, Any]]:
        """Begin a trial; return its number and its values."""
        self._study.sampler = self._sampler(len(self.trials()))
        self._running = self._study.ask(self._space)
        return self._running.number, dict(self._running.params)

    def report(self, rung: int, score: float) -> bool:
        """Report the running trial's score so far; return whether to give it up.

        The first parts are left out: Optuna compares the best of all parts, and policies that start from a rule begin
        well before they learn.
        """
        if self._aim.objectives != "score" or rung < _FIRST_RUNG:
            return False
        self._running.report(score, rung)
        return bool(self._running.should_prune())

    def complete(self, score: float, seconds: float, took: float, same_as: int | None = None) -> None:
        """End the running trial with its score and its seconds of training."""
        self._note(took=took, seconds=seconds, **({} if same_as is None else {"same_as": same_as}))
        self._study.tell(self._running, [score] if self._aim.objectives == "score" else [score, seconds])

    def prune(self, took: float) -> None:
        """End the running trial as one that was given up."""
        self._note(took=took)
        self._study.tell(self._running, state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, error: str, took: float) -> None:
        """End the running trial as one that failed."""
        self._note(took=took, error=error)
        self._study.tell(self._running, state=self._optuna.trial.TrialState.FAIL)

    def trials(self) -> list[Trial]:
        """Return the trials that have ended, but for those that were interrupted."""
        states = self._optuna.trial.TrialState
        names: dict[Any, State] = {states.COMPLETE: "complete", states.PRUNED: "pruned", states.FAIL: "failed"}
        ended = self._study.get_trials(deepcopy=False, states=tuple(names))
        # One that failed without an error was interrupted.
        return [_trial(t, names[t.state]) for t in ended if t.state != states.FAIL or "error" in t.user_attrs]

    def importances(self) -> dict[str, float]:
        """Return the share of each setting in what tells the best quarter from all trials; empty for few trials.

        By PED-ANOVA (Watanabe, Bansal and Hutter 2023), from complete trials.
        """
        if sum(trial.state == "complete" for trial in self.trials()) < _LEAST_COMPLETE or len(self._space) < 2:
            return {}
        importance = self._optuna.importance
        sign = 1.0 if self._aim.lower_is_better else -1.0
        target = None if self._aim.objectives == "score" else lambda trial: sign * trial.values[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator = importance.PedAnovaImportanceEvaluator(target_quantile=_TOP)
            found = importance.get_param_importances(self._study, evaluator=evaluator, target=target)
        return {name: float(share) for name, share in found.items()}

    def _note(self, **values: Any) -> None:
        for name, value in values.items():
            self._running.set_user_attr(name, value)

    def _sampler(self, ended: int) -> Any:
        """Return the sampler of the next trial, whose draws do not depend on interruptions."""
        seed = int(stream(self._aim.seed, "sweep", ended).integers(2**31))
        return self._optuna.samplers.TPESampler(seed=seed)


def _trial(trial: Any, state: State) -> Trial:
    notes = trial.user_attrs
    score = float(trial.values[0]) if state == "complete" else None
    so_far = {rung: float(value) for rung, value in trial.intermediate_values.items()}
    rest = notes.get("error", ""), notes.get("same_as"), so_far
    return Trial(trial.number, state, dict(trial.params), score, notes.get("seconds"), notes.get("took", 0.0), *rest)


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    kinds = optuna.distributions
    if dimension.choices:
        return kinds.CategoricalDistribution(dimension.choices)
    kind = kinds.IntDistribution if dimension.whole else kinds.FloatDistribution
    return kind(dimension.low, dimension.high, log=dimension.log)


def pareto_front(trials: Sequence[Trial], lower_is_better: bool) -> list[Trial]:
    """Return the complete trials than which none is both better and faster, the fastest first."""
    sign = 1.0 if lower_is_better else -1.0
    known = [(t.seconds, sign * t.score, t) for t in trials if t.score is not None and t.seconds is not None]
    front, best = [], math.inf
    for _, cost, trial in sorted(known, key=lambda each: each[:2]):
        if cost < best:
            front.append(trial)
            best = cost
    return front


def best_first(trials: Sequence[Trial], lower_is_better: bool) -> list[Trial]:
    """Return the complete trials, the best first; of those with the same values only the first."""
    sign = 1.0 if lower_is_better else -1.0
    own = [(sign * t.score, t) for t in trials if t.score is not None and t.same_as is None]
    return [trial for _, trial in sorted(own, key=lambda each: (each[0], each[1].number))]
