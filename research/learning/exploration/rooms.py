"""Rooms behind doors, with keys to fetch before."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of

WALL, GOAL, KEYS, DOORS = 1, 2, 10, 20
ONE_KEY = ("S...#....", "....#....", "....#..G.", "....A....", "....#....", "....#....", "a...#....")
TWO_KEYS = (
    "S...#...#...",
    "....#...#...",
    "....#...#...",
    "....A...#..G",
    "....#...B...",
    "....#...#...",
    "a...#..b#...",
)


class Rooms(NamedTuple):
    """What the functions of :class:`KeyDoor` read.

    Attributes:
        grid: int64[rows, columns]: 0 free, WALL, GOAL, KEYS + k, DOORS + k.
        ways: int64[4, 2], rows and columns of a step.
        keys: number of keys.
    """

    grid: np.ndarray
    ways: np.ndarray
    keys: int


class KeyDoor(Simulator):
    """Fetch a key, which opens a door, behind which is the goal or the next key; one step in ten goes anywhere."""

    action_space = Discrete(4)
    metrics_dtype = np.dtype([("steps", np.float64)])
    main_metric, main_metric_lower_is_better = "steps", True
    state_dtype = np.dtype([("x", np.int64), ("y", np.int64), ("held", np.int64), ("steps", np.int64)])

    def __init__(self, layout: Sequence[str] = ONE_KEY, max_steps: int = 200) -> None:
        codes = {"S": 0, ".": 0, "#": WALL, "G": GOAL, "a": KEYS, "b": KEYS + 1, "A": DOORS, "B": DOORS + 1}
        grid = np.array([[codes[sign] for sign in line] for line in layout])
        keys = int(((grid >= KEYS) & (grid < DOORS)).sum())
        self.parameters = Rooms(grid, np.array([[0, 1], [0, -1], [1, 0], [-1, 0]]), keys)
        self.observation_size, self.max_steps = 2 + keys, max_steps

    @staticmethod
    def reset(state: Any, parameters: Rooms, rng: np.random.Generator) -> None:
        """Begin at the upper left with no key."""
        state.x, state.y, state.held, state.steps = 0, 0, 0, 0

    @staticmethod
    def observe(state: Any, parameters: Rooms, observation: np.ndarray) -> None:
        """Write the place and which keys are held."""
        observation[0], observation[1] = state.x, state.y
        for key in range(parameters.keys):
            observation[2 + key] = (state.held >> key) & 1

    @staticmethod
    def step(state: Any, parameters: Rooms, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Go, or stay before a wall or a locked door."""
        way = action if rng.random() >= 0.1 else rng.integers(0, 4)
        x, y = state.x + parameters.ways[way, 0], state.y + parameters.ways[way, 1]
        state.steps += 1
        if x < 0 or y < 0 or x >= parameters.grid.shape[0] or y >= parameters.grid.shape[1]:
            return 0.0, False
        there = parameters.grid[x, y]
        if there == 1 or (there >= 20 and (state.held >> (there - 20)) & 1 == 0):
            return 0.0, False
        state.x, state.y = x, y
        if 10 <= there < 20:
            state.held |= 1 << (there - 10)
        return (1.0 if there == 2 else 0.0), there == 2

    @staticmethod
    def episode_metrics(state: Any, parameters: Rooms, metrics: Any) -> None:
        """Write the length of the walk."""
        metrics.steps = state.steps

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        columns, sets = self.parameters.grid.shape[1], 1 << self.parameters.keys
        return int((state.x * columns + state.y) * sets + state.held)

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        place, state.held = divmod(row, 1 << self.parameters.keys)
        state.x, state.y = divmod(place, self.parameters.grid.shape[1])

    def chain(self) -> Chain:
        """Return the problem as probabilities; a reward of -1 for each step before the goal."""
        grid, ways, keys = self.parameters
        moves, state = [], np.zeros(1, self.state_dtype).view(np.recarray)[0]
        size = grid.size << keys
        for row in range(size):
            self.write(state, row)
            if grid[state.x, state.y] == GOAL:
                moves += [(row, action, row, 1.0, 0.0) for action in range(4)]
                continue
            after = [self._after(state.x + dx, state.y + dy, state.held, row) for dx, dy in ways]
            for action in range(4):
                moves += [(row, action, to, 0.025 + 0.9 * (way == action), -1.0) for way, to in enumerate(after)]
        return chain_of(moves, (size, 4), 0, self.max_steps, -float(self.max_steps))

    def _after(self, x: int, y: int, held: int, row: int) -> int:
        """Return the number of the state after a step to a place, ``row`` if nobody gets there."""
        grid, _, keys = self.parameters
        inside = 0 <= x < grid.shape[0] and 0 <= y < grid.shape[1]
        if not inside or grid[x, y] == WALL or (grid[x, y] >= DOORS and not held >> (grid[x, y] - DOORS) & 1):
            return row
        if KEYS <= grid[x, y] < DOORS:
            held |= 1 << (grid[x, y] - KEYS)
        return int((x * grid.shape[1] + y) * (1 << keys) + held)

    def optimum(self) -> float:
        """Return the shortest expected walk."""
        return best(self.chain())
