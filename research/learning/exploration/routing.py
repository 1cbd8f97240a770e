"""Jobs are sent to one of three servers with queues of their own; the fast one fails now and then."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Servers(NamedTuple):
    """What the functions of :class:`Routing` read.

    Attributes:
        come: probability that a job comes in a step.
        service: float64[3], probability that a server that works finishes a job in a step.
        places: places at each server, its own included; a job that is sent to a full one is turned away.
        fails: probability that the first server fails in a step.
        mends: probability that it works again.
        turned_away: cost of a job that is turned away.
    """

    come: float
    service: np.ndarray
    places: int
    fails: float
    mends: float
    turned_away: float


class Routing(Simulator):
    """Choose in each step the server that a job is sent to if one comes; it cannot change the queue later."""

    action_space, observation_size, max_steps = Discrete(3), 4, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("queue", np.int64, (3,)), ("works", np.int64), ("cost", np.float64), ("steps", np.int64)])

    def __init__(self, places: int = 12) -> None:
        self.parameters = Servers(0.4, np.array([0.5, 0.15, 0.07]), places, 0.01, 0.03, 100.0)

    @staticmethod
    def reset(state: Any, parameters: Servers, rng: np.random.Generator) -> None:
        """Begin empty, with servers that work."""
        state.queue[0], state.queue[1], state.queue[2] = 0, 0, 0
        state.works, state.cost, state.steps = 1, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Servers, observation: np.ndarray) -> None:
        """Write the jobs at each server, and whether the first one works."""
        for i in range(3):
            observation[i] = state.queue[i]
        observation[3] = state.works

    @staticmethod
    def step(state: Any, parameters: Servers, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """A job may come; then servers may finish one each; then the first server may fail or work again."""
        cost = 0.0
        if rng.random() < parameters.come:
            if state.queue[action] == parameters.places:
                cost = parameters.turned_away
            else:
                state.queue[action] += 1
        for i in range(3):
            if state.queue[i] > 0 and (i > 0 or state.works == 1) and rng.random() < parameters.service[i]:
                state.queue[i] -= 1
            cost += state.queue[i]
        if rng.random() < (parameters.fails if state.works == 1 else parameters.mends):
            state.works = 1 - state.works
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Servers, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    @staticmethod
    def soonest(state: Any, parameters: Servers, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Send a job where it is finished soonest on average; a repair counts as 20 steps, the best number of them."""
        found, least = 0, 0.0
        for i in range(3):
            wait = (state.queue[i] + 1) / parameters.service[i]
            if i == 0 and state.works == 0:
                wait += 20.0
            if i == 0 or wait < least:
                found, least = i, wait
        return found

    @staticmethod
    def shortest(state: Any, parameters: Servers, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Send a job to the shortest queue, the faster server among equal ones."""
        found = 0
        for i in range(1, 3):
            if state.queue[i] < state.queue[found]:
                found = i
        return found

    heuristics: Mapping[str, Function] = {
        "soonest": soonest.__func__,  # type: ignore[attr-defined]
        "shortest": shortest.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (works, queues)."""
        n = self.parameters.places + 1
        return 2, n, n, n

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((state.works, *state.queue), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.works, *queue = np.unravel_index(row, self.shape())
        state.queue[:] = queue

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        of, shape = self.parameters, self.shape()
        states = np.arange(np.prod(shape))
        works, *queue = np.unravel_index(states, shape)
        parts = []
        for action, comes, done, turns in np.ndindex(3, 2, 8, 2):
            chance = np.full(len(states), of.come if comes else 1.0 - of.come)
            cost = np.where(comes & (queue[action] == of.places), of.turned_away, 0.0)
            after = []
            for i in range(3):
                jobs = np.minimum(queue[i] + (comes & (i == action)), of.places)
                rate = of.service[i] * ((jobs > 0) & ((works == 1) | (i > 0)))
                finished = done >> i & 1
                chance = chance * (rate if finished else 1.0 - rate)
                after.append(np.maximum(jobs - finished, 0))
            rate = np.where(works == 1, of.fails, of.mends)
            chance = chance * (rate if turns else 1.0 - rate)
            to = np.ravel_multi_index((1 - works if turns else works, *after), shape)
            parts.append((states, np.full_like(works, action), to, chance, -cost - sum(after)))
        moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
        start = int(np.ravel_multi_index((1, 0, 0, 0), shape))
        return chain_of_arrays(*moves, (len(states), 3), start, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean cost a step."""
        return best(self.chain(), 1e-6)
