"""Problems that a policy solves only if it does the same thing for many steps: a distant goal, a set-up of a server."""

from typing import Any

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from research.learning.further_problems import LONG, NONE, Constants


class Maze(Simulator):
    """Walk through a maze of 10 x 10 from anywhere; only the goal brings a reward; one step in ten goes anywhere."""

    action_space, observation_size, max_steps = Discrete(4), 2, 300
    metrics_dtype = np.dtype([("steps", np.float64)])
    main_metric, main_metric_lower_is_better = "steps", True
    state_dtype = np.dtype([("x", np.int64), ("y", np.int64), ("steps", np.int64)])

    def __init__(self) -> None:
        walls = np.zeros((10, 10), np.int64)
        walls[2, :8] = walls[5, 2:] = walls[7, :7] = 1
        self.parameters = Constants(walls, np.array([[0, 1], [0, -1], [1, 0], [-1, 0]]))  # walls, ways to go

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin anywhere but in a wall or at the goal."""
        state.steps, state.x, state.y = 0, 9, 0
        while parameters.first[state.x, state.y] == 1 or (state.x == 9 and state.y == 0):
            state.x, state.y = rng.integers(0, 10), rng.integers(0, 10)

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the place."""
        observation[0], observation[1] = state.x, state.y

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Go, or stay before a wall."""
        way = action if rng.random() >= 0.1 else rng.integers(0, 4)
        x, y = state.x + parameters.second[way, 0], state.y + parameters.second[way, 1]
        if 0 <= x < 10 and 0 <= y < 10 and parameters.first[x, y] == 0:
            state.x, state.y = x, y
        state.steps += 1
        at_goal = state.x == 9 and state.y == 0
        return (1.0 if at_goal else 0.0), at_goal

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the length of the walk."""
        metrics.steps = state.steps

    def optimum(self) -> float:
        """Return the shortest expected walk."""
        walls, ways = self.parameters
        free = walls == 0
        length = np.zeros((10, 10))
        while True:
            after = np.empty((4, 10, 10))
            for (x, y), (way, (dx, dy)) in ((place, w) for place in np.ndindex(10, 10) for w in enumerate(ways)):
                to = x + dx, y + dy
                inside = 0 <= to[0] < 10 and 0 <= to[1] < 10 and free[to]
                after[way, x, y] = length[to] if inside else length[x, y]
            longer = 1.0 + (0.9 * after + 0.1 * after.mean(axis=0)).min(axis=0)
            longer[9, 0] = 0.0
            if np.abs(longer - length)[free].max() < 1e-10:
                break
            length = longer
        free[9, 0] = False
        return float(length[free].mean())


class Polling(Simulator):
    """One server, two queues, and a set-up between them that takes three steps in the mean; waiting costs 1 and 3."""

    action_space, observation_size, max_steps = Discrete(2), 3, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("queue", np.int64, (2,)), ("at", np.int64), ("cost", np.float64), ("steps", np.int64)])

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin empty, at the first queue."""
        state.queue[0], state.queue[1], state.at, state.cost, state.steps = 0, 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write both queues and where the server is: 0, 1 at a queue, 2, 3 in the set-up for one."""
        observation[0], observation[1], observation[2] = state.queue[0], state.queue[1], state.at

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Serve the queue, or go on with the set-up for it, or begin that."""
        if action != state.at % 2:
            state.at = 2 + action
        elif state.at >= 2:
            if rng.random() < 0.3:
                state.at = action
        elif state.queue[action] > 0 and rng.random() < 0.6:
            state.queue[action] -= 1
        for i in range(2):
            if rng.random() < (0.2 if i == 0 else 0.15):
                state.queue[i] += 1
        cost = state.queue[0] + 3.0 * state.queue[1]
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    def optimum(self) -> float:
        """Return the lowest mean cost a step, with queues of at most 60."""
        n = 61
        come = [np.diag(np.r_[np.full(n - 1, 1.0 - p), 1.0]) + np.diag(np.full(n - 1, p), 1) for p in (0.2, 0.15)]
        cost = np.arange(n)[:, None] + 3.0 * np.arange(n)
        values = np.zeros((4, n, n))
        while True:
            after = np.stack([come[0] @ (cost + of) @ come[1].T for of in values])
            served = after[:2].copy()
            served[0, 1:] = 0.6 * after[0, :-1] + 0.4 * after[0, 1:]
            served[1, :, 1:] = 0.6 * after[1, :, :-1] + 0.4 * after[1, :, 1:]
            set_up = 0.3 * after[:2] + 0.7 * after[2:]
            leave = after[[3, 2]]
            backed_up = np.minimum(np.concatenate([served, set_up]), np.concatenate([leave, leave]))
            gain = backed_up - values
            if np.ptp(gain) < 1e-7:
                return float(gain.mean())
            values = 0.5 * (values + backed_up)
            values -= values[0, 0, 0]
