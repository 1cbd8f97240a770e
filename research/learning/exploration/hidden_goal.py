"""A prize behind one of four doors: listening costs a little and may mislead, opening the wrong door costs much."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete
from research.learning.exploration.chain import Chain, best, chain_of_arrays
from research.learning.further_problems import LONG


class Doors(NamedTuple):
    """What the functions of :class:`HiddenGoal` read.

    Attributes:
        truth: probability that listening names the right door; otherwise it names each other one equally often.
        stays: probability that the next prize is behind the same door; otherwise behind each other one equally often.
        listening: cost of listening.
        prize: reward of the right door.
        wrong: cost of a wrong door.
        patience: times of listening after which the doors are opened without a prize.
    """

    truth: float
    stays: float
    listening: float
    prize: float
    wrong: float
    patience: int


class HiddenGoal(Simulator):
    """Listen (0), or open a door (1 to 4); then the prize is shown, and the next one is hidden.

    What is believed follows from the last place that was shown and how often each door was named since. Four doors
    instead of the two of Kaelbling, Littman and Cassandra, "Planning and acting in partially observable stochastic
    domains" (1998).
    """

    action_space, observation_size, max_steps = Discrete(5), 8, LONG
    metrics_dtype = np.dtype([("reward", np.float64)])
    main_metric, main_metric_lower_is_better = "reward", False
    state_dtype = np.dtype(
        [
            ("hidden", np.int64),
            ("shown", np.int64),
            ("named", np.int64, (4,)),
            ("reward", np.float64),
            ("steps", np.int64),
        ]
    )

    def __init__(self, patience: int = 10) -> None:
        self.parameters = Doors(0.6, 0.4, 0.5, 10.0, 20.0, patience)

    @staticmethod
    def reset(state: Any, parameters: Doors, rng: np.random.Generator) -> None:
        """Begin after the prize was shown behind the first door."""
        state.shown, state.reward, state.steps = 0, 0.0, 0
        for i in range(4):
            state.named[i] = 0
        state.hidden = 0 if rng.random() < parameters.stays else rng.integers(1, 4)

    @staticmethod
    def observe(state: Any, parameters: Doors, observation: np.ndarray) -> None:
        """Write how often each door was named, and mark the one that the last prize was behind."""
        for i in range(4):
            observation[i] = state.named[i]
        observation[4 + state.shown] = 1.0

    @staticmethod
    def step(state: Any, parameters: Doors, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Listen or open; after an opening, or if the patience is at an end, the prize is shown and another hidden."""
        times = 1
        for i in range(4):
            times += state.named[i]
        if action == 0:
            reward = -parameters.listening
            right = rng.random() < parameters.truth
            state.named[state.hidden if right else (state.hidden + rng.integers(1, 4)) % 4] += 1
        else:
            reward = parameters.prize if action - 1 == state.hidden else -parameters.wrong
        if action > 0 or times >= parameters.patience:
            state.shown = state.hidden
            for i in range(4):
                state.named[i] = 0
            if rng.random() >= parameters.stays:
                state.hidden = (state.hidden + rng.integers(1, 4)) % 4
        state.reward += reward
        state.steps += 1
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Doors, metrics: Any) -> None:
        """Write the mean reward."""
        metrics.reward = state.reward / max(1, state.steps)

    @staticmethod
    def ahead(state: Any, parameters: Doors, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Open a door that was named two times more often than any other; otherwise listen."""
        for i in range(4):
            others = 0
            for j in range(4):
                others = max(others, state.named[j] if j != i else 0)
            if state.named[i] >= others + 2:
                return i + 1
        return 0

    @staticmethod
    def named_often(state: Any, parameters: Doors, mask: np.ndarray, rng: np.random.Generator) -> int:
        """Open a door that was named three times; otherwise listen."""
        for i in range(4):
            if state.named[i] >= 3:
                return i + 1
        return 0

    heuristics: Mapping[str, Function] = {
        "ahead": ahead.__func__,  # type: ignore[attr-defined]
        "named_often": named_often.__func__,  # type: ignore[attr-defined]
    }

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of (door that was shown, times that each was named)."""
        return 4, *[self.parameters.patience] * 4

    def row(self, state: Any) -> int:
        """Return the number of what is observed."""
        return int(np.ravel_multi_index((state.shown, *state.named), self.shape()))

    def write(self, state: Any, row: int) -> None:
        """Write what is observed with a number."""
        state.shown, *named = np.unravel_index(row, self.shape())
        state.named[:] = named

    def chain(self) -> Chain:
        """Return the problem as probabilities."""
        of, shape = self.parameters, self.shape()
        states = np.arange(np.prod(shape))
        shown, *named = np.unravel_index(states, shape)
        other = (1.0 - of.truth) / 3.0
        belief = [
            np.where(shown == i, of.stays, (1.0 - of.stays) / 3.0) * (of.truth / other) ** named[i] for i in range(4)
        ]
        belief = [share / sum(belief) for share in belief]
        ends, empty = sum(named) + 1 >= of.patience, [np.zeros_like(shown)] * 4
        parts = []

        def add(action: int, to: Any, chance: np.ndarray, reward: float) -> None:
            rows = np.ravel_multi_index(to, shape)
            parts.append((states, np.full_like(shown, action), rows, chance, np.full(len(states), reward)))

        for door in range(4):
            place = np.full_like(shown, door)
            more = [np.where(ends, 0, named[i] + (i == door)) for i in range(4)]
            heard = other + (of.truth - other) * belief[door]
            add(0, (np.where(ends, place, shown), *more), np.where(ends, belief[door], heard), -of.listening)
            for action in range(1, 5):
                add(action, (place, *empty), belief[door], of.prize if action - 1 == door else -of.wrong)
        moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return chain_of_arrays(*moves, (len(states), 5), 0, LONG, 1.0)

    def optimum(self) -> float:
        """Return the largest mean reward of a policy that knows what is observed."""
        return best(self.chain())
