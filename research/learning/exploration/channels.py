"""Channels that fail for a while: a choice brings a reward and is the only way to learn which ones work."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Links(NamedTuple):
    """What the functions of :class:`Channels` read.

    Attributes:
        breaks: float64[3], probability that a working channel breaks in a step.
        mends: float64[3], probability that a broken one works again.
        rate: float64[3], reward of a step on a working channel.
        change: cost of taking another channel than before.
        oldest: steps since a look that are told apart.
    """

    breaks: np.ndarray
    mends: np.ndarray
    rate: np.ndarray
    change: float
    oldest: int


class Channels(Simulator):
    """Three channels, hidden unless taken; what is seen: whether each worked when it was taken last, and how long ago.

    A channel is drawn when it is taken, from what is known of it. One left for ``oldest`` steps counts as that old.
    """

    action_space, observation_size, max_steps = Discrete(3), 9, LONG
    metrics_dtype = np.dtype([("reward", np.float64)])
    main_metric, main_metric_lower_is_better = "reward", False
    state_dtype = np.dtype(
        [
            ("seen", np.int64, (3,)),
            ("age", np.int64, (3,)),
            ("at", np.int64),
            ("reward", np.float64),
            ("steps", np.int64),
        ]
    )

    def __init__(self, oldest: int = 30) -> None:
        self.parameters = Links(
            np.array([0.05, 0.02, 0.01]), np.array([0.08, 0.05, 0.04]), np.array([1.0, 0.8, 0.65]), 0.5, oldest
        )

    @staticmethod
    def reset(state: Any, parameters: Links, rng: np.random.Generator) -> None:
        """Begin with channels that worked just now."""
        for i in range(3):
            state.seen[i], state.age[i] = 1, 1
        state.at, state.reward, state.steps = 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Links, observation: np.ndarray) -> None:
        """Write what was seen, how long ago, and the channel that was taken."""
        for i in range(3):
            observation[i], observation[3 + i] = state.seen[i], state.age[i]
        observation[6 + state.at] = 1.0

    @staticmethod
    def step(state: Any, parameters: Links, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Take a channel."""
        breaks, mends = parameters.breaks[action], parameters.mends[action]
        long_run = mends / (breaks + mends)
        works = long_run + (state.seen[action] - long_run) * (1.0 - breaks - mends) ** state.age[action]
        seen = 1 if rng.random() < works else 0
        reward = parameters.rate[action] * seen - (parameters.change if action != state.at else 0.0)
        for i in range(3):
            state.age[i] = min(state.age[i] + 1, parameters.oldest)
        state.seen[action], state.age[action], state.at = seen, 1, action
        state.reward += reward
        state.steps += 1
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Links, metrics: Any) -> None:
        """Write the mean reward."""
        metrics.reward = state.reward / max(1, state.steps)

    @staticmethod
    def stay_while_it_works(state: Any, parameters: Links, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Stay while it works, then take the channel that was left the longest time ago."""
        if state.seen[state.at] == 1:
            return state.at
        oldest = state.at
        for i in range(3):
            if state.age[i] > state.age[oldest]:
                oldest = i
        return oldest

    heuristics: Mapping[str, Function] = {
        "stay_while_it_works": stay_while_it_works.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (channel, what was seen of each, age of each less 1)."""
        return 3, 2, 2, 2, *[self.parameters.oldest] * 3

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((state.at, *state.seen, *(state.age - 1)), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.at, *rest = np.unravel_index(row, self.shape())
        state.seen[:], state.age[:] = rest[:3], np.array(rest[3:]) + 1

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        p, shape = self.parameters, self.shape()
        states = np.arange(np.prod(shape))
        at, *rest = np.unravel_index(states, shape)
        seen, age, parts = rest[:3], [a + 1 for a in rest[3:]], []
        for action, works in np.ndindex(3, 2):
            breaks, mends = p.breaks[action], p.mends[action]
            long_run = mends / (breaks + mends)
            chance = long_run + (seen[action] - long_run) * (1.0 - breaks - mends) ** age[action]
            after = [np.minimum(a + 1, p.oldest) - 1 for a in age]
            after[action] = np.zeros_like(at)
            now = [np.full_like(at, works) if i == action else seen[i] for i in range(3)]
            to = np.ravel_multi_index((np.full_like(at, action), *now, *after), shape)
            reward = p.rate[action] * works - p.change * (at != action)
            parts.append((states, np.full_like(at, action), to, chance if works else 1.0 - chance, reward))
        moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
        start = int(np.ravel_multi_index((0, 1, 1, 1, 0, 0, 0), shape))
        return chain_of_arrays(*moves, (len(states), 3), start, LONG, 1.0)

    def optimum(self) -> float:
        """Return the largest mean reward."""
        return best(self.chain(), 1e-6)
