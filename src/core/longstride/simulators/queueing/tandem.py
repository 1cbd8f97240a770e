"""Tandem: two queues in a row, each with a server whose speed is set."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.options import number, whole
from longstride.simulators.queueing.tandem_optimum import least_cost
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import MultiDiscrete

SPEEDS = (0.0, 0.5, 1.0, 1.5, 2.0)  # completions a time unit
HOLDING = (1.0, 2.0)  # cost of a job in queue 1 and 2, a time unit
REFUSAL = 50.0  # cost of an arrival that finds queue 1 full


class TandemParameters(NamedTuple):
    """Constants of an episode.

    Attributes:
        arrival_rate: jobs a time unit.
        capacity: jobs that each queue holds.
        clock: steps a time unit.
        speeds: float64[5], completions a time unit.
        power: float64[5], cost of each speed, a time unit.
    """

    arrival_rate: float
    capacity: int
    clock: float
    speeds: np.ndarray
    power: np.ndarray


class Tandem(Simulator):
    """Set the speeds of two servers in a row so that holding and power together cost least.

    Jobs arrive at rate ``arrival_rate`` and pass queue 1 and queue 2, which hold ``capacity`` jobs each, those in
    service included. A server's speed is 0, 0.5, 1, 1.5 or 2; speed v costs ``power`` · v² a time unit while it works.
    An idle server costs nothing, and server 1 waits while queue 2 is full. A job costs 1 in queue 1 and 2 in queue 2, a
    time unit; an arrival that finds queue 1 full is refused and costs 50.

    The chain is uniformised: steps come at a constant rate of arrival_rate + 4, and at each one there is an arrival, a
    completion or nothing. So the time of a step is known, its mean, and the optimum is exact by value iteration.

    Action, int64[2]: number of each server's speed, 0 .. 4. Observation, float32[2]: jobs in each queue. Reward: minus
    the cost of the step. Never terminated. An episode starts empty.

    Args:
        arrival_rate: jobs a time unit, below 2.
        power: cost of the speed 1, a time unit.
        capacity: jobs that a queue holds, 2 .. 50.
        max_steps: steps after which an episode is truncated.

    Raises:
        ValueError: an option is none of these.
    """

    observation_size = 2
    action_space = MultiDiscrete([len(SPEEDS), len(SPEEDS)])
    state_dtype = np.dtype(
        [("queue", np.int64, (2,)), ("steps", np.int64), ("cost", np.float64), ("refused", np.int64)]
    )
    metrics_dtype = np.dtype([("mean_cost", np.float64), ("refused", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per time unit", "refused": "share"}

    def __init__(
        self, arrival_rate: float = 0.8, power: float = 2.0, capacity: int = 20, max_steps: int = 50_000
    ) -> None:
        rate = number("arrival_rate", arrival_rate, 0.0, 2.0)
        price, jobs = number("power", power, 0.0, 1000.0), whole("capacity", capacity, 2, 50)
        speeds = np.array(SPEEDS)
        clock = rate + 2 * SPEEDS[-1]
        self.max_steps = max_steps
        self.mean_interval = 1.0 / clock
        self.parameters = TandemParameters(rate, jobs, clock, speeds, price * speeds**2)
        self.references = {"optimum (value iteration)": least_cost(rate, jobs, price, SPEEDS, HOLDING, REFUSAL).cost}

    @staticmethod
    def reset(state: Any, parameters: TandemParameters, rng: np.random.Generator) -> None:
        """Start empty."""
        state.queue[0], state.queue[1] = 0, 0
        state.steps, state.cost, state.refused = 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: TandemParameters, observation: np.ndarray) -> None:
        """Write the jobs in each queue."""
        observation[0], observation[1] = state.queue[0], state.queue[1]

    @staticmethod
    def step(
        state: Any, parameters: TandemParameters, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, bool]:
        """Let one step of the clock pass."""
        first, second = state.queue[0], state.queue[1]
        works_1, works_2 = first > 0 and second < parameters.capacity, second > 0
        cost = HOLDING[0] * first + HOLDING[1] * second
        cost += (parameters.power[action[0]] if works_1 else 0.0) + (parameters.power[action[1]] if works_2 else 0.0)
        cost /= parameters.clock
        draw = rng.random() * parameters.clock - parameters.arrival_rate
        if draw < 0.0:
            if first < parameters.capacity:
                state.queue[0] += 1
            else:
                state.refused += 1
                cost += REFUSAL
        elif draw < SPEEDS[-1]:
            if works_1 and draw < parameters.speeds[action[0]]:
                state.queue[0] -= 1
                state.queue[1] += 1
        elif works_2 and draw - SPEEDS[-1] < parameters.speeds[action[1]]:
            state.queue[1] -= 1
        state.steps += 1
        state.cost += cost
        return -cost, False

    @staticmethod
    def time(state: Any, parameters: TandemParameters) -> float:
        """Return the mean time of the steps so far."""
        return state.steps / parameters.clock  # type: ignore[no-any-return]

    @staticmethod
    def episode_metrics(state: Any, parameters: TandemParameters, metrics: Any) -> None:
        """Write the mean cost a time unit and the share of arrivals that were refused."""
        time = max(1, state.steps) / parameters.clock
        metrics.mean_cost = state.cost / time
        metrics.refused = state.refused / (time * parameters.arrival_rate)

    @staticmethod
    def full_speed(
        state: Any, parameters: TandemParameters, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray
    ) -> None:
        """Always work as fast as possible."""
        action[0], action[1] = len(parameters.speeds) - 1, len(parameters.speeds) - 1

    @staticmethod
    def faster_with_jobs(
        state: Any, parameters: TandemParameters, mask: np.ndarray, rng: np.random.Generator, action: np.ndarray
    ) -> None:
        """Work at the arrival rate rounded up, and a level faster for every four jobs in the queue."""
        base = 0
        while parameters.speeds[base] < parameters.arrival_rate:
            base += 1
        for server in range(2):
            action[server] = min(base + state.queue[server] // 4, len(parameters.speeds) - 1)

    heuristics: Mapping[str, Function] = {
        "full_speed": full_speed.__func__,  # type: ignore[attr-defined]
        "faster_with_jobs": faster_with_jobs.__func__,  # type: ignore[attr-defined]
    }
