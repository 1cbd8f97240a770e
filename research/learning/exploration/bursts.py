"""A rare and large cost, at once or long after what caused it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of
from research.learning.further_problems import LONG

LEVELS = 21
STAY = np.array([0.5, 0.95])
"""Probabilities that a quiet and a busy time last for another period."""


class Risk(NamedTuple):
    """What the functions of :class:`RareBurst` read.

    Attributes:
        risk: float64[LEVELS], probability of a burst a period, by wear.
        stay: float64[2], :data:`STAY`.
        service: float64[2], cost of a service in a quiet and a busy time.
        burst: cost of a burst.
        delay: periods from a burst to its cost.
    """

    risk: np.ndarray
    stay: np.ndarray
    service: np.ndarray
    burst: float
    delay: int


class RareBurst(Simulator):
    """Wear grows and may end in a burst; a service prevents that, and is cheap in quiet times, which are seldom."""

    action_space, observation_size, max_steps = Discrete(2), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True

    def __init__(self, burst: float = 1e4, most: float = 2e-4, delay: int = 0) -> None:
        risk = most * (np.arange(LEVELS) / (LEVELS - 1.0)) ** 3
        self.parameters = Risk(risk, STAY, np.array([5.0, 22.0]), burst, delay)
        counters = [("wear", np.int64), ("busy", np.int64), ("periods", np.int64), ("cost", np.float64)]
        self.state_dtype = np.dtype([*counters, ("due", np.int64, (delay + 1,))])

    @staticmethod
    def reset(state: Any, parameters: Risk, rng: np.random.Generator) -> None:
        """Begin without wear, in a busy time."""
        state.wear, state.busy, state.periods, state.cost = 0, 1, 0, 0.0
        for i in range(parameters.delay + 1):
            state.due[i] = 0

    @staticmethod
    def observe(state: Any, parameters: Risk, observation: np.ndarray) -> None:
        """Write the wear and whether the time is busy; costs to come are not seen, and change no decision."""
        observation[0], observation[1] = state.wear, state.busy

    @staticmethod
    def step(state: Any, parameters: Risk, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Service or not, then work for a period, and pay."""
        cost, now = 0.0, state.periods % (parameters.delay + 1)
        if action == 1:
            state.wear, cost = 0, parameters.service[state.busy]
        if rng.random() < parameters.risk[state.wear]:
            state.wear = 0
            state.due[(state.periods + parameters.delay) % (parameters.delay + 1)] += 1
        elif rng.random() < 0.5:
            state.wear = min(state.wear + 1, LEVELS - 1)
        if rng.random() >= parameters.stay[state.busy]:
            state.busy = 1 - state.busy
        cost += parameters.burst * state.due[now]
        state.due[now] = 0
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Risk, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    @staticmethod
    def by_wear(state: Any, parameters: Risk, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Service at a wear of 16, whatever the time."""
        return 1 if state.wear >= 16 else 0

    @staticmethod
    def in_quiet_times(state: Any, parameters: Risk, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Service in every quiet time, and never in a busy one."""
        return 1 - state.busy

    heuristics: Mapping[str, Function] = {
        "by_wear": by_wear.__func__,  # type: ignore[attr-defined]
        "in_quiet_times": in_quiet_times.__func__,  # type: ignore[attr-defined]
    }

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(2 * state.wear + state.busy)

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        state.wear, state.busy = divmod(row, 2)

    def chain(self) -> Chain:
        """Return the problem as probabilities; a burst is paid at once, which changes no mean over a long time."""
        risk, stay, service, burst, _ = self.parameters
        moves = []
        for wear, busy, action, to in np.ndindex(LEVELS, 2, 2, 2):
            left, time = (0 if action else wear), stay[busy] if to == busy else 1.0 - stay[busy]
            cost = action * service[busy]
            row, more = 2 * wear + busy, min(left + 1, LEVELS - 1)
            moves.append((row, action, to, time * risk[left], -cost - burst))
            moves += [(row, action, 2 * level + to, time * (1.0 - risk[left]) * 0.5, -cost) for level in (left, more)]
        return chain_of(moves, (2 * LEVELS, 2), 1, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        return best(self.chain(), 1e-9)
