"""Two crews for two zones: which call to answer, from how far, and where to wait."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of
from research.learning.further_problems import LONG

FREE, EMPTY, CALLED, SERVING = range(4)
"""What a crew does in its zone, or on its way there: wait, move without a call, go to a call, serve."""


class Chances(NamedTuple):
    """What the functions of :class:`Crews` read.

    Attributes:
        calls: float64[2], probability of a call of each zone a step.
        arrive: probability that a crew that comes from the other zone arrives in a step.
        finish: probability that a service ends in a step.
        places: calls of a zone that wait; further ones are lost, at ``lost`` each.
        lost: cost of a lost call.
    """

    calls: np.ndarray
    arrive: float
    finish: float
    places: int
    lost: float


class Crews(Simulator):
    """A call costs 1 a step until a crew has arrived. Action 0 waits, 1 + 2 c + z sends crew c to zone z."""

    action_space, observation_size, max_steps = Discrete(5), 18, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype(
        [
            ("does", np.int64, (2,)),
            ("zone", np.int64, (2,)),
            ("calls", np.int64, (2,)),
            ("cost", np.float64),
            ("steps", np.int64),
        ]
    )

    def __init__(self, places: int = 4) -> None:
        self.parameters = Chances(np.array([0.13, 0.09]), 0.2, 0.3, places, 20.0)

    @staticmethod
    def reset(state: Any, parameters: Chances, rng: np.random.Generator) -> None:
        """Begin with both crews free in the first zone."""
        for i in range(2):
            state.does[i], state.zone[i], state.calls[i] = FREE, 0, 0
        state.cost, state.steps = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Chances, observation: np.ndarray) -> None:
        """Write what each crew does and where, and the calls that wait."""
        for i in range(2):
            observation[8 * i + 4 * state.zone[i] + state.does[i]] = 1.0
            observation[16 + i] = state.calls[i]

    @staticmethod
    def step(state: Any, parameters: Chances, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Send a free crew, then let a step pass."""
        if action > 0:
            crew, zone = (action - 1) // 2, (action - 1) % 2
            if state.does[crew] == FREE:
                near = state.zone[crew] == zone
                if state.calls[zone] > 0:
                    state.calls[zone] -= 1
                    state.does[crew] = SERVING if near else CALLED
                elif not near:
                    state.does[crew] = EMPTY
                state.zone[crew] = zone
        cost = 0.0
        for i in range(2):
            u = rng.random()
            if state.does[i] == SERVING:
                state.does[i] = FREE if u < parameters.finish else SERVING
            elif state.does[i] == CALLED:
                cost += 1.0
                state.does[i] = SERVING if u < parameters.arrive else CALLED
            elif state.does[i] == EMPTY:
                state.does[i] = FREE if u < parameters.arrive else EMPTY
        for i in range(2):
            cost += state.calls[i]
            if rng.random() < parameters.calls[i]:
                if state.calls[i] < parameters.places:
                    state.calls[i] += 1
                else:
                    cost += parameters.lost
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Chances, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    @staticmethod
    def nearest(state: Any, parameters: Chances, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Answer a call of the same zone first, then of the other one; never move without a call."""
        for far in range(2):
            for crew in range(2):
                zone = state.zone[crew] if far == 0 else 1 - state.zone[crew]
                if state.does[crew] == FREE and state.calls[zone] > 0:
                    return 1 + 2 * crew + zone
        return 0

    heuristics: Mapping[str, Function] = {"nearest": nearest.__func__}  # type: ignore[attr-defined]

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (what each crew does, zone of each, calls of each zone)."""
        places = self.parameters.places + 1
        return 4, 4, 2, 2, places, places

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((*state.does, *state.zone, *state.calls), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        a, b, c, d, e, f = np.unravel_index(row, self.shape())
        state.does[:], state.zone[:], state.calls[:] = (a, b), (c, d), (e, f)

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        moves, size = [], int(np.prod(self.shape()))
        for row, action in np.ndindex(size, 5):
            moves += [(row, action, *move) for move in self._moves(row, action)]
        return chain_of(moves, (size, 5), 0, LONG, -1.0)

    def _moves(self, row: int, action: int) -> Iterator[tuple[int, float, float]]:
        """Yield number of the state after, probability and reward of what an action may lead to."""
        p = self.parameters
        *rest, c, d, e, f = np.unravel_index(row, self.shape())
        does, zone, calls = [int(x) for x in rest], [int(c), int(d)], [int(e), int(f)]
        if action and does[crew := (action - 1) // 2] == FREE:
            target = (action - 1) % 2
            near = zone[crew] == target
            if calls[target]:
                calls[target] -= 1
                does[crew] = SERVING if near else CALLED
            elif not near:
                does[crew] = EMPTY
            zone[crew] = target
        ends = {FREE: (FREE, 0.0), EMPTY: (FREE, p.arrive), CALLED: (SERVING, p.arrive), SERVING: (FREE, p.finish)}
        for end0, end1, call0, call1 in np.ndindex(2, 2, 2, 2):
            chance, after, left, cost = 1.0, list(does), list(calls), float(sum(calls) + does.count(CALLED))
            for i, end in enumerate((end0, end1)):
                to, probability = ends[does[i]]
                chance *= probability if end else 1.0 - probability
                after[i] = to if end else does[i]
            for i, call in enumerate((call0, call1)):
                chance *= p.calls[i] if call else 1.0 - p.calls[i]
                if call and left[i] == p.places:
                    cost += p.lost
                elif call:
                    left[i] += 1
            if chance > 0.0:
                yield int(np.ravel_multi_index((*after, *zone, *left), self.shape())), chance, -cost

    def optimum(self) -> float:
        """Return the lowest mean cost a step."""
        return best(self.chain())
