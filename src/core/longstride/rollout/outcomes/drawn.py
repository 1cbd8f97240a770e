"""Further outcomes of each step: what else could have happened after the same action in the same state.

A simulator's state is a record, so a step can be repeated from a copy of it, with random numbers of its own. An update
that takes the mean over such outcomes has less of the simulator's noise in its advantages and in the critic's targets,
and the same expectation. What the policy sees and does is not touched.
"""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from longstride.rollout.streams.generator_addresses import row_of
from longstride.rollout.trajectory import Allocate, Trajectory, allocate_plain
from longstride.seeding import stream

_ENOUGH = 1_000
"""Steps whose outcomes have all been equal to what happened, after which none are drawn any more."""

_ALL_DIFFER, _FEWER = 0.75, 4
"""Share of different observations in a first rollout above which so many times fewer outcomes are drawn: each different
one has to be valued, and real numbers are all different."""


class Drawn(NamedTuple):
    """K further outcomes of T steps."""

    observations: np.ndarray  # float32[T, K, O], after the step
    rewards: np.ndarray  # float32[T, K]
    elapsed: np.ndarray  # float64[T, K], simulated time of the step
    terminated: np.ndarray  # bool[T, K], whether the process ended


def outcome_bytes(size: int) -> int:
    """Return the bytes of an outcome with observation float32[size]."""
    return sum(column.nbytes for column in _columns((1, 1, 1), size, np.empty))


class Outcomes(NamedTuple):
    """What the compiled loop writes them to, for S instances: arrays [S, T, K, ...]."""

    drawn: Drawn
    copies: np.ndarray  # state_dtype[S, 2], a state before its step, and the copy that is played
    generators: Any  # rows of ``generator_addresses.as_generator`` of S instances


def new_outcomes(states: np.ndarray, steps: int = 0, draws: int = 0, size: int = 0) -> Outcomes:
    """Return room for the instances of ``state_dtype``[S], with observations float32[size]; none without draws."""
    columns = _columns((len(states), steps, draws), size, allocate_plain)
    return Outcomes(columns, np.zeros((len(states), 2), states.dtype), np.zeros((len(states), 5), np.int64))


def _columns(shape: tuple[int, ...], size: int, new: Allocate) -> Drawn:
    """Return room for outcomes of a shape such as [S, T, K]."""
    kinds = map(np.dtype, (np.float32, np.float64, np.bool_))
    return Drawn(new((*shape, size), np.dtype(np.float32)), *(new(shape, kind) for kind in kinds))


class InstanceOutcomes:
    """The further outcomes of an environment instance's steps.

    Args:
        seed: seed of the run's random streams.
        index: number of the instance among those of all processes, which names its stream.
        room: for those of a rollout of this one instance.
    """

    def __init__(self, seed: int, index: int, room: Outcomes) -> None:
        self._name, self._room, self._most = (seed, "outcomes", index), room, room.drawn.rewards.shape[2]
        self._rollouts, self._same, self._draws = 0, 0, self._most

    def begun(self) -> Outcomes:
        """Return the room for a rollout, with a random stream of its own."""
        self._columns = Drawn(*(_with_draws(column, self._draws) for column in self._room.drawn))
        if not self._draws:
            return self._room._replace(drawn=self._columns)
        self._rollouts += 1
        self._generator = stream(*self._name, self._rollouts)  # the loop has only its address
        return self._room._replace(drawn=self._columns, generators=row_of(self._generator))

    def ended(self, trajectory: Trajectory) -> Drawn | None:
        """Return what was drawn in a rollout, views that the next one overwrites; None if nothing was."""
        if not self._draws:
            return None
        drawn = Drawn(*(column[0, : trajectory.steps] for column in self._columns))
        if self._same >= 0:
            self._same = self._same + trajectory.steps if _are_same(drawn, trajectory) else -1
        if self._same >= _ENOUGH:
            self._draws = 0
        elif self._rollouts == 1 and share_of_kinds(drawn.observations) > _ALL_DIFFER:
            self._draws = -(-self._most // _FEWER)
        return drawn

    def metadata(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"outcomes": [self._rollouts, self._same, self._draws]} if self._most else {}

    def load(self, metadata: dict[str, Any]) -> None:
        """Continue after :meth:`metadata`."""
        self._rollouts, self._same, draws = metadata.get("outcomes", [0, 0, self._most])
        self._draws = min(draws, self._most)


def _with_draws(column: np.ndarray, draws: int) -> np.ndarray:
    """Return the first of the memory of a column [1, T, K, ...] as one with fewer draws, contiguous as a loop asks."""
    _, steps, _, *rest = column.shape
    return column.reshape(-1)[: steps * draws * prod(rest)].reshape(1, steps, draws, *rest)


def share_of_kinds(observations: np.ndarray) -> float:
    """Return how many of float32[T, K, O] observations differ from each other, as a share."""
    rows = observations.reshape(-1, observations.shape[2])
    return len(np.unique(rows, axis=0)) / max(len(rows), 1)


def _are_same(drawn: Drawn, trajectory: Trajectory) -> bool:
    """Return whether all outcomes are equal to what happened, as those of a simulator without randomness are."""
    pairs = [(getattr(drawn, name), getattr(trajectory, name)) for name in ("rewards", "elapsed", "terminated")]
    within = ~(trajectory.terminated | trajectory.truncated)[:-1]  # later rows belong to another episode
    pairs.append((drawn.observations[:-1][within], trajectory.observations[1:-1][within]))
    return all(bool((several == one[:, None]).all()) for several, one in pairs)
