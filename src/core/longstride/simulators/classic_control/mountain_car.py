"""MountainCar and MountainCarContinuous: a weak car has to swing itself out of a valley."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.simulators.classic_control.rounding import rounded
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete

LEFT, RIGHT = -1.2, 0.6  # where the walls are
LARGEST_SPEED = 0.07  # a step
GRAVITY = 0.0025
FORCE, GOAL = 0.001, 0.5  # of MountainCar
POWER, CONTINUOUS_GOAL = 0.0015, 0.45  # of MountainCarContinuous
_OBSERVATION = ("position", "velocity a step")


class MountainCarParameters(NamedTuple):
    """Constants of an episode: least velocity at the goal, position units a step."""

    goal_velocity: float


class MountainCar(Simulator):
    """Accelerate to the left (0), not at all (1) or to the right (2); Gymnasium's MountainCar-v0.

    Observation, float32[2]: position (-1.2 .. 0.6, the valley's floor is near -0.52) and velocity (a step).
    Reward: -1 a step. Terminated at the goal, position 0.5.

    Args:
        max_steps: environment steps after which an episode is truncated.
        goal_velocity: least velocity at the goal, position units a step.
    """

    observation_size = 2
    action_space = Discrete(3)
    state_dtype = np.dtype([("position", np.float64), ("velocity", np.float64)])
    labels: Mapping[str, Sequence[str]] = {
        "observation": _OBSERVATION,
        "action": ("accelerate to the left", "do not accelerate", "accelerate to the right"),
    }

    def __init__(self, max_steps: int = 200, goal_velocity: float = 0.0) -> None:
        self.max_steps = max_steps
        self.parameters = MountainCarParameters(float(goal_velocity))

    @staticmethod
    def reset(state: Any, parameters: MountainCarParameters, rng: np.random.Generator) -> None:
        """Stand still at a position drawn uniformly between -0.6 and -0.4."""
        state.position = rng.uniform(-0.6, -0.4)
        state.velocity = 0.0

    @staticmethod
    def observe(state: Any, parameters: MountainCarParameters, observation: np.ndarray) -> None:
        """Write the state."""
        observation[0] = state.position
        observation[1] = state.velocity

    @staticmethod
    def step(
        state: Any, parameters: MountainCarParameters, action: int, rng: np.random.Generator
    ) -> tuple[float, bool]:
        """Accelerate, roll, and lose all speed at the left wall."""
        velocity = state.velocity + ((action - 1) * FORCE + math.cos(3 * state.position) * -GRAVITY)
        velocity = min(max(velocity, -LARGEST_SPEED), LARGEST_SPEED)
        state.position = min(max(state.position + velocity, LEFT), RIGHT)
        state.velocity = 0.0 if state.position == LEFT and velocity < 0 else velocity
        return -1.0, state.position >= GOAL and state.velocity >= parameters.goal_velocity


class MountainCarContinuous(Simulator):
    """Accelerate by any force between -1 and 1, float32[1]; Gymnasium's MountainCarContinuous-v0.

    Observation: the same as MountainCar's. Reward: 100 at the goal, position 0.45, less 0.1 · action² a step. The force
    is clipped, the action in the reward is not.

    Gymnasium holds the state in float64 until the first step and in float32 afterwards (``single``).

    Args:
        max_steps: environment steps after which an episode is truncated.
        goal_velocity: least velocity at the goal, position units a step.
    """

    observation_size = 2
    action_space = Box([-1.0], [1.0])
    labels: Mapping[str, Sequence[str]] = {"observation": _OBSERVATION, "action": ("force",)}
    state_dtype = np.dtype([("position", np.float64), ("velocity", np.float64), ("single", np.bool_)])

    def __init__(self, max_steps: int = 999, goal_velocity: float = 0.0) -> None:
        self.max_steps = max_steps
        self.parameters = MountainCarParameters(float(goal_velocity))

    @staticmethod
    def reset(state: Any, parameters: MountainCarParameters, rng: np.random.Generator) -> None:
        """Stand still at a position drawn uniformly between -0.6 and -0.4."""
        state.position = rng.uniform(-0.6, -0.4)
        state.velocity = 0.0
        state.single = False

    observe = staticmethod(MountainCar.observe)

    @staticmethod
    def step(
        state: Any, parameters: MountainCarParameters, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, bool]:
        """Accelerate, roll, and lose all speed at the left wall."""
        single, force = state.single, np.float64(action[0])
        fastest, left, right = rounded(LARGEST_SPEED, single), rounded(LEFT, single), rounded(RIGHT, single)
        velocity = rounded(state.velocity + _acceleration(force, state.position, single), single)
        velocity = min(max(velocity, -fastest), fastest)
        position = min(max(rounded(state.position + velocity, single), left), right)
        if position == left and velocity < 0:
            velocity = 0.0
        there = position >= rounded(CONTINUOUS_GOAL, single) and velocity >= rounded(parameters.goal_velocity, single)
        state.position, state.velocity, state.single = rounded(position, True), rounded(velocity, True), True
        return (100.0 if there else 0.0) - force * force * 0.1, there


@njit(nogil=True)
def _acceleration(force: float, position: float, single: bool) -> float:
    """Return the change of velocity: the clipped force's part less the slope's.

    In Gymnasium a force within its bounds is a float32, and so is the sum; a clipped force is a float64.
    """
    within = -1.0 <= force <= 1.0
    push = rounded(min(max(force, -1.0), 1.0) * rounded(POWER, within), within)
    slope = rounded(GRAVITY * math.cos(rounded(3 * position, single)), within)
    return rounded(push - slope, within or single)
