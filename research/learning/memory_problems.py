"""Problems whose observation hides a part of the state: only a policy that remembers can solve them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.simulators.classic_control import CartPole
from longstride.simulators.inventory.lost_sales import LostSales, LostSalesParameters
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete


class RepeatParameters(NamedTuple):
    """How many steps ago the number was shown, and how many numbers there are."""

    delay: int
    numbers: int


class RepeatPrevious(Simulator):
    """Say the number that was shown ``delay`` steps ago (Morad et al., "POPGym", 2023).

    Observation, float32[numbers]: 1 for the number that is shown now. Reward: 1 / numbers in the first ``delay`` steps,
    then 1 where the action is the number, else 0. Guessing brings 1 / numbers a step.

    Args:
        delay: steps, 1 .. 16.
        numbers: how many there are.
        max_steps: of an episode.
    """

    metrics_dtype = np.dtype([("hit_rate", np.float64)])
    main_metric = "hit_rate"
    state_dtype = np.dtype([("shown", np.int64, (17,)), ("hits", np.float64), ("steps", np.int64)])

    def __init__(self, delay: int = 2, numbers: int = 4, max_steps: int = 1_000) -> None:
        self.observation_size, self.action_space, self.max_steps = numbers, Discrete(numbers), max_steps
        self.parameters = RepeatParameters(delay, numbers)

    @staticmethod
    def reset(state: Any, parameters: RepeatParameters, rng: np.random.Generator) -> None:
        """Draw the numbers before the first one and the first one."""
        for n in range(len(state.shown)):
            state.shown[n] = rng.integers(0, parameters.numbers)
        state.hits, state.steps = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: RepeatParameters, observation: np.ndarray) -> None:
        """Show the present number."""
        for n in range(len(observation)):
            observation[n] = 1.0 if state.shown[0] == n else 0.0

    @staticmethod
    def step(state: Any, parameters: RepeatParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Compare the action and draw the next number."""
        reward = 1.0 if action == state.shown[parameters.delay] else 0.0
        if state.steps < parameters.delay:
            reward = 1.0 / parameters.numbers
        state.hits, state.steps = state.hits + reward, state.steps + 1
        for n in range(len(state.shown) - 1, 0, -1):
            state.shown[n] = state.shown[n - 1]
        state.shown[0] = rng.integers(0, parameters.numbers)
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: RepeatParameters, metrics: Any) -> None:
        """Write the mean reward of a step."""
        metrics.hit_rate = state.hits / max(1, state.steps)


class RepeatPreviousSeen(RepeatPrevious):
    """The same with the number in the observation that is to be said."""

    @staticmethod
    def observe(state: Any, parameters: RepeatParameters, observation: np.ndarray) -> None:
        """Show the number of ``delay`` steps ago."""
        for n in range(len(observation)):
            observation[n] = 1.0 if state.shown[parameters.delay] == n else 0.0


class StillCartPole(CartPole):
    """CartPole without velocities: position and angle alone."""

    observation_size = 2
    labels: Mapping[str, Sequence[str]] = {}  # those of CartPole name four numbers

    @staticmethod
    def observe(state: Any, parameters: Any, observation: np.ndarray) -> None:
        """Write position and angle."""
        observation[0], observation[1] = state.x, state.angle


_play = njit(LostSales.step)


class HiddenPipeline(LostSales):
    """Lost sales that show the stock and the last order, not the orders on their way.

    A mask would tell how many units are on their way, so every order is allowed. The stock of a beginner must not grow
    without end, so stock and orders together are at most twice what the mask allows. Heuristics would know more.
    """

    heuristics: Mapping[str, Function] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_size = 2

    @staticmethod
    def observe(state: Any, parameters: LostSalesParameters, observation: np.ndarray) -> None:
        """Write the stock and the last order."""
        observation[0], observation[1] = state.pipeline[0], state.pipeline[len(state.pipeline) - 1]

    @staticmethod
    def action_mask(state: Any, parameters: LostSalesParameters, mask: np.ndarray) -> None:
        """Allow every order."""
        mask[:] = True

    @staticmethod
    def step(state: Any, parameters: LostSalesParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Order, but not more than there is room for."""
        order = min(action, max(2 * parameters.most - state.pipeline.sum(), 0))
        return _play(state, parameters, order, rng)


class DemandParameters(NamedTuple):
    """Probabilities of a step: that the demand changes, of an arrival in either state, of a service at each speed."""

    change: float
    arrival: tuple[float, float]
    service: tuple[float, float, float]


class HiddenDemand(Simulator):
    """Choose the speed of a server; the queue is seen, the demand, which is high or low for a long time, is not.

    Observation, float32[2]: customers, at most 50, and whether one arrived in the last step. Actions: three speeds.
    Reward: minus the cost, 1 for each customer and for each step of speed; the cost is the main metric. Where the
    demand is high the server must not stop for an empty queue. Best mean cost, by value iteration: 1.460 for who sees
    the demand; 1.744 for the best rule that looks at the queue alone.

    Args:
        change: probability of a step that the demand changes.
        max_steps: of an episode.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    state_dtype = np.dtype(
        [("queue", np.int64), ("high", np.int64), ("arrived", np.int64), ("cost", np.float64), ("steps", np.int64)]
    )
    observation_size, action_space = 2, Discrete(3)

    def __init__(self, change: float = 0.005, max_steps: int = 20_000) -> None:
        self.max_steps = max_steps
        self.parameters = DemandParameters(change, (0.05, 0.8), (0.0, 0.45, 0.9))

    @staticmethod
    def reset(state: Any, parameters: DemandParameters, rng: np.random.Generator) -> None:
        """Begin with an empty queue and either demand."""
        state.queue, state.arrived, state.cost, state.steps = 0, 0, 0.0, 0
        state.high = 1 if rng.random() < 0.5 else 0

    @staticmethod
    def observe(state: Any, parameters: DemandParameters, observation: np.ndarray) -> None:
        """Write the number of customers and whether one has just come."""
        observation[0], observation[1] = state.queue, state.arrived

    @staticmethod
    def step(state: Any, parameters: DemandParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Let arrive, serve, change the demand."""
        cost = float(state.queue + action)
        state.arrived = 1 if rng.random() < parameters.arrival[state.high] else 0
        if state.queue < 50:
            state.queue += state.arrived
        if state.queue > 0 and rng.random() < parameters.service[action]:
            state.queue -= 1
        if rng.random() < parameters.change:
            state.high = 1 - state.high
        state.cost, state.steps = state.cost + cost, state.steps + 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: DemandParameters, metrics: Any) -> None:
        """Write the mean cost of a step."""
        metrics.mean_cost = state.cost / max(1, state.steps)


class HiddenDemandSeen(HiddenDemand):
    """The same with the demand in the observation."""

    observation_size = 3

    @staticmethod
    def observe(state: Any, parameters: DemandParameters, observation: np.ndarray) -> None:
        """Write the number of customers, whether one has just come, and the demand."""
        observation[0], observation[1], observation[2] = state.queue, state.arrived, state.high
