"""Hospital: eight kinds of patients and thirteen wards of beds."""

from collections.abc import Mapping

import numpy as np

from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.network import LEAVES, Network, set_up
from longstride.simulators.simulator import Function, Simulator

ARRIVAL_RATE = (19.8, 13.2, 17.5, 8.2, 17.8, 5.9, 6.2, 4.6)  # patients of each kind, a day
BEDS = (44, 44, 44, 44, 39, 26, 46, 50, 35, 17, 14, 44, 50)
STAYS = (  # of each ward: kind -> mean days
    {0: 3.7 / 0.8, 2: 3.6},
    {4: 4.5, 7: 4.0 / 0.8},
    {2: 3.6},
    {2: 3.6, 7: 4.0},
    {1: 4.4},
    {1: 4.4},
    {4: 4.5, 5: 3.7 / 0.8},
    {1: 4.4, 2: 3.6},
    {6: 4.5},
    {0: 3.7},
    {5: 3.7},
    {0: 3.7},
    {3: 3.6},
)


class Hospital(Simulator):
    """Choose at each event which kind of patient each ward prefers; the hospital of QGym.

    Patients of 8 kinds arrive and stay in one of the wards that take their kind, 13 wards of 14 .. 50 beds. Five wards
    take two kinds. A patient costs 1 a day, waiting or in bed. Placement is preemptive as in QGym: at each event all
    patients are placed anew, each ward taking first the kind that it prefers. Stays are exponential. A step is an
    event, an arrival or a discharge.

    At best 99.9 % of the beds are in use, so the number of patients grows slowly with time. The reference is for the
    first 50,000 events. The c-mu rule, which each ward follows here by itself, is unstable.

    Action, int64[5]: for wards 1, 2, 4, 7 and 8 one of the ward's kinds, 0 or 1, by ascending kind. Observation,
    float32[8]: patients of each kind. Reward: minus the cost until the next event. Never terminated. An episode starts
    empty.

    Source: Chen, Li, Che, Dong, Peng and Namkoong, "QGym", 2024, whose parameters are public.

    Args:
        max_steps: events after which an episode is truncated.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per time unit"}
    references: Mapping[str, float] = {"MaxWeight (QGym 2024)": 440.0}

    def __init__(self, max_steps: int = 50_000) -> None:
        self.max_steps = max_steps
        set_up(self, hospital())

    reset = staticmethod(dynamics.reset)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(dynamics.step_of_many)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)

    heuristics: Mapping[str, Function] = {"c_mu": rules.c_mu, "max_weight": rules.max_weight}


def hospital() -> Network:
    """Return the network; every patient leaves after one stay."""
    kinds = len(ARRIVAL_RATE)
    return Network(
        arrival_rate=ARRIVAL_RATE,
        service_rate=[[1.0 / stays[kind] if kind in stays else 0.0 for kind in range(kinds)] for stays in STAYS],
        next_class=[LEAVES] * kinds,
        holding_cost=[1.0] * kinds,
        servers=BEDS,
    )
