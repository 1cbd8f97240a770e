"""Rooms that are sold over a season: cheap guests ask early, dear ones late."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of


class Season(NamedTuple):
    """What the functions of :class:`Booking` read.

    Attributes:
        prices: float64[4], prices to choose among; the last one sells nothing.
        ask: probability that a guest asks in a step.
        rooms: rooms for sale.
        steps: steps of a season.
    """

    prices: np.ndarray
    ask: float
    rooms: int
    steps: int


class Booking(Simulator):
    """Choose a price in each step. A guest of time t pays up to 1 + 3 t / steps, or takes half of that, by chance."""

    action_space, observation_size, max_steps = Discrete(4), 2, 200
    metrics_dtype = np.dtype([("revenue", np.float64)])
    main_metric, main_metric_lower_is_better = "revenue", False
    state_dtype = np.dtype([("rooms", np.int64), ("time", np.int64), ("revenue", np.float64)])

    def __init__(self) -> None:
        self.parameters = Season(np.array([1.0, 2.0, 3.5, 100.0]), 0.5, 30, 200)

    @staticmethod
    def reset(state: Any, parameters: Season, rng: np.random.Generator) -> None:
        """Begin a season with all rooms."""
        state.rooms, state.time, state.revenue = parameters.rooms, 0, 0.0

    @staticmethod
    def observe(state: Any, parameters: Season, observation: np.ndarray) -> None:
        """Write the rooms that are left and the time."""
        observation[0], observation[1] = state.rooms, state.time

    @staticmethod
    def step(state: Any, parameters: Season, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Sell a room to a guest who pays the price."""
        most = 1.0 + 3.0 * state.time / parameters.steps
        if rng.random() < 0.5:
            most *= 0.5
        revenue = 0.0
        if rng.random() < parameters.ask and state.rooms > 0 and most >= parameters.prices[action]:
            revenue = parameters.prices[action]
            state.rooms -= 1
        state.time += 1
        state.revenue += revenue
        return revenue, state.time == parameters.steps

    @staticmethod
    def episode_metrics(state: Any, parameters: Season, metrics: Any) -> None:
        """Write the mean revenue of a step."""
        metrics.revenue = state.revenue / max(1, state.time)

    @staticmethod
    def two_thirds(state: Any, parameters: Season, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Ask the second price, after two thirds of the season the third one."""
        return 2 if state.time > 167 else 1

    heuristics: Mapping[str, Function] = {"two_thirds": two_thirds.__func__}  # type: ignore[attr-defined]

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(min(state.time, self.parameters.steps - 1) * (self.parameters.rooms + 1) + state.rooms)

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.time, state.rooms = divmod(row, self.parameters.rooms + 1)

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        prices, ask, rooms, steps = self.parameters
        moves = []
        for time, left, action in np.ndindex(steps, rooms + 1, 4):
            most = 1.0 + 3.0 * time / steps
            sold = ask * (0.5 * (most >= prices[action]) + 0.5 * (0.5 * most >= prices[action])) * (left > 0)
            row, after = time * (rooms + 1) + left, min(time + 1, steps - 1) * (rooms + 1)
            moves.append((row, action, after + left, 1.0 - sold, 0.0))
            if sold:
                moves.append((row, action, after + left - 1, sold, float(prices[action])))
        return chain_of(moves, (steps * (rooms + 1), 4), rooms, steps, 1.0)

    def optimum(self) -> float:
        """Return the highest mean revenue of a step."""
        return best(self.chain())
