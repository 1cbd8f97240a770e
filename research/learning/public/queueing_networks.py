"""Two networks of QGym (Chen, Li, Che, Dong, Peng and Namkoong 2024, arXiv 2410.06170): input switch and 5 x 5.

The numbers are those of its files configs/env/input_switch.yaml, configs/env/n_model_5x5.yaml and
configs/scripts/varying_arrival_rate_cmu.py. Each class has a clock with the time until its next job from outside.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.network import LEAVES, Network, NetworkParameters, set_up
from longstride.simulators.simulator import Function, Simulator

NEVER = 1e18
EVENTS = 50_000
"""Events of an episode, ``test_T`` of QGym's files."""

SWITCH_RATE = 0.4
SWITCH_ENTRIES = (0, 2, 4)
INPUT_SWITCH = Network(
    arrival_rate=[SWITCH_RATE if k in SWITCH_ENTRIES else 0.0 for k in range(6)],
    service_rate=[[1.0, 1.0, 0, 0, 0, 0], [0, 0, 1.0, 1.0, 0, 0], [0, 0, 0, 0, 1.0, 1.0]],
    next_class=[3, LEAVES, LEAVES, 4, LEAVES, 1],
    holding_cost=[1.0] * 6,
    servers=[1, 1, 1],
)

SURGE_ENDS = 100.0
SURGE_RATES = np.array([2.4, 0.6, 0.8, 1.6, 0.6])
LATER_RATES = np.array([0.4, 0.8, 0.8, 0.8, 0.6])
FIVE_BY_FIVE = Network(
    arrival_rate=LATER_RATES.tolist(),
    service_rate=[
        [1.0, 0, 0, 0, 0],
        [0.8, 1.0, 0, 0, 0],
        [0.8, 0, 1.0, 0, 0],
        [0, 0, 0.8, 1.0, 0],
        [0, 0, 0, 0.8, 1.0],
    ],
    next_class=[LEAVES] * 5,
    holding_cost=[2.0, 1.0, 1.0, 2.0, 1.0],
    servers=[1] * 5,
)


@njit(nogil=True)
def advance(state: Any, parameters: NetworkParameters, rng: np.random.Generator) -> tuple[float, int, int]:
    """Go to the next event; return the holding cost until then, the class that a job entered and the class served.

    One of the two classes is -1. The clock of a class that a job entered is at 0.
    """
    speed = dynamics._assign(state, parameters)
    duration = rng.standard_exponential() / speed if speed > 0.0 else NEVER
    entered, served = -1, -1
    for k in range(len(state.clock)):
        if state.clock[k] < duration:
            duration, entered = state.clock[k], k
    cost = 0.0
    for k in range(len(state.queue)):
        cost += duration * parameters.holding_cost[k] * state.queue[k]
        state.clock[k] -= duration
    state.time += duration
    state.cost += cost
    if entered >= 0:
        state.clock[entered] = 0.0
        dynamics._join(state, parameters, entered, rng)
        return cost, entered, -1
    rest = rng.random() * speed
    for pair in range(len(state.flow)):
        rest -= state.flow[pair]
        if rest < 0.0 or state.flow[pair] > 0.0:
            served = parameters.pair_class[pair]
        if rest < 0.0:
            break
    dynamics._complete(state, parameters, served, rng)
    return cost, -1, served


def reset_switch(state: Any, parameters: NetworkParameters, rng: np.random.Generator) -> None:
    """Start empty."""
    dynamics_reset(state)
    for k in SWITCH_ENTRIES:
        state.clock[k] = rng.standard_exponential() / SWITCH_RATE


def step_switch(
    state: Any, parameters: NetworkParameters, action: np.ndarray, rng: np.random.Generator
) -> tuple[float, bool]:
    """Go to the next event; jobs come from outside at a constant rate."""
    for choice in range(len(state.choice)):
        state.choice[choice] = action[choice]
    cost, entered, _ = advance(state, parameters, rng)
    if entered >= 0:
        state.clock[entered] = rng.standard_exponential() / SWITCH_RATE
    return -cost, False


def step_switch_as_coded(
    state: Any, parameters: NetworkParameters, action: np.ndarray, rng: np.random.Generator
) -> tuple[float, bool]:
    """Go to the next event; a job from another class delays the next one from outside, as in QGym's main/env.py."""
    for choice in range(len(state.choice)):
        state.choice[choice] = action[choice]
    cost, entered, served = advance(state, parameters, rng)
    if entered >= 0:
        state.clock[entered] = rng.standard_exponential() / SWITCH_RATE
    elif parameters.next_class[served] >= 0:
        state.clock[parameters.next_class[served]] += rng.standard_exponential() / SWITCH_RATE
    return -cost, False


def reset_five(state: Any, parameters: NetworkParameters, rng: np.random.Generator) -> None:
    """Start empty, in the surge."""
    dynamics_reset(state)
    for k in range(len(state.clock)):
        state.clock[k] = rng.standard_exponential() / SURGE_RATES[k]


def step_five(
    state: Any, parameters: NetworkParameters, action: np.ndarray, rng: np.random.Generator
) -> tuple[float, bool]:
    """Go to the next event; the time to the next job of a class has the rate of the moment when it is drawn."""
    for choice in range(len(state.choice)):
        state.choice[choice] = action[choice]
    cost, entered, _ = advance(state, parameters, rng)
    if entered >= 0:
        rate = SURGE_RATES[entered] if state.time <= SURGE_ENDS else LATER_RATES[entered]
        state.clock[entered] = rng.standard_exponential() / rate
    return -cost, False


@njit(nogil=True)
def dynamics_reset(state: Any) -> None:
    """Empty the queues and stop the clocks."""
    for k in range(len(state.queue)):
        state.queue[k], state.speed[k], state.clock[k] = 0, 1.0, NEVER
    state.time, state.cost = 0.0, 0.0


def set_up_clocks(simulator: Simulator, network: Network) -> None:
    """Give a simulator a network's sizes, and a clock for each class."""
    set_up(simulator, network)
    clocks = ("clock", np.float64, (len(network.next_class),))
    simulator.state_dtype = np.dtype([*simulator.state_dtype.descr, clocks])


class InputSwitch(Simulator):
    """Three servers with two classes each, all rates of service 1: class 0 becomes 3 and then 4, class 2 leaves.

    Jobs come from outside to the classes 0, 2 and 4.

    Args:
        max_steps: events of an episode.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    reset = staticmethod(reset_switch)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(step_switch)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)
    heuristics: Mapping[str, Function] = {"c_mu": rules.c_mu, "max_weight": rules.max_weight}

    def __init__(self, max_steps: int = EVENTS) -> None:
        self.max_steps = max_steps
        set_up_clocks(self, INPUT_SWITCH)


class InputSwitchAsCoded(Simulator):
    """The input switch as QGym's code plays it: a job that becomes one of class 4 delays the next one from outside.

    In the long run 0.4 jobs a time unit join class 4 from both sides together, in place of 0.8.

    Args:
        max_steps: events of an episode.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    reset = staticmethod(reset_switch)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(step_switch_as_coded)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)
    heuristics: Mapping[str, Function] = {"c_mu": rules.c_mu, "max_weight": rules.max_weight}

    def __init__(self, max_steps: int = EVENTS) -> None:
        self.max_steps = max_steps
        set_up_clocks(self, INPUT_SWITCH)


class FiveByFive(Simulator):
    """Five servers and five classes with a surge of arrivals in the first 100 time units.

    Time is not observed, as in QGym.

    Args:
        max_steps: events of an episode.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    exploring_starts = False
    reset = staticmethod(reset_five)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(step_five)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)
    heuristics: Mapping[str, Function] = {"c_mu": rules.c_mu, "max_weight": rules.max_weight}

    def __init__(self, max_steps: int = EVENTS) -> None:
        self.max_steps = max_steps
        set_up_clocks(self, FIVE_BY_FIVE)
