"""A simulator as a ``gymnasium.Env``; this file imports gymnasium, so ``to_gymnasium`` imports it only when called."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from longstride.errors import UserError
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.gym.spaces import to_gymnasium_space
from longstride.simulators.observe import build_observe_state, new_guarded
from longstride.simulators.simulator import (
    EMPTY_MASK,
    OK,
    REWARD_NOT_FINITE,
    Simulator,
    compile_functions,
    describe_fault,
    metrics_of,
    new_state,
)
from longstride.simulators.spaces import Box, Discrete
from longstride.simulators.validate import require_complete


class SimulatorEnv(gymnasium.Env[np.ndarray, Any]):
    """Steps the compiled functions of a simulator.

    Observations are float32[observation_size]. ``info["action_mask"]`` and :meth:`action_masks` (for sb3-contrib's
    MaskablePPO) are bool[n], n values of all choices; a Box has none. At the end ``info["metrics"]`` holds the
    simulator's metrics. ``terminated`` and ``truncated`` are kept apart; ``max_steps`` truncates. The reward is that of
    ``step``.

    Raises:
        UserError: the simulator is incomplete.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own name, of the class)

    def __init__(self, simulator: Simulator) -> None:
        require_complete(simulator)
        self.simulator, self._functions = simulator, compile_functions(simulator)
        self._observe_state = build_observe_state(simulator, self._functions)
        self.action_space = to_gymnasium_space(simulator.action_space)
        self.observation_space = spaces.Box(-np.inf, np.inf, (simulator.observation_size,), np.float32)
        self._states, self._guarded = new_state(simulator), new_guarded(simulator.observation_size)
        values = sum(simulator.action_space.choices)
        self._mask = np.ones(values, np.bool_)
        self._features = np.zeros((values, simulator.action_feature_size), np.float32)
        self._episode, self._steps, self._over = -1, 0, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode, or raise a SimulatorError; ``options`` are not used."""
        super().reset(seed=seed)
        self._episode, self._steps, self._over = self._episode + 1, 0, False
        with naming_the_episode(self.simulator, str(self._episode)):
            self._functions.reset(self._states[0], self.simulator.parameters, self.np_random)
        return self._observe()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make an environment step; numbers beyond the bounds of a Box are clipped.

        Raises:
            UserError: the action is invalid, or the mask forbids it, or the episode is over.
            SimulatorError: the simulator broke its contract.
        """
        if self._over:
            raise UserError(f"{self._name()}: the episode is over or has not begun; call reset() first.")
        chosen = self._admitted(action)
        state, parameters = self._states[0], self.simulator.parameters
        with naming_the_episode(self.simulator, str(self._episode)):
            reward, terminated = self._functions.step(state, parameters, chosen, self.np_random)
        self._steps += 1
        late = self._steps >= self.simulator.max_steps or self._functions.truncated(state, parameters)
        terminated, truncated = bool(terminated), bool(late and not terminated)
        self._over = terminated or truncated
        if not np.isfinite(reward):
            raise describe_fault(REWARD_NOT_FINITE, self.simulator, str(self._episode), self._steps - 1)
        observation, info = self._observe()
        if self._over:
            info["metrics"] = metrics_of(self.simulator, self._states)
        return observation, float(reward), terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Return the mask of the present state, bool[n], n values of all choices."""
        return self._mask.copy()

    def _observe(self) -> tuple[np.ndarray, dict[str, Any]]:
        observation = np.zeros(self.simulator.observation_size, np.float32)
        source = (self._states[0], self.simulator.parameters, self._guarded)
        status = self._observe_state(*source, observation, self._mask, self._features)
        if status != OK and not (self._over and status == EMPTY_MASK):  # a last state may allow nothing
            raise describe_fault(status, self.simulator, str(self._episode), self._steps)
        return observation, {"action_mask": self._mask.copy()} if len(self._mask) else {}

    def _admitted(self, action: Any) -> Any:
        """Return an allowed action as the simulator's step takes it, or raise."""
        space, values = self.simulator.action_space, np.asarray(action)
        if isinstance(space, Box):
            numbers = values.astype(np.float32)
            if numbers.shape != space.shape or np.isnan(numbers).any():
                raise self._foreign(action)
            return np.clip(numbers, *space.bounds)
        if values.shape != space.shape or not np.issubdtype(values.dtype, np.integer):
            raise self._foreign(action)
        begins = np.cumsum((0, *space.choices[:-1]))
        for value, begin, size in zip(np.atleast_1d(values).tolist(), begins, space.choices, strict=True):
            if not 0 <= value < size:
                raise self._foreign(action)
            if not self._mask[begin + value]:
                allowed = np.flatnonzero(self._mask[begin : begin + size]).tolist()
                raise UserError(
                    f"{self._name()}: the mask forbids {value} in action {action!r}, allowed are {allowed}."
                )
        return int(values) if isinstance(space, Discrete) else values.astype(np.int64)

    def _foreign(self, action: Any) -> UserError:
        return UserError(f"{self._name()}: {action!r} is not in {self.action_space}.")

    def _name(self) -> str:
        return f"{type(self.simulator).__name__}, episode {self._episode}, step {self._steps}"
