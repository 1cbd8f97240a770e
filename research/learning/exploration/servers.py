"""A server that needs a set-up before it serves another queue: three queues, and two queues served in batches."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Rates(NamedTuple):
    """What the functions of :class:`ThreeQueues` read.

    Attributes:
        arrivals: float64[3], probability of an arrival a step.
        service: probability that a job ends in a step of service.
        places: places of each queue; who finds it full is lost.
        set_up: steps of a set-up.
    """

    arrivals: np.ndarray
    service: float
    places: int
    set_up: int


class ThreeQueues(Simulator):
    """One server, three queues of 14 places, and a set-up of four steps, which may be broken off for another one."""

    action_space, observation_size, max_steps = Discrete(3), 7, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype(
        [("queue", np.int64, (3,)), ("at", np.int64), ("left", np.int64), ("cost", np.float64), ("steps", np.int64)]
    )

    def __init__(self, places: int = 14, set_up: int = 4) -> None:
        self.parameters = Rates(np.array([0.21, 0.2, 0.19]), 0.785, places, set_up)

    @staticmethod
    def reset(state: Any, parameters: Rates, rng: np.random.Generator) -> None:
        """Begin empty, at the first queue."""
        state.queue[0], state.queue[1], state.queue[2] = 0, 0, 0
        state.at, state.left, state.cost, state.steps = 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Rates, observation: np.ndarray) -> None:
        """Write the queues, which one the server is at, and the steps of set-up that are left."""
        for i in range(3):
            observation[i] = state.queue[i]
        observation[3 + state.at], observation[6] = 1.0, state.left

    @staticmethod
    def step(state: Any, parameters: Rates, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Serve the queue, go on with its set-up, or begin one."""
        if action != state.at:
            state.at, state.left = action, parameters.set_up
        if state.left > 0:
            state.left -= 1
        elif state.queue[action] > 0 and rng.random() < parameters.service:
            state.queue[action] -= 1
        cost = 0.0
        for i in range(3):
            if rng.random() < parameters.arrivals[i]:
                state.queue[i] = min(state.queue[i] + 1, parameters.places)
            cost += state.queue[i]
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Rates, metrics: Any) -> None:
        """Write the mean number of jobs."""
        metrics.cost = state.cost / max(1, state.steps)

    @staticmethod
    def exhaustive(state: Any, parameters: Rates, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Serve until the queue is empty, then go to the longest one."""
        if state.left > 0 or state.queue[state.at] > 0:
            return state.at
        longest = state.at
        for i in range(3):
            if state.queue[i] > state.queue[longest]:
                longest = i
        return longest

    @staticmethod
    def cycle(state: Any, parameters: Rates, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Serve until the queue is empty, then go to the next one."""
        return state.at if state.left > 0 or state.queue[state.at] > 0 else (state.at + 1) % 3

    @staticmethod
    def longest(state: Any, parameters: Rates, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Always go to the longest queue."""
        found = state.at
        for i in range(3):
            if state.queue[i] > state.queue[found]:
                found = i
        return found

    heuristics: Mapping[str, Function] = {
        "exhaustive": exhaustive.__func__,  # type: ignore[attr-defined]
        "cycle": cycle.__func__,  # type: ignore[attr-defined]
        "longest": longest.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (at, left, queues)."""
        n = self.parameters.places + 1
        return 3, self.parameters.set_up + 1, n, n, n

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((state.at, state.left, *state.queue), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.at, state.left, *queue = np.unravel_index(row, self.shape())
        state.queue[:] = queue

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        arrivals, service, places, set_up = self.parameters
        shape = self.shape()
        states = np.arange(np.prod(shape))
        at, left, *queue = np.unravel_index(states, shape)
        parts = []
        for action, served, come in np.ndindex(3, 2, 8):
            remaining = np.where(at == action, left, set_up)
            can = (remaining == 0) & (queue[action] > 0)
            chance = np.where(can, service if served else 1.0 - service, 0.0 if served else 1.0)
            after = []
            for i in range(3):
                arrives = come >> i & 1
                chance = chance * (arrivals[i] if arrives else 1.0 - arrivals[i])
                after.append(np.minimum(queue[i] - (can & (i == action) & (served == 1)) + arrives, places))
            to = np.ravel_multi_index((np.full_like(at, action), np.maximum(remaining - 1, 0), *after), shape)
            parts.append((states, np.full_like(at, action), to, chance, -1.0 * sum(after)))
        moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return chain_of_arrays(*moves, (len(states), 3), 0, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean number of jobs."""
        return best(self.chain(), 1e-5)
