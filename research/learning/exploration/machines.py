"""Machines whose faults nobody sees or that seldom cost anything."""

from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of
from research.learning.further_problems import LONG


class Condition(NamedTuple):
    """What the functions of :class:`HiddenMachine` read; conditions are numbered, 0 is good.

    Attributes:
        wear: float64[conditions, conditions], probabilities of the condition after a period of work.
        running: float64[conditions], cost of a period of work.
        inspection: cost of an inspection, which shows the condition.
        repairs: float64[repairs], cost of each repair, which shows the condition after it.
        after: int64[repairs, conditions], condition after each repair.
        ages: periods that are told apart since the machine was last seen; by then it is as bad as it becomes.
    """

    wear: np.ndarray
    running: np.ndarray
    inspection: float
    repairs: np.ndarray
    after: np.ndarray
    ages: int


DETERIORATION = Condition(
    np.diag([0.97, 0.97, 0.97, 1.0]) + np.diag([0.03] * 3, 1),
    np.array([0.0, 2.0, 4.0, 6.0]),
    12.0,
    np.array([190.0]),
    np.zeros((1, 4), np.int64),
    600,
)
"""Three steps from good to failed; a replacement makes it good."""

FAULTS = Condition(
    np.array([[0.955, 0.02, 0.015, 0.01], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
    np.array([0.0, 3.0, 5.0, 9.0]),
    6.0,
    np.array([30.0, 45.0, 60.0]),
    np.array([[0, 0, 2, 3], [0, 1, 0, 3], [0, 1, 2, 0]]),
    200,
)
"""Three kinds of faults, one at a time, each with a repair of its own; the wrong one changes nothing."""


class HiddenMachine(Simulator):
    """A machine changes unseen: work, inspect it, or repair it; only what was seen last, and when, is observed."""

    max_steps = LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype(
        [("hidden", np.int64), ("seen", np.int64), ("since", np.int64), ("cost", np.float64), ("periods", np.int64)]
    )

    def __init__(self, condition: Condition = DETERIORATION) -> None:
        self.parameters, conditions = condition, len(condition.running)
        self.action_space, self.observation_size = Discrete(2 + len(condition.repairs)), conditions + 1
        self.heuristics = {"by_age": _by_age} if len(condition.repairs) == 1 else {"round": _round}

    @staticmethod
    def reset(state: Any, parameters: Condition, rng: np.random.Generator) -> None:
        """Begin with a machine that is known to be good."""
        state.hidden, state.seen, state.since, state.cost, state.periods = 0, 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Condition, observation: np.ndarray) -> None:
        """Mark the condition that was seen last, and write the periods of work since."""
        observation[state.seen], observation[len(parameters.running)] = 1.0, state.since

    @staticmethod
    def step(state: Any, parameters: Condition, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Work for a period, or look, or repair and look."""
        if action == 0:
            cost = parameters.running[state.hidden]
            u, after = rng.random(), 0
            while after < len(parameters.running) - 1 and u >= parameters.wear[state.hidden, after]:
                u -= parameters.wear[state.hidden, after]
                after += 1
            state.hidden, state.since = after, min(state.since + 1, parameters.ages)
        else:
            cost = parameters.inspection
            if action >= 2:
                cost = parameters.repairs[action - 2]
                state.hidden = parameters.after[action - 2, state.hidden]
            state.seen, state.since = state.hidden, 0
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Condition, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    def row(self, state: Any) -> int:
        """Return the number of what is observed, which decides what is believed."""
        return int(state.seen * (self.parameters.ages + 1) + state.since)

    def write(self, state: Any, row: int) -> None:
        """Write what is observed with a number."""
        state.seen, state.since = divmod(row, self.parameters.ages + 1)

    def chain(self) -> Chain:
        """Return the problem as probabilities: the belief follows from what was seen last and when."""
        wear, running, inspection, repairs, after, ages = self.parameters
        moves, conditions, block = [], len(running), ages + 1
        for seen in range(conditions):
            belief = np.eye(conditions)[seen]
            for since in range(block):
                row = seen * block + since
                moves.append((row, 0, seen * block + min(since + 1, ages), 1.0, -float(belief @ running)))
                for condition, chance in enumerate(belief):
                    moves.append((row, 1, condition * block, chance, -inspection))
                    for repair, cost in enumerate(repairs):
                        moves.append((row, 2 + repair, after[repair, condition] * block, chance, -cost))
                belief = belief @ wear
        return chain_of(moves, (conditions * block, 2 + len(repairs)), 0, LONG, -1.0)

    def optimum(self) -> float:
        """Return the lowest mean cost a period of a policy that knows what was seen last and when."""
        return best(self.chain())


def _by_age(state: Any, parameters: Condition, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Replace after 95 periods of work, the best age without inspections."""
    return 2 if state.since >= 95 else 0


def _round(state: Any, parameters: Condition, mask: np.ndarray, rng: np.random.Generator) -> int:
    """Inspect every 12 periods, and repair what is seen."""
    if state.seen > 0:
        return 1 + state.seen
    return 1 if state.since >= 12 else 0
