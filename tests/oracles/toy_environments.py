"""Small Gymnasium environments for the tests; importing this registers them."""

import gymnasium
import numpy as np
from gymnasium import spaces


def first_of(seed):
    """Return what an episode of the walk with this seed shows first, a float32."""
    return float(np.random.default_rng(seed).integers(1000)) / 1024


class Walk(gymnasium.Env):
    """Shows (a number of the seed, step) and earns the step; `end` and `cut` say after which step it ends and how.

    Args:
        end: terminated after so many steps.
        cut: truncated after so many.
        fault: what goes wrong at step 3: "shape", "dtype", "nan", "reward", "raise", "mask", "end" or nothing; "info":
            at reset.
    """

    def __init__(self, end=1000, cut=1000, fault=""):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3, start=-1)
        self.end, self.cut, self.fault = end, cut, fault
        self.received = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.first, self.count = float(self.np_random.integers(1000)) / 1024, 0
        return self._look(), None if self.fault == "info" else self._info()

    def step(self, action):
        self.received.append(action)
        assert isinstance(action, int)
        assert -1 <= action <= 1
        assert action != 0 or self.count % 2, "the mask forbids 0 at even steps"
        if self.fault == "raise" and self.count == 3:
            raise ValueError("the legs broke")
        self.count += 1
        reward = np.inf if self.fault == "reward" and self.count == 3 else float(self.count)
        ended = np.array([False, True]) if self.fault == "end" and self.count == 3 else self.count >= self.end
        return self._look(), reward, ended, self.count >= self.cut, self._info()

    def _look(self):
        values = [self.first, self.count]
        if self.count == 3 and self.fault in ("shape", "dtype", "nan"):
            return {
                "shape": np.zeros((1, 2), np.float32),
                "dtype": np.array(["a", "b"]),
                "nan": np.array([np.nan, 0.0], np.float32),
            }[self.fault]
        return np.array(values, np.float32)

    def _info(self):
        size = 2 if self.fault == "mask" and self.count == 3 else 3
        return {"action_mask": np.array([1, self.count % 2, 1], np.int8)[:size]}


class Spaces(gymnasium.Env):
    """Any observation and action space: observations are samples, and actions have to be in the space."""

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions
        self.shown, self.received = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self._look(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.received.append(action)
        return self._look(), 0.0, False, len(self.shown) % 7 == 0, {}

    def _look(self):
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]


class Method(Spaces):
    """Forbids the second action, by the method that MaskablePPO asks for."""

    def action_masks(self):
        return np.array([True, False, True])


gymnasium.register("LongstrideWalk-v0", Walk)
gymnasium.register("LongstrideSpaces-v0", Spaces)
gymnasium.register("LongstrideMethod-v0", Method)
