"""BaseStock: order any quantity with a lead time; demand that finds no stock waits."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from longstride.simulators.options import number, whole
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Box

RARE = 1e-9  # how often demand exceeds what may wait under the best policy


class BaseStockParameters(NamedTuple):
    """Constants of an episode.

    Attributes:
        penalty: cost of a unit that waits, a period; a unit in stock costs 1.
        shape: of the gamma distribution of demand.
        level: best base-stock level, units.
        mean_level: mean demand of the lead time and a period, units.
        most: units of stock and orders together, less what waits; larger orders are cut.
        waiting: units that may wait.
    """

    penalty: float
    shape: float
    level: float
    mean_level: float
    most: float
    waiting: float


class BaseStock(Simulator):
    """Order a real quantity a period, which arrives ``lead_time`` periods later; unmet demand waits.

    A period: the order of ``lead_time`` periods ago arrives, an order is placed, demand comes. A unit that is left
    costs 1, a unit that waits costs ``penalty``. Demand is gamma distributed with mean 1 and standard deviation
    1 / sqrt(``shape``); shape 1 is the exponential distribution.

    So that a beginner's costs stay finite, an order is cut where stock and orders, less what waits, would exceed twice
    the best level; and demand that would make too many units wait goes elsewhere, which the best policy sees once in
    1e9 periods.

    The optimum is to fill stock and orders, less what waits, up to the quantile penalty / (penalty + 1) of the demand
    of lead_time + 1 periods (Arrow, Karlin and Scarf 1958); its cost is the newsvendor's.

    Action, float32[1]: the order, at least 0. Observation, float32[lead_time], at least 1: stock less what waits, the
    order that has just arrived included; orders that arrive after 1, 2, .. periods. Reward: minus the cost of the
    period. Never terminated. An episode starts with the mean demand in stock and in each order.

    Args:
        lead_time: periods, 0 .. 20.
        penalty: cost of a unit that waits, a period.
        shape: of the distribution of demand, above 0.25.
        max_steps: periods after which an episode is truncated.

    Raises:
        ValueError: an option is none of these.
    """

    action_space = Box([0.0], [np.inf], scale=[1.0])  # the mean demand
    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per period"}

    def __init__(self, lead_time: int = 2, penalty: float = 9.0, shape: float = 4.0, max_steps: int = 50_000) -> None:
        periods = whole("lead_time", lead_time, 0, 20)
        waits, form = number("penalty", penalty, 0.0, 1e6), number("shape", shape, 0.25, 1e6)
        self.max_steps = max_steps
        self.observation_size = max(1, periods)
        self.state_dtype = np.dtype(
            [("stock", np.float64, (1 + periods,)), ("cost", np.float64), ("periods", np.int64)]
        )
        level, cost = newsvendor(periods + 1, waits, form)
        waiting = float(stats.gamma((periods + 1) * form, scale=1.0 / form).isf(RARE)) - level
        self.parameters = BaseStockParameters(waits, form, level, float(periods + 1), 2.0 * level, max(1.0, waiting))
        self.references = {"optimum (newsvendor)": cost}

    @staticmethod
    def reset(state: Any, parameters: BaseStockParameters, rng: np.random.Generator) -> None:
        """Put the mean demand into stock and into each order."""
        for n in range(len(state.stock)):
            state.stock[n] = 1.0
        if len(state.stock) > 1:
            state.stock[len(state.stock) - 1] = 0.0
        state.cost, state.periods = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: BaseStockParameters, observation: np.ndarray) -> None:
        """Write stock and orders that are placed."""
        for n in range(max(1, len(state.stock) - 1)):
            observation[n] = state.stock[n]

    @staticmethod
    def step(
        state: Any, parameters: BaseStockParameters, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, bool]:
        """Place the order, serve demand, receive the next order."""
        last = len(state.stock) - 1
        room = max(0.0, parameters.most - state.stock.sum())
        state.stock[last] += min(float(action[0]), room)  # without a lead time that is the stock itself
        demand = rng.gamma(parameters.shape, 1.0 / parameters.shape)
        state.stock[0] = max(state.stock[0] - demand, -parameters.waiting)
        left = state.stock[0]
        cost = left if left >= 0.0 else -parameters.penalty * left
        if last > 0:
            state.stock[0] += state.stock[1]
            for n in range(1, last):
                state.stock[n] = state.stock[n + 1]
            state.stock[last] = 0.0
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: BaseStockParameters, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.mean_cost = state.cost / max(1, state.periods)

    @staticmethod
    def base_stock(
        state: Any, parameters: BaseStockParameters, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray
    ) -> None:
        """Fill stock and orders up to the best level: the optimum."""
        action[0] = max(0.0, parameters.level - state.stock.sum())

    @staticmethod
    def mean_demand(
        state: Any, parameters: BaseStockParameters, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray
    ) -> None:
        """Fill stock and orders up to the mean demand until the order's period is over."""
        action[0] = max(0.0, parameters.mean_level - state.stock.sum())

    heuristics: Mapping[str, Function] = {
        "base_stock": base_stock.__func__,  # type: ignore[attr-defined]
        "mean_demand": mean_demand.__func__,  # type: ignore[attr-defined]
    }
    optimal = "base_stock"


def newsvendor(periods: int, penalty: float, shape: float) -> tuple[float, float]:
    """Return the best stock for the gamma demand of some periods, and its expected cost.

    With the demand X of mean m, the cost is S - m + (1 + penalty) E max(X - S, 0). For a gamma distribution of shape a,
    E max(X - S, 0) is m P(X' > S) - S P(X > S), where X' has the shape a + 1.

    Args:
        periods: each of mean demand 1.
        penalty: cost of a unit that is missing; one that is left costs 1.
        shape: of the demand of one period.
    """
    demand, longer = (stats.gamma(periods * shape + more, scale=1.0 / shape) for more in (0, 1))
    level = float(demand.ppf(penalty / (penalty + 1.0)))
    missing = periods * longer.sf(level) - level * demand.sf(level)
    return level, float(level - periods + (1.0 + penalty) * missing)
