"""LostSales: order a product with a lead time; demand that finds no stock is lost."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from longstride.simulators.inventory import lost_sales_rules as rules
from longstride.simulators.inventory.lost_sales_figures import DEMANDS, LEAD_TIMES, MEAN_DEMAND, PENALTIES, figures_of
from longstride.simulators.options import one_of
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete

LARGEST_ORDER = 0.99  # the quantile of a period's demand that is the largest order
SUPPORT = 256  # demands that the myopic rule looks at


class LostSalesParameters(NamedTuple):
    """Constants of an episode.

    Attributes:
        penalty: cost of a lost unit, where holding a unit for a period costs 1.
        geometric: whether demand is geometric, else Poisson.
        probability: float64[SUPPORT], of each demand.
        distribution: float64[SUPPORT], of a demand of at most so many units.
        largest_order: units.
        most: units of stock and orders together, which an order may not exceed.
        level: base-stock level, units of stock and orders together.
        capped_level: the same of the capped base-stock rule.
        cap: its largest order.
        constant: order of the constant-order rule.
    """

    penalty: float
    geometric: bool
    probability: np.ndarray
    distribution: np.ndarray
    largest_order: int
    most: int
    level: int
    capped_level: int
    cap: int
    constant: int


class LostSales(Simulator):
    """Order 0 .. n units a period, which arrive ``lead_time`` periods later; Zipkin's 32 instances.

    A period: the order of ``lead_time`` periods ago arrives, an order is placed, demand comes. A unit that is left
    costs 1, a unit of demand that is lost costs ``penalty``. Demand has the mean 5. The largest order is the 99 %
    quantile of demand (11 units of Poisson, 25 of geometric demand). Stock and orders together may not exceed the
    newsvendor's level for the demand of lead_time + 1 periods; larger orders are masked. No best order is larger than
    either. Without the mask the stock of a beginner, which orders more than is sold, would grow without end.

    Observation, float32[lead_time]: units in stock, those that have just arrived included; units that arrive after 1,
    2, .. lead_time - 1 periods. Reward: minus the cost of the period. Never terminated. An episode starts with 5
    units in stock and in each order.

    Source: Zipkin, "Old and new methods for lost-sales inventory systems", Operations Research 56(5), 2008.

    Args:
        lead_time: periods, 1 .. 4.
        penalty: 4, 9, 19 or 39.
        demand: ``"poisson"`` or ``"geometric"`` (0, 1, 2, ..).
        max_steps: periods after which an episode is truncated.

    Raises:
        ValueError: an option is none of these.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per period"}

    def __init__(
        self, lead_time: int = 2, penalty: float = 4, demand: str = "poisson", max_steps: int = 50_000
    ) -> None:
        periods = one_of("lead_time", lead_time, LEAD_TIMES)
        lost, kind = one_of("penalty", penalty, PENALTIES), one_of("demand", demand, DEMANDS)
        law = stats.poisson(MEAN_DEMAND) if kind == "poisson" else stats.geom(1 / (1 + MEAN_DEMAND), loc=-1)
        figures, largest = figures_of(kind, lost, periods), int(law.ppf(LARGEST_ORDER))
        self.max_steps = max_steps
        self.observation_size = periods
        self.action_space = Discrete(largest + 1)
        self.state_dtype = np.dtype([("pipeline", np.int64, (periods,)), ("cost", np.float64), ("periods", np.int64)])
        self.parameters = LostSalesParameters(
            float(lost),
            kind == "geometric",
            law.pmf(np.arange(SUPPORT)),
            law.cdf(np.arange(SUPPORT)),
            largest,
            most_units(kind, lost, periods),
            figures.level,
            figures.capped_level,
            figures.cap,
            figures.constant,
        )
        self.references = {"optimum (Zipkin 2008)": figures.optimum}

    @staticmethod
    def reset(state: Any, parameters: LostSalesParameters, rng: np.random.Generator) -> None:
        """Put the mean demand into stock and into each order."""
        for n in range(len(state.pipeline)):
            state.pipeline[n] = MEAN_DEMAND
        state.cost, state.periods = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: LostSalesParameters, observation: np.ndarray) -> None:
        """Write stock and orders."""
        for n in range(len(state.pipeline)):
            observation[n] = state.pipeline[n]

    @staticmethod
    def action_mask(state: Any, parameters: LostSalesParameters, mask: np.ndarray) -> None:
        """Forbid orders that exceed the most units of stock and orders."""
        units = state.pipeline.sum()
        for order in range(1, len(mask)):
            mask[order] = units + order <= parameters.most

    @staticmethod
    def step(state: Any, parameters: LostSalesParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Place the order, serve demand, receive the next order."""
        demand = rng.geometric(1.0 / (1.0 + MEAN_DEMAND)) - 1 if parameters.geometric else rng.poisson(MEAN_DEMAND)
        left = state.pipeline[0] - demand
        cost = float(left) if left >= 0 else -parameters.penalty * left
        last = len(state.pipeline) - 1
        for n in range(last):
            state.pipeline[n] = state.pipeline[n + 1]
        state.pipeline[last] = action
        state.pipeline[0] += max(left, 0)
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: LostSalesParameters, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.mean_cost = state.cost / max(1, state.periods)

    heuristics: Mapping[str, Function] = {
        "base_stock": rules.base_stock,
        "capped_base_stock": rules.capped_base_stock,
        "myopic": rules.myopic,
        "constant_order": rules.constant_order,
    }


def most_units(demand: str, penalty: float, lead_time: int) -> int:
    """Return the newsvendor's level for lead_time + 1 periods, beyond which no best policy goes (Zipkin 2008)."""
    periods = lead_time + 1
    if demand == "poisson":
        return int(stats.poisson(MEAN_DEMAND * periods).ppf(penalty / (penalty + 1)))
    return int(stats.nbinom(periods, 1 / (1 + MEAN_DEMAND)).ppf(penalty / (penalty + 1)))
