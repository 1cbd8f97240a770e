"""Machines and their spare parts: two choices a step, and parts that come long after they were ordered."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import MultiDiscrete
from research.learning.further_problems import LONG, best_mean


class Workshop(NamedTuple):
    """What the functions of :class:`Spares` read.

    Attributes:
        machines: machines; one that works earns 1 a step.
        fails: probability that a working machine fails in a step.
        comes: probability that an order arrives in a step.
        shelf: parts that find room; further ones are lost.
        orders: orders on their way at most.
        costs: float64[3], of a part, of a part on the shelf and step, of a failed machine and step.
    """

    machines: int
    fails: float
    comes: float
    shelf: int
    orders: int
    costs: np.ndarray


@cache
def _chance(count: int, of: int, each: float) -> float:
    """Return a binomial probability."""
    return float(binom.pmf(count, of, each))


class Spares(Simulator):
    """Order a part or not, and build a part into a failed machine or not."""

    action_space, observation_size, max_steps = MultiDiscrete([2, 2]), 3, LONG
    metrics_dtype = np.dtype([("profit", np.float64)])
    main_metric, main_metric_lower_is_better = "profit", False
    state_dtype = np.dtype(
        [
            ("working", np.int64),
            ("parts", np.int64),
            ("ordered", np.int64),
            ("profit", np.float64),
            ("steps", np.int64),
        ]
    )

    def __init__(self) -> None:
        self.parameters = Workshop(5, 0.02, 0.05, 8, 6, np.array([8.0, 0.05, 1.0]))

    @staticmethod
    def reset(state: Any, parameters: Workshop, rng: np.random.Generator) -> None:
        """Begin with machines that work and an empty shelf."""
        state.working, state.parts, state.ordered = parameters.machines, 0, 0
        state.profit, state.steps = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Workshop, observation: np.ndarray) -> None:
        """Write the machines that work, the parts on the shelf, and those on their way."""
        observation[0], observation[1], observation[2] = state.working, state.parts, state.ordered

    @staticmethod
    def step(state: Any, parameters: Workshop, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Order and repair; then machines fail and orders arrive."""
        profit = 0.0
        if action[0] == 1 and state.ordered < parameters.orders:
            state.ordered += 1
            profit -= parameters.costs[0]
        if action[1] == 1 and state.parts > 0 and state.working < parameters.machines:
            state.parts -= 1
            state.working += 1
        profit += state.working - parameters.costs[1] * state.parts
        profit -= parameters.costs[2] * (parameters.machines - state.working)
        for _ in range(state.working):
            if rng.random() < parameters.fails:
                state.working -= 1
        for _ in range(state.ordered):
            if rng.random() < parameters.comes:
                state.ordered -= 1
                state.parts = min(state.parts + 1, parameters.shelf)
        state.profit += profit
        state.steps += 1
        return profit, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Workshop, metrics: Any) -> None:
        """Write the mean profit a step."""
        metrics.profit = state.profit / max(1, state.steps)

    @staticmethod
    def base(state: Any, parameters: Workshop, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Keep five parts on the shelf, on their way or missing in machines; repair at once."""
        short = parameters.machines - state.working
        action[0] = 1 if state.parts + state.ordered - short < 5 else 0
        action[1] = 1

    heuristics: Mapping[str, Function] = {"base": base.__func__}  # type: ignore[attr-defined]

    def _moves(self, working: int, parts: int, ordered: int) -> Iterator[tuple[float, int, int, int]]:
        """Yield probability and state after a step without choices."""
        p = self.parameters
        for fail in range(working + 1):
            for come in range(ordered + 1):
                chance = _chance(fail, working, p.fails) * _chance(come, ordered, p.comes)
                yield chance, working - fail, min(parts + come, p.shelf), ordered - come

    def gain(self, rule: Any = None) -> float:
        """Return the mean profit of a rule, or the largest one."""
        p = self.parameters
        shape = p.machines + 1, p.shelf + 1, p.orders + 1
        size = int(np.prod(shape))
        rewards, transitions = np.zeros((size, 4)), [np.zeros((size, size)) for _ in range(4)]
        for row, choice in np.ndindex(size, 4):
            working, parts, ordered = (int(x) for x in np.unravel_index(row, shape))
            order, repair = rule(working, parts, ordered) if rule else divmod(choice, 2)
            bought = order and ordered < p.orders
            built = repair and parts > 0 and working < p.machines
            working, parts, ordered = working + bool(built), parts - bool(built), ordered + bool(bought)
            rewards[row, choice] = working - p.costs @ [bool(bought), parts, p.machines - working]
            for chance, *after in self._moves(working, parts, ordered):
                transitions[choice][row, np.ravel_multi_index(after, shape)] += chance
        return best_mean(transitions, rewards)

    def known(self) -> dict[str, float]:
        """Return the mean profit of the heuristic."""
        machines = self.parameters.machines
        return {"base": self.gain(lambda working, parts, ordered: (parts + ordered - (machines - working) < 5, True))}

    def optimum(self) -> float:
        """Return the largest mean profit a step."""
        return self.gain()
