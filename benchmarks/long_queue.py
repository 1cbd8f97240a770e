"""LongQueue: eight queues, one of which is served at each decision, in episodes of 62,000 decisions.

A queue grows by a Bernoulli arrival each step; the action serves one. Reward: minus the total length, in hundredths.
Observation: log1p of the lengths, hundredths of steps since the last service (at most 3), the last action one-hot, the
last arrivals. It costs next to nothing to step, so what is measured with it is the trainer. There is the same as a
Gymnasium environment in NumPy, for trainers that need one; same generator and actions, same states.
"""

from typing import Any

import gymnasium
import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

QUEUES, EPISODE, RATE, _BLOCK = 8, 62_000, 0.11, 4096


class LongQueue(Simulator):
    """The compiled one."""

    observation_size = 32
    action_space = Discrete(QUEUES)
    max_steps = EPISODE
    state_dtype = np.dtype(
        [
            ("lengths", np.float32, QUEUES),
            ("ages", np.float32, QUEUES),
            ("arrived", np.float32, QUEUES),
            ("last", np.int64),
            ("acted", np.bool_),
            ("count", np.int64),
        ]
    )

    def __init__(self, episode: int = EPISODE) -> None:
        self.max_steps = episode
        self.parameters = np.array([episode], np.int64)

    @staticmethod
    def reset(state: Any, parameters: Any, rng: Any) -> None:
        """Empty the queues."""
        state.lengths[:], state.ages[:], state.arrived[:] = 0.0, 0.0, 0.0
        state.last, state.acted, state.count = 0, False, 0

    @staticmethod
    def observe(state: Any, parameters: Any, observation: Any) -> None:
        """Write the 32 numbers."""
        for i in range(8):
            observation[i] = np.log1p(state.lengths[i])
            observation[8 + i] = min(state.ages[i], np.float32(3.0))
            observation[24 + i] = state.arrived[i]
        if state.acted:
            observation[16 + state.last] = 1.0

    @staticmethod
    def step(state: Any, parameters: Any, action: Any, rng: Any) -> tuple[float, bool]:
        """Let cases arrive, serve one queue."""
        total = np.float32(0.0)
        for i in range(8):
            state.arrived[i] = 1.0 if rng.random() < 0.11 else 0.0
            state.lengths[i] += state.arrived[i]
            if i == action and state.lengths[i] > 0.0:
                state.lengths[i] -= np.float32(1.0)
            state.ages[i] += np.float32(0.01)
            total += state.lengths[i]
        state.ages[action] = 0.0
        state.last, state.acted = action, True
        state.count += 1
        return -0.01 * total, state.count >= parameters[0]


class LongQueueEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """The one for Gymnasium, arrivals drawn in blocks as a careful author would."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (32,), np.float32)
    action_space = gymnasium.spaces.Discrete(QUEUES)

    def __init__(self, episode: int = EPISODE) -> None:
        self._episode = episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Empty the queues."""
        super().reset(seed=seed)
        self._lengths, self._ages = np.zeros(QUEUES, np.float32), np.zeros(QUEUES, np.float32)
        self._count, self._row = 0, _BLOCK
        return np.zeros(32, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Let cases arrive, serve one queue."""
        if self._row == _BLOCK:
            self._block, self._row = (self.np_random.random((_BLOCK, QUEUES)) < RATE).astype(np.float32), 0
        arrived = self._block[self._row]
        self._row, self._count = self._row + 1, self._count + 1
        self._lengths += arrived
        if self._lengths[action] > 0.0:
            self._lengths[action] -= 1.0
        self._ages += np.float32(0.01)
        self._ages[action] = 0.0
        observation = np.zeros(32, np.float32)
        np.log1p(self._lengths, out=observation[:8])
        np.minimum(self._ages, 3.0, out=observation[8:16])
        observation[16 + action] = 1.0
        observation[24:] = arrived
        return observation, -0.01 * float(self._lengths.sum()), self._count >= self._episode, False, {}
