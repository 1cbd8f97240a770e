"""What each trainer of end_to_end.py is asked for, and what it says it did, so that equal work can be checked."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

OBSERVATIONS, ACTIONS = 32, 8
GAMMA, LAMBDA, CLIP_RANGE, LEARNING_RATE, MAX_GRAD_NORM = 0.99, 0.95, 0.2, 3e-4, 0.5
VALUE_COEFFICIENT, ENTROPY_COEFFICIENT = 0.5, 0.0
"""Of all trainers: the defaults of Stable-Baselines3's PPO; values are not clipped."""


@dataclass(frozen=True)
class Work:
    """Rounds of collecting and updating on one LongQueue, whose episode is as long as a rollout.

    Attributes:
        steps: decisions of a rollout.
        epochs: passes over them.
        batch: samples of a minibatch; divides ``steps``.
        rounds: rollouts, each with its update.
        threads: of the update.
        actor: hidden units of the actor, tanh.
        critic: hidden units of the critic, tanh.
        bf16: whether the update's matrix products are in BF16; only Longstride does that here.
    """

    steps: int = 62_000
    epochs: int = 10
    batch: int = 31_000
    rounds: int = 2
    threads: int = 1
    actor: tuple[int, ...] = (128, 128, 128)
    critic: tuple[int, ...] = (256, 256)
    bf16: bool = False

    @property
    def expected(self) -> dict[str, int]:
        """What :attr:`Done.work` must be."""
        sizes = [(OBSERVATIONS, *self.actor, ACTIONS), (OBSERVATIONS, *self.critic, 1)]
        return {
            "collected": self.rounds * self.steps,
            "optimizer_steps": self.rounds * self.epochs * self.steps // self.batch,
            "minibatch": self.batch,
            "parameters": sum((m + 1) * n for each in sizes for m, n in pairwise(each)),
        }


@dataclass(frozen=True)
class Done:
    """What a trainer did, as its own counters say.

    Attributes:
        collecting: seconds of each rollout.
        updating: seconds of each update.
        compiling: seconds, which are in neither.
        work: decisions collected, steps that its Adam has taken, samples of a minibatch, weights that it trains.
    """

    collecting: list[float]
    updating: list[float]
    compiling: float
    work: dict[str, int]

    def figures(self, work: Work) -> dict[str, float]:
        """Return what the benchmark reports, medians over the rounds.

        Raises:
            ValueError: the trainer did other work than it was asked for.
        """
        if self.work != work.expected:
            raise ValueError(f"{self.work} is not the work that was asked for, {work.expected}.")
        collect, update = statistics.median(self.collecting), statistics.median(self.updating)
        return {
            "collect_steps_per_second": work.steps / collect,
            "update_seconds": update,
            "steps_per_second": work.steps / (collect + update),
            "compile_seconds": self.compiling,
        }


def count(parameters: Iterable[Any]) -> int:
    """Return how many numbers torch parameters hold."""
    return sum(each.numel() for each in parameters)


def adam_steps(state: Mapping[Any, Any]) -> int:
    """Return the steps that a torch Adam has taken, of its ``state``; 0 before the first."""
    return max((int(each["step"]) for each in state.values()), default=0)
