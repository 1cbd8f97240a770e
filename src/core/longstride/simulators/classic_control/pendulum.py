"""Pendulum: swing a pendulum up and hold it there."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.classic_control.rounding import rounded
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box

LARGEST_TORQUE = 2.0  # N m
LARGEST_SPEED = 8.0  # rad/s
SECONDS = 0.05  # of a step; mass (kg) and length (m) of the rod are 1


class PendulumParameters(NamedTuple):
    """Constants of an episode: gravity, m/s²."""

    gravity: float


class Pendulum(Simulator):
    """Turn a hanging rod with a torque between -2 and 2 N m, float32[1]; Gymnasium's Pendulum-v1.

    Observation, float32[3]: cosine and sine of the angle (0 is upright), angular velocity (rad/s).
    Reward: minus angle² + 0.1 · velocity² + 0.001 · torque², with the angle between -π and π. Never terminated.

    Args:
        max_steps: environment steps, of 0.05 s each, after which an episode is truncated.
        g: gravity, m/s².
    """

    observation_size = 3
    action_space = Box([-LARGEST_TORQUE], [LARGEST_TORQUE])
    state_dtype = np.dtype([("angle", np.float64), ("velocity", np.float64)])
    labels: Mapping[str, Sequence[str]] = {
        "observation": ("cosine of the angle", "sine of the angle", "angular velocity"),
        "observation_units": ("", "", "rad/s"),
        "action": ("torque",),
        "action_units": ("N m",),
    }

    def __init__(self, max_steps: int = 200, g: float = 10.0) -> None:
        self.max_steps = max_steps
        self.parameters = PendulumParameters(float(g))

    @staticmethod
    def reset(state: Any, parameters: PendulumParameters, rng: np.random.Generator) -> None:
        """Draw any angle, and a velocity between -1 and 1, uniformly."""
        state.angle = rng.uniform(-np.pi, np.pi)
        state.velocity = rng.uniform(-1.0, 1.0)

    @staticmethod
    def observe(state: Any, parameters: PendulumParameters, observation: np.ndarray) -> None:
        """Write the direction of the rod and its velocity."""
        observation[0] = np.cos(state.angle)
        observation[1] = np.sin(state.angle)
        observation[2] = state.velocity

    @staticmethod
    def step(
        state: Any, parameters: PendulumParameters, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, bool]:
        """Turn by one step; terms of the torque alone are float32, as the torque is."""
        torque = min(max(np.float64(action[0]), -LARGEST_TORQUE), LARGEST_TORQUE)
        effort = rounded(rounded(0.001, True) * rounded(torque * torque, True), True)
        angle = (state.angle + np.pi) % (2 * np.pi) - np.pi
        cost = angle * angle + 0.1 * (state.velocity * state.velocity) + effort
        pull = 3 * parameters.gravity / 2.0 * np.sin(state.angle) + rounded(3.0 * torque, True)
        state.velocity = min(max(state.velocity + pull * SECONDS, -LARGEST_SPEED), LARGEST_SPEED)
        state.angle += state.velocity * SECONDS
        return -cost, False
