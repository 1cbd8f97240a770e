"""A queue without a bound, whose arrivals depend on a real-valued price."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Box
from research.learning.further_problems import LONG


class Prices(NamedTuple):
    """What the functions of :class:`PricedQueue` read.

    Attributes:
        come: probability of an arrival a step at a price of 0; it falls evenly to 0 at a price of 1.
        leave: probability that the first job of the queue is finished in a step.
        waiting: cost of a job in the queue and step.
    """

    come: float
    leave: float
    waiting: float


class PricedQueue(Simulator):
    """Choose the price of admission; at low prices jobs come faster than they leave, and the queue grows for good.

    Naor, "The regulation of queue size by levying tolls" (1969), with a price that may change with the queue.
    """

    action_space, observation_size, max_steps = Box([0.0], [1.0]), 1, LONG
    metrics_dtype = np.dtype([("profit", np.float64)])
    main_metric, main_metric_lower_is_better = "profit", False
    state_dtype = np.dtype([("queue", np.int64), ("profit", np.float64), ("steps", np.int64)])

    def __init__(self, come: float = 0.8, leave: float = 0.3, waiting: float = 0.01) -> None:
        self.parameters = Prices(come, leave, waiting)

    @staticmethod
    def reset(state: Any, parameters: Prices, rng: np.random.Generator) -> None:
        """Begin empty."""
        state.queue, state.profit, state.steps = 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Prices, observation: np.ndarray) -> None:
        """Write the length of the queue."""
        observation[0] = state.queue

    @staticmethod
    def step(state: Any, parameters: Prices, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Finish a job, admit one that pays the price, and pay for those that wait."""
        price = min(max(action[0], 0.0), 1.0)
        profit = 0.0
        if state.queue > 0 and rng.random() < parameters.leave:
            state.queue -= 1
        if rng.random() < parameters.come * (1.0 - price):
            state.queue += 1
            profit = price
        profit -= parameters.waiting * state.queue
        state.profit += profit
        state.steps += 1
        return profit, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Prices, metrics: Any) -> None:
        """Write the mean profit a step."""
        metrics.profit = state.profit / max(1, state.steps)

    @staticmethod
    def by_length(state: Any, parameters: Prices, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Ask 0.65 and 0.03 more for each job in the queue."""
        action[0] = min(0.65 + 0.03 * state.queue, 1.0)

    @staticmethod
    def one_price(state: Any, parameters: Prices, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Ask 0.75, whatever the queue."""
        action[0] = 0.75

    heuristics: Mapping[str, Function] = {
        "by_length": by_length.__func__,  # type: ignore[attr-defined]
        "one_price": one_price.__func__,  # type: ignore[attr-defined]
    }

    def profits(self, prices: np.ndarray | None = None, most: int = 400, tolerance: float = 1e-9) -> float:
        """Return the mean profit a step by relative value iteration, of float64[most + 1] prices or the best ones.

        The best price where another job lowers the value by c is (1 + c) / 2. The longest queue admits nobody.
        """
        come, leave, waiting = self.parameters
        length = np.arange(most + 1)
        values = np.zeros(most + 1)
        while True:
            backed_up = np.zeros(most + 1)
            for served, chance in ((0, 1.0 - leave), (1, leave)):
                left = np.maximum(length - served, 0)
                backed_up += chance * (values[left] - waiting * left)
            extra = np.zeros(most + 1)
            for served, chance in ((0, 1.0 - leave), (1, leave)):
                left = np.maximum(length - served, 0)
                more = np.minimum(left + 1, most)
                extra += chance * (values[left] - values[more] + waiting)
            price = np.clip(0.5 + 0.5 * extra, 0.0, 1.0) if prices is None else prices.copy()
            price[-1] = 1.0
            backed_up += come * (1.0 - price) * (price - extra)
            gain = backed_up - values
            if np.ptp(gain) < tolerance:
                return float(gain.mean())
            values = backed_up - backed_up[0]

    def known(self) -> dict[str, float]:
        """Return the mean profit of the heuristics."""
        length = np.arange(401)
        return {
            "by_length": self.profits(np.minimum(0.65 + 0.03 * length, 1.0)),
            "one_price": self.profits(np.full(401, 0.75)),
        }

    def optimum(self) -> float:
        """Return the highest mean profit a step."""
        return self.profits()
