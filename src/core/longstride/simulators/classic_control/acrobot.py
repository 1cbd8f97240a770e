"""Acrobot: swing a double pendulum up by the torque in its middle joint."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit

from longstride.simulators.classic_control.rounding import rounded
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

Motion = tuple[float, float, float, float]  # both angles (rad) and angular velocities (rad/s), or their derivatives

GRAVITY = 9.8  # m/s²
MASS = 1.0  # kg, of each link
LENGTH = 1.0  # m, of the first link
CENTRE = 0.5  # m, from a link's joint to its centre of mass
INERTIA = 1.0  # kg m², of each link
SECONDS = 0.2  # of a step
FASTEST_1, FASTEST_2 = 4 * np.pi, 9 * np.pi  # rad/s


class Acrobot(Simulator):
    """Turn the middle joint with a torque of -1 (action 0), 0 (1) or 1 N m (2); Gymnasium's Acrobot-v1.

    Observation, float32[6]: cosine and sine of the first link's angle (0 hangs down), cosine and sine of the second's
    against the first, both angular velocities (rad/s). Reward: -1 a step, 0 for the last. Terminated when the tip is
    more than a link's length above the fixed joint.

    Args:
        max_steps: environment steps, of 0.2 s each, after which an episode is truncated.
    """

    observation_size = 6
    action_space = Discrete(3)
    state_dtype = np.dtype([(name, np.float64) for name in ("angle_1", "angle_2", "velocity_1", "velocity_2")])
    labels: Mapping[str, Sequence[str]] = {
        "observation": (
            *("cosine of the first angle", "sine of the first angle", "cosine of the second angle"),
            *("sine of the second angle", "first angular velocity", "second angular velocity"),
        ),
        "observation_units": ("", "", "", "", "rad/s", "rad/s"),
        "action": ("torque of -1 N m", "no torque", "torque of 1 N m"),
    }

    def __init__(self, max_steps: int = 500) -> None:
        self.max_steps = max_steps

    @staticmethod
    def reset(state: Any, parameters: Any, rng: np.random.Generator) -> None:
        """Draw all four values uniformly between -0.1 and 0.1, as float32."""
        state.angle_1 = rounded(rng.uniform(-0.1, 0.1), True)
        state.angle_2 = rounded(rng.uniform(-0.1, 0.1), True)
        state.velocity_1 = rounded(rng.uniform(-0.1, 0.1), True)
        state.velocity_2 = rounded(rng.uniform(-0.1, 0.1), True)

    @staticmethod
    def observe(state: Any, parameters: Any, observation: np.ndarray) -> None:
        """Write the directions of the links and the velocities."""
        observation[0], observation[1] = np.cos(state.angle_1), np.sin(state.angle_1)
        observation[2], observation[3] = np.cos(state.angle_2), np.sin(state.angle_2)
        observation[4], observation[5] = state.velocity_1, state.velocity_2

    @staticmethod
    def step(state: Any, parameters: Any, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Move by one step of the fourth-order Runge-Kutta method; wrap the angles and bound the velocities."""
        motion = _runge_kutta((state.angle_1, state.angle_2, state.velocity_1, state.velocity_2), action - 1.0)
        state.angle_1, state.angle_2 = _wrapped(motion[0]), _wrapped(motion[1])
        state.velocity_1 = min(max(motion[2], -FASTEST_1), FASTEST_1)
        state.velocity_2 = min(max(motion[3], -FASTEST_2), FASTEST_2)
        up = -np.cos(state.angle_1) - np.cos(state.angle_2 + state.angle_1) > 1.0
        return (0.0 if up else -1.0), bool(up)


@njit(nogil=True)
def _runge_kutta(y: Motion, torque: float) -> Motion:
    """Return the motion one step later."""
    k1 = _derivatives(y, torque)
    k2 = _derivatives(_ahead(y, SECONDS / 2.0, k1), torque)
    k3 = _derivatives(_ahead(y, SECONDS / 2.0, k2), torque)
    k4 = _derivatives(_ahead(y, SECONDS, k3), torque)
    return _ahead(
        y,
        SECONDS / 6.0,
        (
            k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0],
            k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1],
            k1[2] + 2 * k2[2] + 2 * k3[2] + k4[2],
            k1[3] + 2 * k2[3] + 2 * k3[3] + k4[3],
        ),
    )


@njit(nogil=True)
def _ahead(y: Motion, seconds: float, k: Motion) -> Motion:
    """Return y + seconds · k."""
    return y[0] + seconds * k[0], y[1] + seconds * k[1], y[2] + seconds * k[2], y[3] + seconds * k[3]


@njit(nogil=True)
def _derivatives(y: Motion, torque: float) -> Motion:
    """Return the time derivatives: Sutton and Barto's equations, called "book" in Gymnasium."""
    angle_1, angle_2, velocity_1, velocity_2 = y
    sine, cosine = np.sin(angle_2), np.cos(angle_2)
    own = MASS * CENTRE**2
    d1 = own + MASS * (LENGTH**2 + CENTRE**2 + 2 * LENGTH * CENTRE * cosine) + INERTIA + INERTIA
    d2 = MASS * (CENTRE**2 + LENGTH * CENTRE * cosine) + INERTIA
    phi2 = MASS * CENTRE * GRAVITY * np.cos(angle_1 + angle_2 - np.pi / 2.0)
    phi1 = (
        -MASS * LENGTH * CENTRE * velocity_2**2 * sine
        - 2 * MASS * LENGTH * CENTRE * velocity_2 * velocity_1 * sine
        + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * np.cos(angle_1 - np.pi / 2.0)
        + phi2
    )
    pull = torque + d2 / d1 * phi1 - MASS * LENGTH * CENTRE * velocity_1**2 * sine - phi2
    acceleration_2 = pull / (own + INERTIA - d2**2 / d1)
    return velocity_1, velocity_2, -(d2 * acceleration_2 + phi1) / d1, acceleration_2


@njit(nogil=True)
def _wrapped(angle: float) -> float:
    """Return the angle between -π and π, taking away or adding whole turns."""
    while angle > np.pi:
        angle -= 2 * np.pi
    while angle < -np.pi:
        angle += 2 * np.pi
    return angle
