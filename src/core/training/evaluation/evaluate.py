"""Policies side by side on the same random streams."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.jit_cache.cache import cached
from core.policies.compiled.forward import new_actor_arrays
from core.policies.spec import PolicySpec
from core.rollout.episode_loop import build_heuristic_chooser, build_play, build_policy_chooser
from core.seeding import stream
from core.simulators.compile import compile_heuristic
from core.simulators.simulator import (
    OK,
    Function,
    Simulator,
    compile_functions,
    describe_fault,
    metrics_of,
    naming_the_episode,
    new_state,
)

Records = list[dict[str, Any]]
"""One record an episode: the return under ``"return"`` and the simulator's metrics (numbers and lists of numbers)."""


@dataclass(frozen=True)
class TrainedPolicy:
    """The CPU copy of a policy.

    Attributes:
        weights: float32[*], in the flat layout.
        spec: architecture of the policy.
    """

    weights: np.ndarray
    spec: PolicySpec


@dataclass
class Evaluation:
    """Episodes of several policies.

    Attributes:
        episodes: number of episodes, the same random streams for each policy.
        records: policy -> its episodes' records.
        messages: what users should read, for example that a policy ran into a capacity.
    """

    episodes: int
    records: dict[str, Records] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return mean and 95 % interval of each metric of each policy, as evaluation.json holds them."""
        return {
            "episodes": self.episodes,
            "policies": {name: summarise(records) for name, records in self.records.items()},
        }


def evaluate(
    simulator: Simulator,
    names: Sequence[str],
    trained: TrainedPolicy | None,
    episodes: int,
    seed: int,
    threads: int = 1,
    progress: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Play episodes with each policy and, for comparison, compute the simulator's bounds.

    Args:
        simulator: the simulator.
        names: of its heuristics to play.
        trained: played greedily as ``trained`` and by sampling as ``trained_sampled``; None for heuristics alone.
        episodes: episodes of each policy.
        seed: names the random streams, apart from those of training.
        threads: that play episodes; the result does not depend on it.
        progress: called with the name of each policy before it plays.

    Raises:
        SimulatorError: the simulator broke its contract.
        UserError: Numba cannot compile it.
    """
    result = Evaluation(episodes)
    for name, choose in _choosers(simulator, names, trained):
        progress(name)
        play = cached(build_play(simulator, choose))
        records, messages = play_episodes(simulator, name, play, trained, episodes, seed, threads)
        result.records[name] = records
        result.messages += messages
    for name, bound in simulator.bounds.items():
        progress(name)
        result.records[name] = _bound(simulator, bound, episodes, seed)
    return result


def summarise(records: Records) -> dict[str, dict[str, Any]]:
    """Return for each metric its mean and the 95 % interval of that mean (Student's t).

    Over the episodes that have the metric; a metric of a single episode has an interval of no width.
    """
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _interval([record[name] for record in records if name in record]) for name in names}


def paired_difference(first: Records, second: Records, metric: str) -> dict[str, float]:
    """Return mean and 95 % interval of first - second, episode by episode on the same random streams."""
    both = [(a, b) for a, b in zip(first, second, strict=True) if metric in a and metric in b]
    differences = [a[metric] - b[metric] for a, b in both]
    return _interval(differences)


def _interval(values: Sequence[Any]) -> dict[str, Any]:
    from scipy.stats import t

    table = np.asarray(values, np.float64)
    mean = table.mean(axis=0)
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros_like(mean)
    half = t.ppf(0.975, max(1, len(table) - 1)) * spread / np.sqrt(len(table))
    return {"mean": mean.tolist(), "low": (mean - half).tolist(), "high": (mean + half).tolist()}


def _choosers(
    simulator: Simulator, names: Sequence[str], trained: TrainedPolicy | None
) -> Iterator[tuple[str, Function]]:
    space = simulator.action_space
    if trained is not None:
        yield "trained", build_policy_chooser(trained.spec, greedy=True)
        yield "trained_sampled", build_policy_chooser(trained.spec, greedy=False)
    for name in names:
        compile_heuristic(simulator, name)
        yield name, build_heuristic_chooser(space, simulator.heuristics[name])


def build_policy_play(simulator: Simulator, spec: PolicySpec, greedy: bool) -> Function:
    """Return the loop that plays a policy of these layers, for :func:`play_episodes`."""
    return cached(build_play(simulator, build_policy_chooser(spec, greedy=greedy)))


def play_episodes(
    simulator: Simulator,
    name: str,
    play: Function,
    trained: TrainedPolicy | None,
    episodes: int,
    seed: int,
    threads: int,
    streams_of: str = "evaluation",
) -> tuple[Records, list[str]]:
    """Play episodes with one policy.

    Args:
        simulator: the simulator.
        name: of the policy, for messages.
        play: the compiled loop.
        trained: its weights; None of a heuristic.
        episodes: how many.
        seed: names the random streams.
        threads: that play; the result does not depend on it.
        streams_of: names them too.

    Returns:
        Their records, and what users should read.

    Raises:
        SimulatorError: the simulator broke its contract.
    """
    def one(episode: int) -> tuple[dict[str, Any], str | None]:
        states = new_state(simulator)
        streams = stream(seed, streams_of, episode), stream(seed, f"{streams_of} policy", episode)
        actor = new_actor_arrays(trained.weights, trained.spec) if trained else None
        where = f"{episode} of the evaluation of {name}"
        with naming_the_episode(simulator, where):
            steps, total, status = play(states, simulator.parameters, actor, *streams)
        if status != OK:
            raise describe_fault(status, simulator, where, steps)
        with naming_the_episode(simulator, where):
            return {"return": total, **metrics_of(simulator, states)}, simulator.message(states[0])

    with ThreadPoolExecutor(threads) as pool:
        played = list(pool.map(one, range(episodes)))
    messages = [f"{name}, episode {k}: {message}" for k, (_, message) in enumerate(played) if message]
    return [record for record, _ in played], messages


def _bound(simulator: Simulator, bound: Function, episodes: int, seed: int) -> Records:
    reset = compile_functions(simulator).reset
    states = new_state(simulator)
    records = []
    for episode in range(episodes):
        with naming_the_episode(simulator, f"{episode} of a bound"):
            reset(states[0], simulator.parameters, stream(seed, "evaluation", episode))
            records.append(metrics_of(simulator, states, bound))
    return records
