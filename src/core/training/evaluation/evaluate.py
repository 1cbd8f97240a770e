"""Policies, heuristics and bounds side by side on the same random streams."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.policies.spec import PolicySpec
from core.seeding import stream
from core.simulators.simulator import (
    Function,
    Simulator,
    compile_functions,
    metrics_of,
    naming_the_episode,
    new_state,
)
from core.training.evaluation.compiled import POLICIES, CompiledPlayer, Records
from core.training.evaluation.gymnasium import GymnasiumPlayer
from core.training.evaluation.statistics import mean_and_margin
from core.training.evaluation.trained_policy import TrainedPolicy


@dataclass
class Evaluation:
    """Episodes of several policies.

    Attributes:
        episodes: number of episodes, with the same random streams for each policy.
        records: records of the episodes by policy.
        messages: lines that users should read, for example about a policy that ran into a capacity.
        references: values of the main metric that the simulator knows from elsewhere, by name.
    """

    episodes: int
    records: dict[str, Records] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    references: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what evaluation.json holds: mean and 95 % interval of each metric of each policy, and references."""
        policies = {name: summarise(records) for name, records in self.records.items()}
        references = {"references": self.references} if self.references else {}
        return {"episodes": self.episodes, "policies": policies, **references}


def build_player(simulator: Simulator, spec: PolicySpec | None, threads: int) -> CompiledPlayer | GymnasiumPlayer:
    """Return a player of a simulator; a policy is compiled when it plays first.

    Args:
        simulator: simulator to play.
        spec: architecture of the trained policy; None for heuristics alone.
        threads: threads that play a compiled simulator; the result does not depend on it.
    """
    return CompiledPlayer(simulator, spec, threads) if simulator.compiled else GymnasiumPlayer(simulator, spec)


def evaluate(
    simulator: Simulator,
    names: Sequence[str],
    trained: TrainedPolicy | None,
    episodes: int,
    seed: int,
    threads: int = 1,
    progress: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Play episodes with each policy, and compute the simulator's bounds.

    Args:
        simulator: simulator to play.
        names: heuristics to play.
        trained: policy played greedily as ``trained`` and by sampling as ``trained_sampled``; None for none.
        episodes: episodes of each policy.
        seed: seed of the random streams, which are not those of training.
        threads: threads that play; the result does not depend on it.
        progress: receives the name of each policy before it plays.

    Raises:
        SimulatorError: the simulator broke its contract.
        UserError: Numba cannot compile it.
    """
    result = Evaluation(episodes, references=dict(simulator.references))
    player = build_player(simulator, trained.spec if trained else None, threads)
    policies = dict.fromkeys(POLICIES, trained.actor_params) if trained else {}
    for name in [*policies, *names]:
        progress(name)
        result.records[name], messages = player.play(name, policies.get(name), episodes, seed)
        result.messages += messages
    for name, bound in simulator.bounds.items():
        progress(name)
        result.records[name] = _bound(simulator, bound, episodes, seed)
    return result


def summarise(records: Records) -> dict[str, dict[str, Any]]:
    """Return mean and 95 % interval (Student's t) of each metric, over the episodes that have it.

    The interval of a metric of a single episode has no width.
    """
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _interval([record[name] for record in records if name in record]) for name in names}


def paired_values(first: Records, second: Records, metric: str) -> tuple[list[float], list[float]]:
    """Return a metric of two policies in the episodes in which both have it."""
    pairs = [(a[metric], b[metric]) for a, b in zip(first, second, strict=True) if metric in a and metric in b]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _interval(values: Sequence[Any]) -> dict[str, Any]:
    mean, margin = mean_and_margin(np.asarray(values, np.float64))
    return {"mean": mean.tolist(), "low": (mean - margin).tolist(), "high": (mean + margin).tolist()}


def _bound(simulator: Simulator, bound: Function, episodes: int, seed: int) -> Records:
    reset, states, records = compile_functions(simulator).reset, new_state(simulator), []
    for episode in range(episodes):
        with naming_the_episode(simulator, f"{episode} of a bound"):
            reset(states[0], simulator.parameters, stream(seed, "evaluation", episode))
            records.append(metrics_of(simulator, states, bound))
    return records
