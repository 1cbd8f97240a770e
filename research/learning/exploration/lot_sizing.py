"""One machine makes three products to stock, with a set-up between them: stochastic economic lot sizing."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Plant(NamedTuple):
    """What the functions of :class:`LotSizing` read.

    Attributes:
        demand: float64[3], probability that a unit of each product is asked for in a period.
        lowest: lowest stock of a product, as many units below 0 as may be owed.
        highest: highest stock of a product.
        set_up: periods of a set-up.
        change: cost of a set-up.
        stock: cost of a unit in stock and period.
        owed: float64[3], cost of a unit that is owed and period, for each product.
        lost: cost of a unit that is asked for at the lowest stock.
    """

    demand: np.ndarray
    lowest: int
    highest: int
    set_up: int
    change: float
    stock: float
    owed: np.ndarray
    lost: float


class LotSizing(Simulator):
    """Stand idle (0), or make a unit of a product (1, 2, 3); another product than before needs a set-up first.

    An idle machine does not go on with its set-up. A set-up that is broken off for another product is lost. See Sox,
    Jackson, Bowman and Muckstadt, "A review of the stochastic lot scheduling problem" (1999).
    """

    action_space, observation_size, max_steps = Discrete(4), 7, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype(
        [("stock", np.int64, (3,)), ("at", np.int64), ("left", np.int64), ("cost", np.float64), ("steps", np.int64)]
    )

    def __init__(self, lowest: int = -6, highest: int = 10) -> None:
        self.parameters = Plant(
            np.array([0.34, 0.25, 0.18]), lowest, highest, 2, 10.0, 1.0, np.array([4.0, 6.0, 10.0]), 60.0
        )

    @staticmethod
    def reset(state: Any, parameters: Plant, rng: np.random.Generator) -> None:
        """Begin with no stock and a machine that is set up for the first product."""
        state.stock[0], state.stock[1], state.stock[2] = 0, 0, 0
        state.at, state.left, state.cost, state.steps = 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Plant, observation: np.ndarray) -> None:
        """Write the stocks, what the machine is set up for, and the periods of set-up that are left."""
        for i in range(3):
            observation[i] = state.stock[i]
        observation[3 + state.at], observation[6] = 1.0, state.left

    @staticmethod
    def step(state: Any, parameters: Plant, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Stand idle, go on with a set-up, begin one, or make a unit; then units are asked for."""
        cost, product = 0.0, action - 1
        if action > 0 and product != state.at:
            state.at, state.left, cost = product, parameters.set_up, parameters.change
        if action > 0 and state.left > 0:
            state.left -= 1
        elif action > 0:
            state.stock[product] = min(state.stock[product] + 1, parameters.highest)
        for i in range(3):
            if rng.random() < parameters.demand[i]:
                if state.stock[i] == parameters.lowest:
                    cost += parameters.lost
                else:
                    state.stock[i] -= 1
            cost += parameters.stock * max(state.stock[i], 0) + parameters.owed[i] * max(-state.stock[i], 0)
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Plant, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.steps)

    @staticmethod
    def up_to(state: Any, parameters: Plant, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Make a product up to a stock of 5, then go to the one of the lowest stock if that is at most 2."""
        if state.left > 0 or state.stock[state.at] < 5:
            return state.at + 1
        lowest = state.at
        for i in range(3):
            if state.stock[i] < state.stock[lowest]:
                lowest = i
        return lowest + 1 if state.stock[lowest] <= 2 else 0

    @staticmethod
    def cycle(state: Any, parameters: Plant, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Make a product up to a stock of 5, then the next one."""
        return state.at + 1 if state.left > 0 or state.stock[state.at] < 5 else (state.at + 1) % 3 + 1

    heuristics: Mapping[str, Function] = {
        "up_to": up_to.__func__,  # type: ignore[attr-defined]
        "cycle": cycle.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (at, left, stocks less the lowest one)."""
        n = self.parameters.highest - self.parameters.lowest + 1
        return 3, self.parameters.set_up, n, n, n

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        stock = [x - self.parameters.lowest for x in state.stock]
        return int(np.ravel_multi_index((state.at, state.left, *stock), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.at, state.left, *stock = np.unravel_index(row, self.shape())
        state.stock[:] = np.array(stock) + self.parameters.lowest

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        of, shape = self.parameters, self.shape()
        states = np.arange(np.prod(shape))
        at, left, *stocks = np.unravel_index(states, shape)
        parts = []
        for action, asked in np.ndindex(4, 8):
            product = np.full_like(at, action - 1) if action else at
            remaining = np.where(product == at, left, of.set_up)
            makes = (action > 0) & (remaining == 0)
            to_left = np.maximum(remaining - 1, 0) if action else left
            after, chance, cost = [], 1.0, of.change * (product != at)
            for i in range(3):
                stock, wanted = stocks[i] + of.lowest, asked >> i & 1
                stock = np.where(makes & (product == i), np.minimum(stock + 1, of.highest), stock)
                chance *= of.demand[i] if wanted else 1.0 - of.demand[i]
                cost = cost + of.lost * (wanted & (stock == of.lowest))
                stock = np.maximum(stock - wanted, of.lowest)
                cost = cost + of.stock * np.maximum(stock, 0) + of.owed[i] * np.maximum(-stock, 0)
                after.append(stock - of.lowest)
            to = np.ravel_multi_index((product, to_left, *after), shape)
            parts.append((states, np.full_like(at, action), to, np.full(len(states), chance), -cost))
        moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
        start = int(np.ravel_multi_index((0, 0, *[-of.lowest] * 3), shape))
        return chain_of_arrays(*moves, (len(states), 4), start, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        return best(self.chain(), 1e-5)
