"""Plays policies and heuristics on a scenario and on changed ones, with the same random streams."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from longstride.policies.make_spec import spec_on
from longstride.process.kernel.policy_prior import RULE
from longstride.process.resamples.interval import LogError, effect_of, interval
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.reuse import why_not
from longstride.training.evaluation.comparison import Verdict, compare, word_of
from longstride.training.evaluation.compiled import CompiledPlayer, Records
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic, paired_values
from longstride.training.evaluation.trained_policy import TrainedPolicy

TRAINED = "trained"


@dataclass(frozen=True)
class Variant:
    """A scenario to compare: the first one is the unchanged process."""

    name: str  # printed name, such as ``people +1 analyst``
    scenario: Scenario  # scenario to simulate
    changes: list[str] = field(default_factory=list)  # a sentence about each change
    file: str = ""  # file of the scenario; empty if it has none


@dataclass(frozen=True)
class Played:
    """A scenario with the episodes of its policies."""

    variant: Variant
    simulator: ProcessSimulator
    result: Evaluation
    not_reused: str = ""  # why the trained policy did not play; empty if it did, or if there is none
    log_error: LogError | None = None  # what the size of the log adds to the error of this change; None if unknown

    @property
    def best(self) -> str:
        """The heuristic with the best mean of the main metric; empty if no heuristic has this metric."""
        return best_heuristic(self.result.records, self.simulator) or ""

    def mean(self, policy: str) -> float | None:
        """Return a policy's mean of the main metric; None if no episode has this metric."""
        values = [r[self.simulator.main_metric] for r in self.result.records[policy] if self.simulator.main_metric in r]
        return fmean(values) if values else None


@dataclass(frozen=True)
class Sampling:
    """Number and random streams of the episodes."""

    episodes: int  # number of episodes, the same random streams in every scenario
    seed: int  # seed of the streams
    threads: int = 1  # number of threads, which does not change results


def play_variants(
    variants: Sequence[Variant],
    trained: TrainedPolicy | None,
    names: Sequence[str],
    sampling: Sampling,
    progress: Callable[[str], None] = lambda line: None,
    prior: str = RULE,
) -> list[Played]:
    """Play the greedy policy and heuristics on each scenario; the first is the policy's own, trained with ``prior``.

    An episode has the same arrivals and random numbers in all scenarios, as far as these are alike.

    Raises:
        UserError: Numba cannot compile a simulator.
    """
    simulators = [ProcessSimulator(variant.scenario, prior) for variant in variants]
    own, players, played = simulators[0], Players(sampling.threads), []
    for variant, simulator in zip(variants, simulators, strict=True):
        reason = why_not(trained.spec, own, simulator) if trained else ""
        plays = None if reason else trained
        result = players.play(variant.name, simulator, plays, names, sampling, progress=progress)
        played.append(Played(variant, simulator, result, reason))
    return played


class Players:
    """Players of one policy, and of heuristics, on several scenarios."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def play(
        self,
        title: str,
        simulator: ProcessSimulator,
        trained: TrainedPolicy | None,
        names: Sequence[str],
        sampling: Sampling,
        streams: str = "evaluation",
        progress: Callable[[str], None] = lambda line: None,
    ) -> Evaluation:
        """Play the greedy policy, which can play this simulator, and those of the heuristics that it has.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        plays = replace(trained, spec=spec_on(trained.spec, simulator)) if trained else None
        player = CompiledPlayer(simulator, plays.spec if plays else None, self._threads)
        result = Evaluation(sampling.episodes, seed=sampling.seed)
        for name in [*([TRAINED] if plays else []), *(n for n in names if n in simulator.heuristics)]:
            progress(f"  playing {name} on {title!r}")
            params = plays.actor_params if plays and name == TRAINED else None
            result.records[name], messages = player.play(name, params, sampling.episodes, sampling.seed, streams)
            result.messages += [f"{title}: {message}" for message in messages[:1]]
        return result


def across(first: tuple[Played, str], second: tuple[Played, str]) -> Verdict | None:
    """Compare a policy on one scenario with a policy on another, episode by episode; None without common episodes.

    The interval holds the error of the log, where one of the scenarios has it. The logged habits show that error, and
    it is taken to be the same share of the means of every policy.
    """
    names = [f"{policy}, {played.variant.name}" for played, policy in (first, second)]
    if names[0] == names[1]:
        return None
    records: dict[str, Records] = {
        name: played.result.records[policy] for name, (played, policy) in zip(names, (first, second), strict=True)
    }
    verdict = compare(Evaluation(first[0].result.episodes, records), first[0].simulator, names[0], names[1])
    error = first[0].log_error or second[0].log_error
    if verdict is None or error is None or not (verdict.value > 0.0 and verdict.other > 0.0):
        return verdict
    changed, unchanged = paired_values(records[names[0]], records[names[1]], first[0].simulator.main_metric)
    found = interval(effect_of(changed, unchanged), error)
    low, high = (verdict.other * math.expm1(end) for end in (found.low, found.high))
    half = (high - low) / 2
    parts = {
        "the size of the log": found.of_log * half,
        "its mining": found.of_mining * half,
        "the number of episodes": found.of_episodes * half,
    }
    lower_is_better = first[0].simulator.main_metric_lower_is_better
    return replace(verdict, word=word_of(low, high, lower_is_better), low=low, high=high, parts=parts)
