"""Problems whose observation hides a part of the state: only a policy that remembers can solve them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from core.simulators.classic_control import CartPole
from core.simulators.inventory.lost_sales import LostSales, LostSalesParameters
from core.simulators.simulator import Function, Simulator
from core.simulators.spaces import Discrete


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
