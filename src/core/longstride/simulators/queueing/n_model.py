"""NModel: two stations and two classes; one station can help the other."""

from collections.abc import Mapping

import numpy as np

from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.network import LEAVES, Network, set_up
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete

N_MODEL = Network(
    arrival_rate=[0.38, 1.235],
    service_rate=[[1.0, 0.5], [0.0, 1.0]],
    next_class=[LEAVES, LEAVES],
    holding_cost=[1.0, 3.0],
    servers=[1, 1],
)


class NModel(Simulator):
    """Choose at each event whether station 1 serves its own class 1 or helps station 2 with class 2.

    Arrival rates are 0.38 and 1.235. Station 1 serves class 1 at rate 1 and class 2 at rate 0.5, station 2 serves class
    2 at rate 1. A job costs 1 (class 1) or 3 (class 2) a time unit. A step is an event. A single job of class 2 goes to
    station 2.

    Action: 0 serves class 1, 1 class 2. Observation, float32[2]: jobs of each class. Reward: minus the holding cost
    until the next event. Never terminated. An episode starts empty.

    The optimum is by policy iteration with up to 420 jobs of each class (``tests/oracles/queueing.py``). QGym's figure
    is of one run of 10,000 events from an empty system, in which queues have not reached their long-run lengths. The
    c-mu rule is unstable here: class 1 starves.

    Sources: Harrison (1998), Bell and Williams (2001); the parameters are those of Dai and Gluzman (2022), at 95 % of
    the load, and of QGym (2024).

    Args:
        max_steps: events after which an episode is truncated.
    """

    action_space = Discrete(2)
    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per time unit"}

    def __init__(self, max_steps: int = 50_000) -> None:
        self.max_steps = max_steps
        set_up(self, N_MODEL)

    references: Mapping[str, float] = {"optimum (policy iteration)": 46.17, "MaxWeight (QGym 2024)": 40.2}

    reset = staticmethod(dynamics.reset)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(dynamics.step_of_one)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)

    heuristics: Mapping[str, Function] = {"c_mu": rules.c_mu_of_one, "max_weight": rules.max_weight_of_one}
