"""Evaluations while a run trains: the greedy policy on the same random streams every time.

Their streams are no streams of training, so a run learns the same bits with and without them. Nor are they the streams
of ``--mode evaluate``: they choose the best checkpoint, and a choice flatters what it was made by.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from core.policies.spec import PolicySpec
from core.simulators.simulator import Simulator
from core.training.evaluation.compiled import Records
from core.training.evaluation.evaluate import build_player, summarise

_STREAMS = "periodic evaluation"


@dataclass(frozen=True)
class PeriodicEvaluation:
    """Evaluation at intervals."""

    every: int  # iterations from one evaluation to the next, >= 1
    last: int  # the run's last iteration, after which it is evaluated too
    # plays the greedy policy with actor parameters, float32[*], and returns the episodes' records
    play: Callable[[np.ndarray], Records]

    def due(self, iteration: int) -> bool:
        """Return whether the policy is evaluated after an iteration (counted from 1)."""
        return iteration % self.every == 0 or iteration == self.last

    def run(self, actor_params: np.ndarray) -> dict[str, Any]:
        """Return JSON values: number of episodes, seconds, mean and 95 % interval of each number."""
        begin = time.perf_counter()
        records = self.play(actor_params)
        metrics = {n: v for n, v in summarise(records).items() if not isinstance(v["mean"], list)}
        return {"episodes": len(records), "seconds": time.perf_counter() - begin, "metrics": metrics}


def greedy_player(
    simulator: Simulator, spec: PolicySpec, episodes: int, seed: int, threads: int
) -> Callable[[np.ndarray], Records]:
    """Return a function that plays the greedy policy; it is compiled at the first call."""
    player = cache(lambda: build_player(simulator, spec, threads))
    return lambda actor_params: player().play("trained", actor_params, episodes, seed, _STREAMS)[0]
