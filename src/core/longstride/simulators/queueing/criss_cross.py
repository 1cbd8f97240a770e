"""CrissCross: two stations; the first feeds the second and has other work, too."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from longstride.simulators.options import number, one_of
from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.network import LEAVES, Network, set_up
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete

SECOND_RATE = {"balanced": 1.0, "imbalanced": 1.5}
OPTIMA = {  # kind, arrival rate -> mean number of jobs
    ("balanced", 0.3): 0.843,
    ("balanced", 0.6): 2.829,
    ("balanced", 0.9): 15.228,
    ("imbalanced", 0.3): 0.671,
    ("imbalanced", 0.6): 2.084,
    ("imbalanced", 0.9): 9.970,
}
THRESHOLD = {"balanced": 3, "imbalanced": 1}  # jobs; the best of 0 .. 8 at arrival rate 0.9, by simulation


class CrissCross(Simulator):
    """Choose at each event which of two classes station 1 serves; the criss-cross network of Harrison and Wein.

    Classes 1 and 2 arrive at station 1, each at ``arrival_rate``; it serves both at rate 2. Served jobs of class 1 go
    on to station 2 as class 3, which is served at rate 1 (balanced) or 1.5 (imbalanced); those of class 2 leave. Times
    are exponential, service is preemptive, each job costs 1 a time unit. A step is an event.

    Action: 0 serves class 1, 1 class 2. Observation, float32[3]: jobs of each class. Reward: minus the holding cost
    until the next event. Never terminated. An episode starts empty.

    Sources: Harrison and Wein (1990); the optima are those of Dai and Gluzman, "Queueing network controls via deep
    reinforcement learning", Stochastic Systems 12(1), 2022.

    Args:
        kind: ``"balanced"`` or ``"imbalanced"``.
        arrival_rate: of each class, jobs a time unit, below 1; the optimum is published for 0.3, 0.6 and 0.9.
        max_steps: events after which an episode is truncated.

    Raises:
        ValueError: an option is none of these.
    """

    action_space = Discrete(2)
    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per time unit"}

    def __init__(self, kind: str = "balanced", arrival_rate: float = 0.9, max_steps: int = 50_000) -> None:
        chosen = one_of("kind", kind, list(SECOND_RATE))
        rate = number("arrival_rate", arrival_rate, 0.0, 1.0)
        self.max_steps = max_steps
        set_up(self, criss_cross(SECOND_RATE[chosen], rate), THRESHOLD[chosen])
        optimum = OPTIMA.get((chosen, rate))
        self.references = {} if optimum is None else {"optimum (Dai and Gluzman 2022)": optimum}

    reset = staticmethod(dynamics.reset)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(dynamics.step_of_one)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)

    @staticmethod
    def threshold_rule(state: Any, parameters: Any, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Serve class 2, unless station 2 has at most so many jobs and could run dry."""
        if mask[0] and (not mask[1] or state.queue[2] <= parameters.threshold):
            return 0
        return 1

    heuristics: Mapping[str, Function] = {
        "class_1_first": rules.first_first_of_one,
        "class_2_first": rules.last_first_of_one,
        "max_weight": rules.max_weight_of_one,
        "max_pressure": rules.max_pressure_of_one,
        "threshold": threshold_rule.__func__,  # type: ignore[attr-defined]
    }


def criss_cross(second_rate: float, arrival_rate: float) -> Network:
    """Return the network; class 3 has index 2."""
    return Network(
        arrival_rate=[arrival_rate, arrival_rate, 0.0],
        service_rate=[[2.0, 2.0, 0.0], [0.0, 0.0, second_rate]],
        next_class=[2, LEAVES, LEAVES],
        holding_cost=[1.0, 1.0, 1.0],
        servers=[1, 1],
    )
