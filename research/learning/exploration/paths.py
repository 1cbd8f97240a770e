"""Problems in which the reward lies at the end of a long path of right actions: a river, a deep sea."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of
from research.learning.further_problems import LONG


class River(NamedTuple):
    """What the functions of :class:`RiverSwim` read: the number of places."""

    places: int


class RiverSwim(Simulator):
    """Drift left for sure or swim right against the stream; 0.05 a step at the left end, 1 at the right end.

    After Strehl and Littman, "An analysis of model-based interval estimation for Markov decision processes" (2008),
    with another number of places.
    """

    action_space, max_steps = Discrete(2), LONG
    metrics_dtype = np.dtype([("reward", np.float64)])
    main_metric = "reward"
    state_dtype = np.dtype([("place", np.int64), ("reward", np.float64), ("steps", np.int64)])
    UP, DOWN = 0.6, 0.05

    def __init__(self, places: int = 20) -> None:
        self.parameters, self.observation_size = River(places), places

    @staticmethod
    def reset(state: Any, parameters: River, rng: np.random.Generator) -> None:
        """Begin at the left end."""
        state.place, state.reward, state.steps = 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: River, observation: np.ndarray) -> None:
        """Mark the place."""
        observation[state.place] = 1.0

    @staticmethod
    def step(state: Any, parameters: River, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Drift or swim."""
        reward, last = 0.0, parameters.places - 1
        if action == 0:
            reward = 0.05 if state.place == 0 else 0.0
            state.place = max(state.place - 1, 0)
        else:
            reward = 1.0 if state.place == last else 0.0
            u = rng.random()
            if u < 0.6:
                state.place = min(state.place + 1, last)
            elif u < 0.65:
                state.place = max(state.place - 1, 0)
        state.reward += reward
        state.steps += 1
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: River, metrics: Any) -> None:
        """Write the mean reward a step."""
        metrics.reward = state.reward / max(1, state.steps)

    @staticmethod
    def drift(state: Any, parameters: River, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Always drift."""
        return 0

    heuristics: Mapping[str, Function] = {"drift": drift.__func__}  # type: ignore[attr-defined]

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(state.place)

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.place = row

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        moves, last = [], self.parameters.places - 1
        for place in range(last + 1):
            moves.append((place, 0, max(place - 1, 0), 1.0, 0.05 * (place == 0)))
            ways = ((min(place + 1, last), self.UP), (max(place - 1, 0), self.DOWN), (place, 1.0 - self.UP - self.DOWN))
            moves += [(place, 1, to, chance, float(place == last)) for to, chance in ways]
        return chain_of(moves, (last + 1, 2), 0, LONG, 1.0)

    def optimum(self) -> float:
        """Return the largest mean reward a step."""
        return best(self.chain())


class Sea(NamedTuple):
    """What the functions of :class:`DeepSea` read: the side, and int64[side, side], the action that goes right."""

    size: int
    right: np.ndarray


class DeepSea(Simulator):
    """Dive diagonally: a step right costs 0.01 / side, and only the right end of the last row brings 1.

    After Osband et al., "Behaviour suite for reinforcement learning" (2020): which action goes right differs by place.
    """

    action_space = Discrete(2)
    metrics_dtype = np.dtype([("reward", np.float64)])
    main_metric = "reward"
    state_dtype = np.dtype([("depth", np.int64), ("column", np.int64), ("reward", np.float64)])

    def __init__(self, size: int = 12) -> None:
        self.parameters = Sea(size, np.random.default_rng(size).integers(0, 2, (size, size)))
        self.observation_size, self.max_steps = 2 * size, size

    @staticmethod
    def reset(state: Any, parameters: Sea, rng: np.random.Generator) -> None:
        """Begin at the upper left."""
        state.depth, state.column, state.reward = 0, 0, 0.0

    @staticmethod
    def observe(state: Any, parameters: Sea, observation: np.ndarray) -> None:
        """Mark the row and the column."""
        if state.depth < parameters.size:
            observation[state.depth] = 1.0
        observation[parameters.size + state.column] = 1.0

    @staticmethod
    def step(state: Any, parameters: Sea, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Go down, to the left or right."""
        reward, last = 0.0, parameters.size - 1
        if action == parameters.right[state.depth, state.column]:
            reward = -0.01 / parameters.size
            if state.depth == last and state.column == last:
                reward += 1.0
            state.column = min(state.column + 1, last)
        else:
            state.column = max(state.column - 1, 0)
        state.depth += 1
        state.reward += reward
        return reward, state.depth > last

    @staticmethod
    def episode_metrics(state: Any, parameters: Sea, metrics: Any) -> None:
        """Write the reward of the dive."""
        metrics.reward = state.reward

    @staticmethod
    def left(state: Any, parameters: Sea, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Always go left, for nothing."""
        if state.depth >= parameters.size:
            return 0
        return 1 - parameters.right[state.depth, state.column]

    heuristics: Mapping[str, Function] = {"left": left.__func__}  # type: ignore[attr-defined]

    def row(self, state: Any) -> int:
        """Return the number of a state; all states after the last row are one."""
        size = self.parameters.size
        return int(state.depth * size + state.column) if state.depth < size else size * size

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.depth, state.column = divmod(row, self.parameters.size)

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        size, moves = (
            self.parameters.size,
            [(self.parameters.size**2, a, self.parameters.size**2, 1.0, 0.0) for a in (0, 1)],
        )
        for depth, column, action in np.ndindex(size, size, 2):
            right = action == self.parameters.right[depth, column]
            to = min(column + 1, size - 1) if right else max(column - 1, 0)
            after = (depth + 1) * size + to if depth + 1 < size else size * size
            found = right and depth == column == size - 1
            moves.append((depth * size + column, action, after, 1.0, found - 0.01 / size * right))
        return chain_of(moves, (size * size + 1, 2), 0, size, float(size))

    def optimum(self) -> float:
        """Return the largest reward of a dive, 0.99."""
        return best(self.chain())
