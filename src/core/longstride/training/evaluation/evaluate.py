"""Policies, heuristics and bounds side by side on the same random streams, and evaluations while a run trains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.jit_cache.cache import cached
from longstride.policies.spec import PolicySpec
from longstride.seeding import stream
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.hooks import close_all
from longstride.simulators.simulator import (
    Function,
    Simulator,
    compile_functions,
    metrics_of,
    new_state,
)
from longstride.training.evaluation.compiled import POLICIES, CompiledPlayer, Records
from longstride.training.evaluation.gymnasium import GymnasiumPlayer
from longstride.training.evaluation.statistics import mean_and_margin
from longstride.training.evaluation.trained_policy import TrainedPolicy

PERIODIC = "periodic evaluation"
"""Random streams of evaluations while a run trains."""


@dataclass
class Evaluation:
    """Episodes of several policies."""

    episodes: int  # number of episodes, with the same random streams for each policy
    records: dict[str, Records] = field(default_factory=dict)  # of the episodes by policy
    # lines that users should read, for example about a policy that ran into a capacity
    messages: list[str] = field(default_factory=list)
    references: dict[str, float] = field(default_factory=dict)  # values of the main metric known from elsewhere
    seed: int = 0  # seed of the random streams

    def as_json(self) -> dict[str, Any]:
        """Return what evaluation.json holds: mean and 95 % interval of each metric of each policy, and references."""
        policies = {name: summarise(records) for name, records in self.records.items()}
        references = {"references": self.references} if self.references else {}
        return {"episodes": self.episodes, "policies": policies, **references}


def build_player(
    simulator: Simulator, spec: PolicySpec | None, threads: int, heuristics: Sequence[str] = ()
) -> CompiledPlayer | GymnasiumPlayer:
    """Return a player of a simulator, for heuristics alone without a spec; a policy is compiled when it plays first."""
    if simulator.compiled:
        return CompiledPlayer(simulator, spec, threads, heuristics)
    return GymnasiumPlayer(simulator, spec)


def evaluate(
    simulator: Simulator,
    names: Sequence[str],
    trained: TrainedPolicy | None,
    episodes: int,
    seed: int,
    threads: int = 1,
    progress: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Play episodes with a trained policy and the named heuristics, and compute the simulator's bounds.

    The policy is played greedily as ``trained`` and by sampling as ``trained_sampled``; ``untrained`` is the policy
    that training began with, played greedily, where it is known. The random streams are not those of training, and the
    result does not depend on the threads. ``progress`` receives each name before it plays.

    Raises:
        SimulatorError: the simulator broke its contract.
        UserError: Numba cannot compile it, or a bound fills no metric.
    """
    result = Evaluation(episodes, references=dict(simulator.references), seed=seed)
    player = build_player(simulator, trained.spec if trained else None, threads, names)
    policies = dict.fromkeys(POLICIES, trained.actor_params) if trained else {}
    if trained and trained.untrained_params is not None:
        policies["untrained"] = trained.untrained_params
    else:
        policies.pop("untrained", None)
    bounds = {}  # first, so that a wrong one loses nothing that has been played
    for name, bound in simulator.bounds.items():
        progress(name)
        bounds[name] = _bound(simulator, name, bound, episodes, seed)
    try:
        for name in [*policies, *names]:
            progress(name)
            result.records[name], messages = player.play(name, policies.get(name), episodes, seed)
            result.messages += messages
    finally:
        result.messages += close_all(simulator)
    result.messages += _missing_lines(result, simulator)
    result.records |= bounds
    return result


def _missing_lines(result: Evaluation, simulator: Simulator) -> list[str]:
    """Return a sentence for each metric that some episodes lack."""
    sentences = []
    for metric in np.dtype(simulator.metrics_dtype or []).names or ():
        policies: dict[int, list[str]] = {}
        for name, records in result.records.items():
            policies.setdefault(sum(metric not in record for record in records), []).append(name)
        policies.pop(0, None)
        if parts := [f"{n} of {result.episodes} episodes of {', '.join(of)}" for n, of in policies.items()]:
            sentences.append(f"{metric} is NaN or infinite in {' and in '.join(parts)}; its means leave them out.")
    return sentences


def heuristic_records(simulator: Simulator, episodes: int, seed: int, threads: int) -> dict[str, Records]:
    """Play all heuristics of a simulator on the random streams of evaluations while a run trains.

    Raises:
        SimulatorError: the simulator broke its contract.
        UserError: Numba cannot compile it.
    """
    player = build_player(simulator, None, threads, tuple(simulator.heuristics))
    return {name: player.play(name, None, episodes, seed, PERIODIC)[0] for name in simulator.heuristics}


def summarise(records: Records) -> dict[str, dict[str, Any]]:
    """Return mean and 95 % interval (Student's t) of each metric, over the episodes that have it.

    The interval of a metric of a single episode has no width.
    """
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _interval([record[name] for record in records if name in record]) for name in names}


def best_heuristic(records: Mapping[str, Records], simulator: Simulator) -> str | None:
    """Return the heuristic, but for the optimum, with the best mean of the main metric; None where none has it."""
    metric, sign = simulator.main_metric, 1 if simulator.main_metric_lower_is_better else -1
    names = [name for name in simulator.heuristics if name != simulator.optimal]
    values = {name: [r[metric] for r in records.get(name, ()) if metric in r] for name in names}
    return min((name for name in values if values[name]), key=lambda name: sign * fmean(values[name]), default=None)


def paired_values(first: Records, second: Records, metric: str) -> tuple[list[float], list[float]]:
    """Return a metric of two policies in the episodes in which both have it."""
    pairs = [(a[metric], b[metric]) for a, b in zip(first, second, strict=True) if metric in a and metric in b]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _interval(values: Sequence[Any]) -> dict[str, Any]:
    mean, margin = mean_and_margin(np.asarray(values, np.float64))
    return {"mean": mean.tolist(), "low": (mean - margin).tolist(), "high": (mean + margin).tolist()}


def _bound(simulator: Simulator, name: str, bound: Function, episodes: int, seed: int) -> Records:
    reset, states, records = cached(compile_functions(simulator).reset), new_state(simulator), []
    for episode in range(episodes):
        with naming_the_episode(simulator, f"{episode} of a bound"):
            reset(states[0], simulator.parameters, stream(seed, "evaluation", episode))
            records.append(metrics_of(simulator, states, bound))
    if not any(records):
        raise UserError(
            f"{type(simulator).__name__}.bounds[{name!r}] filled no metric; write into its third argument, as "
            "episode_metrics does."
        )
    return records
