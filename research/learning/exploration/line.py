"""A line of two machines with a buffer between them, which wear, fail, and share one repairer."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of
from research.learning.further_problems import LONG

FAILED = 5
"""Condition of a machine that has failed; 0 is new."""


class Line(NamedTuple):
    """What the functions of :class:`RepairedLine` read.

    Attributes:
        wear: probability that a machine that works wears by a level.
        failure: float64[FAILED], probability that it fails, by condition.
        done: float64[2], probability that a step of care makes a machine new: before and after a failure.
        care: float64[2], cost of a step of care, likewise.
        places: parts that the buffer holds.
    """

    wear: float
    failure: np.ndarray
    done: np.ndarray
    care: np.ndarray
    places: int


class RepairedLine(Simulator):
    """Send the repairer to neither machine, the first or the second; a machine in care makes nothing."""

    action_space, observation_size, max_steps = Discrete(3), 3, LONG
    metrics_dtype = np.dtype([("profit", np.float64)])
    main_metric, main_metric_lower_is_better = "profit", False
    state_dtype = np.dtype(
        [("condition", np.int64, (2,)), ("buffer", np.int64), ("profit", np.float64), ("steps", np.int64)]
    )

    def __init__(self, places: int = 6) -> None:
        failure = np.array([0.0, 0.002, 0.01, 0.03, 0.08])
        self.parameters = Line(0.08, failure, np.array([0.6, 0.08]), np.array([0.6, 1.5]), places)

    @staticmethod
    def reset(state: Any, parameters: Line, rng: np.random.Generator) -> None:
        """Begin with new machines and an empty buffer."""
        state.condition[0], state.condition[1], state.buffer, state.profit, state.steps = 0, 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Line, observation: np.ndarray) -> None:
        """Write the conditions and the buffer."""
        observation[0], observation[1], observation[2] = state.condition[0], state.condition[1], state.buffer

    @staticmethod
    def step(state: Any, parameters: Line, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Care; then the second machine takes a part, which is sold, and the first one makes one, if there is room."""
        profit = 0.0
        for i in (1, 0):
            failed = 1 if state.condition[i] == FAILED else 0
            chance = rng.random()
            if action == i + 1:
                profit -= parameters.care[failed]
                if chance < parameters.done[failed]:
                    state.condition[i] = 0
            elif failed == 0 and (state.buffer > 0 if i == 1 else state.buffer < parameters.places):
                if i == 1:
                    state.buffer, profit = state.buffer - 1, profit + 1.0
                else:
                    state.buffer += 1
                if chance < parameters.failure[state.condition[i]]:
                    state.condition[i] = FAILED
                elif chance < parameters.failure[state.condition[i]] + parameters.wear:
                    state.condition[i] = min(state.condition[i] + 1, FAILED - 1)
        state.profit += profit
        state.steps += 1
        return profit, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Line, metrics: Any) -> None:
        """Write the mean profit a step."""
        metrics.profit = state.profit / max(1, state.steps)

    @staticmethod
    def failed_first(state: Any, parameters: Line, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Repair what has failed, the second machine first, and nothing else."""
        if state.condition[1] == FAILED:
            return 2
        return 1 if state.condition[0] == FAILED else 0

    @staticmethod
    def by_wear(state: Any, parameters: Line, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Care for the machine that is worn most, from a condition of 3 on."""
        worst = 0 if state.condition[0] > state.condition[1] else 1
        return worst + 1 if state.condition[worst] >= 3 else 0

    heuristics: Mapping[str, Function] = {
        "failed_first": failed_first.__func__,  # type: ignore[attr-defined]
        "by_wear": by_wear.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (conditions, buffer)."""
        return FAILED + 1, FAILED + 1, self.parameters.places + 1

    def row(self, state: Any) -> int:
        """Return the number of a state."""
        return int(np.ravel_multi_index((*state.condition, state.buffer), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write the state of a number."""
        *condition, state.buffer = np.unravel_index(row, self.shape())
        state.condition[:] = condition

    def _after(self, condition: int, cared_for: bool, works: bool) -> list[tuple[int, float]]:
        """Return the conditions of a machine after a step with their probabilities."""
        of, failed = self.parameters, int(condition == FAILED)
        if cared_for:
            return [(0, of.done[failed]), (condition, 1.0 - of.done[failed])]
        if not works:
            return [(condition, 1.0)]
        fails = of.failure[condition]
        return [(FAILED, fails), (min(condition + 1, FAILED - 1), of.wear), (condition, 1.0 - fails - of.wear)]

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        of, moves, shape = self.parameters, list[tuple[int, int, int, float, float]](), self.shape()
        for one, two, buffer, action in np.ndindex(*shape, 3):
            takes = action != 2 and two < FAILED and buffer > 0
            makes = action != 1 and one < FAILED and buffer - takes < of.places
            gain = float(takes) - (of.care[int((one, two)[action - 1] == FAILED)] if action else 0.0)
            row = int(np.ravel_multi_index((one, two, buffer), shape))
            for first, chance in self._after(one, action == 1, makes):
                for second, other in self._after(two, action == 2, takes):
                    to = int(np.ravel_multi_index((first, second, buffer - takes + makes), shape))
                    moves.append((row, action, to, chance * other, gain))
        return chain_of(moves, (int(np.prod(shape)), 3), 0, LONG, 1.0)

    def optimum(self) -> float:
        """Return the highest mean profit a step."""
        return best(self.chain(), 1e-9)
