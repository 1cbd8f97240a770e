"""CartPole: keep a pole upright on a cart."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

GRAVITY = 9.8  # m/s²
CART_MASS, POLE_MASS = 1.0, 0.1  # kg
TOTAL_MASS = POLE_MASS + CART_MASS
HALF_LENGTH = 0.5  # m, from the pivot to the pole's centre of mass
POLE_MOMENT = POLE_MASS * HALF_LENGTH
FORCE = 10.0  # N
SECONDS = 0.02  # of a step
LARGEST_X = 2.4  # m
LARGEST_ANGLE = 12 * 2 * math.pi / 360  # rad


class CartPoleParameters(NamedTuple):
    """Constants of an episode: the kind of reward."""

    sutton_barto_reward: bool


class CartPole(Simulator):
    """Push a cart to the left (0) or to the right (1) so that its pole stays up; Gymnasium's CartPole-v1.

    Observation, float32[4]: position of the cart (m), its velocity (m/s), angle of the pole (rad, 0 is upright), its
    angular velocity (rad/s). Reward: 1 a step. Terminated when the cart leaves ±2.4 m or the pole ±12°.

    Args:
        max_steps: environment steps, of 0.02 s each, after which an episode is truncated.
        sutton_barto_reward: True for a reward of 0 a step and -1 for the fall.

    Raises:
        ValueError: ``sutton_barto_reward`` is neither True nor False.
    """

    observation_size = 4
    action_space = Discrete(2)
    state_dtype = np.dtype([(name, np.float64) for name in ("x", "velocity", "angle", "angular_velocity")])
    labels: Mapping[str, Sequence[str]] = {
        "observation": ("position of the cart", "velocity of the cart", "angle of the pole", "its angular velocity"),
        "observation_units": ("m", "m/s", "rad", "rad/s"),
        "action": ("push to the left", "push to the right"),
    }

    def __init__(self, max_steps: int = 500, sutton_barto_reward: bool = False) -> None:
        if not isinstance(sutton_barto_reward, bool):
            raise ValueError(f"sutton_barto_reward is true or false, not {sutton_barto_reward!r}")
        self.max_steps = max_steps
        self.parameters = CartPoleParameters(sutton_barto_reward)

    @staticmethod
    def reset(state: Any, parameters: CartPoleParameters, rng: np.random.Generator) -> None:
        """Draw all four values uniformly between -0.05 and 0.05."""
        state.x = rng.uniform(-0.05, 0.05)
        state.velocity = rng.uniform(-0.05, 0.05)
        state.angle = rng.uniform(-0.05, 0.05)
        state.angular_velocity = rng.uniform(-0.05, 0.05)

    @staticmethod
    def observe(state: Any, parameters: CartPoleParameters, observation: np.ndarray) -> None:
        """Write the state."""
        observation[0] = state.x
        observation[1] = state.velocity
        observation[2] = state.angle
        observation[3] = state.angular_velocity

    @staticmethod
    def step(state: Any, parameters: CartPoleParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Push for one step of Euler's method; the positions move with the velocities from before the push."""
        force = FORCE if action == 1 else -FORCE
        cosine, sine = np.cos(state.angle), np.sin(state.angle)
        push = (force + POLE_MOMENT * (state.angular_velocity * state.angular_velocity) * sine) / TOTAL_MASS
        inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / TOTAL_MASS)
        angular_acceleration = (GRAVITY * sine - cosine * push) / inertia
        acceleration = push - POLE_MOMENT * angular_acceleration * cosine / TOTAL_MASS
        state.x += SECONDS * state.velocity
        state.velocity += SECONDS * acceleration
        state.angle += SECONDS * state.angular_velocity
        state.angular_velocity += SECONDS * angular_acceleration
        fallen = not (-LARGEST_X <= state.x <= LARGEST_X and -LARGEST_ANGLE <= state.angle <= LARGEST_ANGLE)
        if parameters.sutton_barto_reward:
            return (-1.0 if fallen else 0.0), fallen
        return 1.0, fallen
