"""A stock that grows slowly: what is caught today is missing for long."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Box
from research.learning.further_problems import LONG


class Growth(NamedTuple):
    """What the functions of :class:`Fishery` read.

    Attributes:
        rate: growth of a small stock in a step, as an exponent.
        shock: a stock is multiplied by 1 less or 1 plus this after it has grown.
        least: stock that comes from elsewhere if nothing is left.
    """

    rate: float
    shock: float
    least: float


class Fishery(Simulator):
    """Choose the share of a stock that is caught in a step.

    Where every shock leaves more than the best stock, it is best to leave the same stock each time: Reed, "Optimal
    escapement levels in stochastic and deterministic harvesting models" (1979).
    """

    action_space, observation_size, max_steps = Box([0.0], [1.0]), 1, LONG
    metrics_dtype = np.dtype([("catch", np.float64)])
    main_metric, main_metric_lower_is_better = "catch", False
    state_dtype = np.dtype([("stock", np.float64), ("catch", np.float64), ("steps", np.int64)])

    def __init__(self, rate: float = 0.3, shock: float = 0.08, least: float = 0.01) -> None:
        self.parameters = Growth(rate, shock, least)

    @staticmethod
    def reset(state: Any, parameters: Growth, rng: np.random.Generator) -> None:
        """Begin with a stock that does not grow."""
        state.stock, state.catch, state.steps = 1.0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Growth, observation: np.ndarray) -> None:
        """Write the stock."""
        observation[0] = state.stock

    @staticmethod
    def step(state: Any, parameters: Growth, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Catch a share; the rest grows by Ricker's law."""
        catch = min(max(action[0], 0.0), 1.0) * state.stock
        left = max(state.stock - catch, parameters.least)
        shock = parameters.shock if rng.random() < 0.5 else -parameters.shock
        state.stock = left * np.exp(parameters.rate * (1.0 - left)) * (1.0 + shock)
        state.catch += catch
        state.steps += 1
        return catch, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Growth, metrics: Any) -> None:
        """Write the mean catch a step."""
        metrics.catch = state.catch / max(1, state.steps)

    @staticmethod
    def tenth(state: Any, parameters: Growth, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Catch a tenth."""
        action[0] = 0.1

    heuristics: Mapping[str, Function] = {"tenth": tenth.__func__}  # type: ignore[attr-defined]

    def optimum(self) -> float:
        """Return the largest mean catch a step.

        Raises:
            ValueError: a bad shock leaves less than the best stock, so the rule of Reed does not hold.
        """
        rate, shock, _ = self.parameters
        left = np.linspace(0.01, 1.0, 100_001)
        grown = left * np.exp(rate * (1.0 - left))
        best = int((grown - left).argmax())
        if grown[best] * (1.0 - shock) < left[best]:
            raise ValueError("the shock is too large for the closed form")
        return float(grown[best] - left[best])
