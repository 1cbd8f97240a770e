"""Two stages of supply with real-valued orders, whose optimum Clark and Scarf found."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import gamma

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Box
from research.learning.further_problems import LONG


class Stages(NamedTuple):
    """What the functions of :class:`TwoEchelons` read.

    Attributes:
        shape, scale: of the gamma distribution of the demand of a period.
        holding: float64[2], cost of a unit in stock and period at the shop and in the warehouse (or on its way).
        penalty: cost of a unit of backlog and period.
        levels: float64[2], what each stage alone would order up to.
    """

    shape: float
    scale: float
    holding: np.ndarray
    penalty: float
    levels: np.ndarray


class TwoEchelons(Simulator):
    """A shop orders from a warehouse, which orders from outside; both wait a period, and unmet demand waits.

    Clark and Scarf, "Optimal policies for a multi-echelon inventory problem" (1960).
    """

    action_space, observation_size, max_steps = Box([0.0] * 2, [np.inf] * 2, scale=[5.0, 5.0]), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("stock", np.float64, (2,)), ("cost", np.float64), ("periods", np.int64)])

    def __init__(self, shape: float = 4.0, scale: float = 1.486) -> None:
        share = 9.0 / (9.0 + 1.0)  # penalty against holding at the shop
        alone = np.array([gamma.ppf(share, 2.0 * shape), gamma.ppf(share, 3.0 * shape)]) * scale
        self.parameters = Stages(shape, scale, np.array([1.0, 0.5]), 9.0, alone)

    @staticmethod
    def reset(state: Any, parameters: Stages, rng: np.random.Generator) -> None:
        """Begin with two mean demands at the shop and one in the warehouse."""
        mean = parameters.shape * parameters.scale
        state.stock[0], state.stock[1], state.cost, state.periods = 2.0 * mean, mean, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Stages, observation: np.ndarray) -> None:
        """Write the stocks with what has just arrived; a backlog is negative."""
        observation[0], observation[1] = state.stock[0], state.stock[1]

    @staticmethod
    def step(state: Any, parameters: Stages, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Order for the shop, as far as the warehouse has it, and for the warehouse; sell; pay; receive."""
        sent = min(max(action[0], 0.0), state.stock[1])
        sold = state.stock[0] - parameters.scale * rng.standard_gamma(parameters.shape)
        cost = parameters.holding[1] * state.stock[1]
        cost += parameters.holding[0] * sold if sold > 0.0 else -parameters.penalty * sold
        state.stock[0], state.stock[1] = sold + sent, state.stock[1] - sent + max(action[1], 0.0)
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Stages, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    @staticmethod
    def each_alone(state: Any, parameters: Stages, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Order up to the level that would be best for each stage if it never waited for the other one."""
        action[0] = max(parameters.levels[0] - state.stock[0], 0.0)
        action[1] = max(parameters.levels[1] - state.stock[0] - state.stock[1], 0.0)

    @staticmethod
    def mean_demand(state: Any, parameters: Stages, mask: Any, rng: np.random.Generator, action: np.ndarray) -> None:
        """Order the mean demand, whatever the stock: critically loaded, so that the cost grows with the episode."""
        action[0] = action[1] = parameters.shape * parameters.scale

    heuristics: Mapping[str, Function] = {
        "each_alone": each_alone.__func__,  # type: ignore[attr-defined]
        "mean_demand": mean_demand.__func__,  # type: ignore[attr-defined]
    }

    def cost_of_shop(self, level: np.ndarray) -> np.ndarray:
        """Return the expected cost a period at the shop, without the warehouse's, from what it has and gets.

        Holding counts what it costs more than in the warehouse, of which every unit at the shop is a part; the level
        meets two demands.
        """
        a, scale, holding, penalty, _ = self.parameters
        high = np.maximum(level, 0.0)
        short = 2.0 * a * scale * gamma.sf(high, 2.0 * a + 1.0, scale=scale) - high * gamma.sf(
            high, 2.0 * a, scale=scale
        )
        short += high - level  # what is below 0 is short for sure
        return (holding[0] - holding[1]) * (level - 2.0 * a * scale) + (penalty + holding[0]) * short

    def cost_of(self, shop: float, both: float) -> float:
        """Return the mean cost a period of orders up to a level at the shop, and up to one of both stages together."""
        a, scale, holding, _, _ = self.parameters
        chances = (np.arange(20_000) + 0.5) / 20_000
        demand = gamma.ppf(chances, a, scale=scale)
        return float(holding[1] * (both - 2.0 * a * scale) + self.cost_of_shop(np.minimum(shop, both - demand)).mean())

    def best_levels(self) -> tuple[float, float]:
        """Return the best levels: first the shop's without regard to the warehouse, then that of both."""
        most = 20.0 * self.parameters.shape * self.parameters.scale
        shop = minimize_scalar(lambda level: float(self.cost_of_shop(level)), bounds=(0.0, most), method="bounded").x
        both = minimize_scalar(lambda level: self.cost_of(shop, level), bounds=(0.0, most), method="bounded").x
        return float(shop), float(both)

    def known(self) -> dict[str, float]:
        """Return the mean cost of the heuristics that have one."""
        return {"each_alone": self.cost_of(*self.parameters.levels)}

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        return self.cost_of(*self.best_levels())
