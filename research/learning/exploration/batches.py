"""Two queues and one server with a set-up, which serves up to six jobs at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Batches(NamedTuple):
    """What the functions of :class:`BatchServer` read.

    Attributes:
        arrivals: float64[2], probability of an arrival a step.
        waiting: float64[2], cost of a waiting job a step.
        places: places of each queue; who finds it full is lost.
        batch: most jobs of a batch.
        start: cost of a batch.
        service: steps of a batch.
        set_up: steps of a set-up.
    """

    arrivals: np.ndarray
    waiting: np.ndarray
    places: int
    batch: int
    start: float
    service: int
    set_up: int


class BatchServer(Simulator):
    """Wait, or serve a batch of either queue; the other one needs a set-up first; neither can be broken off."""

    action_space, observation_size, max_steps = Discrete(3), 4, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype(
        [("queue", np.int64, (2,)), ("at", np.int64), ("busy", np.int64), ("cost", np.float64), ("steps", np.int64)]
    )

    def __init__(self, places: int = 20) -> None:
        self.parameters = Batches(np.array([0.3, 0.2]), np.array([1.0, 2.0]), places, 6, 20.0, 4, 3)

    @staticmethod
    def reset(state: Any, parameters: Batches, rng: np.random.Generator) -> None:
        """Begin empty and idle, at the first queue."""
        state.queue[0], state.queue[1], state.at, state.busy, state.cost, state.steps = 0, 0, 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Batches, observation: np.ndarray) -> None:
        """Write the queues, which one the server is at, and for how many steps it is busy."""
        observation[0], observation[1] = state.queue[0], state.queue[1]
        observation[2], observation[3] = state.at, state.busy

    @staticmethod
    def step(state: Any, parameters: Batches, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Go on with what is begun; otherwise wait (0), or begin a batch or the set-up for a queue (1, 2)."""
        cost, queue = 0.0, action - 1
        if state.busy > 0:
            state.busy -= 1
        elif action > 0 and queue != state.at:
            state.at, state.busy = queue, parameters.set_up - 1
        elif action > 0 and state.queue[queue] > 0:
            state.queue[queue] = max(state.queue[queue] - parameters.batch, 0)
            state.busy, cost = parameters.service - 1, parameters.start
        for i in range(2):
            if rng.random() < parameters.arrivals[i]:
                state.queue[i] = min(state.queue[i] + 1, parameters.places)
            cost += parameters.waiting[i] * state.queue[i]
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Batches, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    @staticmethod
    def own_first(state: Any, parameters: Batches, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Serve three jobs or more of the own queue; otherwise go where four wait; otherwise wait."""
        if state.queue[state.at] >= 3:
            return state.at + 1
        return 2 - state.at if state.queue[1 - state.at] >= 4 else 0

    heuristics: Mapping[str, Function] = {"own_first": own_first.__func__}  # type: ignore[attr-defined]

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (at, busy, queues)."""
        n = self.parameters.places + 1
        return 2, max(self.parameters.service, self.parameters.set_up), n, n

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((state.at, state.busy, *state.queue), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.at, state.busy, *queue = np.unravel_index(row, self.shape())
        state.queue[:] = queue

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        of, shape = self.parameters, self.shape()
        states = np.arange(np.prod(shape))
        at, busy, *queues = np.unravel_index(states, shape)
        parts = []
        for action, come in np.ndindex(3, 4):
            queue = max(action - 1, 0)
            moves = (busy == 0) & (action > 0) & (at != queue)
            serves = (busy == 0) & (action > 0) & (at == queue) & (queues[queue] > 0)
            to_at = np.where(moves, queue, at)
            to_busy = np.where(moves, of.set_up - 1, np.where(serves, of.service - 1, np.maximum(busy - 1, 0)))
            after, chance, cost = [], 1.0, np.where(serves, of.start, 0.0)
            for i in range(2):
                left = np.where(serves & (queue == i), np.maximum(queues[i] - of.batch, 0), queues[i])
                after.append(np.minimum(left + (come >> i & 1), of.places))
                chance *= of.arrivals[i] if come >> i & 1 else 1.0 - of.arrivals[i]
                cost = cost + of.waiting[i] * after[i]
            to = np.ravel_multi_index((to_at, to_busy, *after), shape)
            parts.append((states, np.full_like(at, action), to, np.full(len(states), chance), -cost))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return chain_of_arrays(*columns, (len(states), 3), 0, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean cost a step."""
        return best(self.chain(), 1e-6)
