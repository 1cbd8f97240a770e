"""Evaluations while a run trains: the greedy policy on random streams of their own, the same ones every time.

They draw from no stream of the training, so a run with them learns to the bit what it learns without. Nor do they use
those of ``--mode evaluate``: the best checkpoint is chosen by these, and a choice flatters what it was made by.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from core.policies.spec import PolicySpec
from core.simulators.simulator import Simulator
from core.training.evaluation.evaluate import Records, TrainedPolicy, build_policy_play, play_episodes, summarise
from core.training.evaluation.gymnasium import GymEvaluator

_STREAMS = "periodic evaluation"


@dataclass(frozen=True)
class PeriodicEvaluation:
    """When a run is evaluated, and how.

    Attributes:
        every: so many training episodes, >= 1.
        last: the last training episode, after which it is evaluated too.
        play: from the CPU copy of the policy to the records of its episodes.
    """

    every: int
    last: int
    play: Callable[[np.ndarray], Records]

    def due(self, episode: int) -> bool:
        """Return whether the policy is evaluated after a training episode (counted from 1)."""
        return episode % self.every == 0 or episode == self.last

    def run(self, weights: np.ndarray) -> dict[str, Any]:
        """Return JSON values: how many episodes, the seconds that they took, mean and 95 % interval of each number."""
        begin = time.perf_counter()
        records = self.play(weights)
        metrics = {n: v for n, v in summarise(records).items() if not isinstance(v["mean"], list)}
        return {"episodes": len(records), "seconds": time.perf_counter() - begin, "metrics": metrics}


def greedy_player(
    simulator: Simulator, spec: PolicySpec, episodes: int, seed: int, threads: int
) -> Callable[[np.ndarray], Records]:
    """Return what plays the greedy policy; it is compiled when it is called first.

    Args:
        simulator: that is trained on.
        spec: architecture of the policy.
        episodes: of an evaluation.
        seed: of the run.
        threads: that play episodes; the result does not depend on it.
    """
    if not simulator.compiled:
        stage = cache(lambda: GymEvaluator(simulator, spec))
        return lambda weights: stage().play("trained", weights, episodes, seed, _STREAMS)[0]
    kernel = cache(lambda: build_policy_play(simulator, spec, greedy=True))

    def play(weights: np.ndarray) -> Records:
        trained = TrainedPolicy(weights, spec)
        return play_episodes(simulator, "trained", kernel(), trained, episodes, seed, threads, _STREAMS)[0]

    return play
