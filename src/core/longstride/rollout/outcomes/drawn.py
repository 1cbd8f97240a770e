"""Further outcomes of each step: what else could have happened after the same action in the same state.

A simulator's state is a record, so a step can be repeated from a copy of it, with random numbers of its own. An update
that takes the mean over such outcomes has less of the simulator's noise in its advantages and in the critic's targets,
and the same expectation. What the policy sees and does is not touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import OutcomeError, SimulatorError
from longstride.rollout.streams.generator_addresses import row_of
from longstride.rollout.trajectory import Allocate, Trajectory, allocate_plain
from longstride.seeding import stream

_ENOUGH = 1_000
"""Steps whose outcomes have all been equal to what happened, after which none are drawn any more."""

_ALL_DIFFER = 0.75
"""Share of different observations in a first rollout above which fewer outcomes are drawn: each different one has to be
valued, and real numbers are all different."""

_ALL, _FEWER, _NONE = 1, 4, 0
"""One outcome is drawn of so many in the plan; 0 for none."""

ROOM = 256 << 20
"""Bytes for the outcomes of all instances of a process."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Drawn(NamedTuple):
    """K further outcomes of T steps."""

    observations: np.ndarray  # float32[T, K, O], after the step
    rewards: np.ndarray  # float32[T, K]
    elapsed: np.ndarray  # float64[T, K], simulated time of the step
    terminated: np.ndarray  # bool[T, K], whether the process ended


class Outcomes(NamedTuple):
    """What the compiled loop writes them to, for S instances: arrays [S, T, K, ...]."""

    drawn: Drawn
    copies: np.ndarray  # state_dtype[S, 2], a state before its step, and the copy that is played; [S, 0] without draws
    generators: Any  # rows of ``generator_addresses.as_generator`` of S instances
    drawing: np.ndarray  # bool[1], whether an outcome is being drawn: a fault is its own


def new_outcomes(states: np.ndarray, steps: int = 0, draws: int = 0, size: int = 0) -> Outcomes:
    """Return room for the instances of ``state_dtype``[S], with observations float32[size]; none without draws."""
    columns = _columns((len(states), steps, draws), size, allocate_plain)
    copies = np.zeros((len(states), 2 if draws else 0), states.dtype)
    return Outcomes(columns, copies, np.zeros((len(states), 5), np.int64), np.zeros(1, np.bool_))


def _columns(shape: tuple[int, ...], size: int, new: Allocate) -> Drawn:
    """Return room for outcomes of a shape such as [S, T, K]."""
    kinds = map(np.dtype, (np.float32, np.float64, np.bool_))
    return Drawn(new((*shape, size), np.dtype(np.float32)), *(new(shape, kind) for kind in kinds))


def outcome_bytes(size: int) -> int:
    """Return the bytes of an outcome with observation float32[size]."""
    return sum(column.nbytes for column in _columns((1, 1, 1), size, np.empty))


class InstanceOutcomes:
    """The further outcomes of an environment instance's steps.

    Args:
        seed: seed of the run's random streams.
        index: number of the instance among those of all processes, which names its stream.
        draws: outcomes of each step, if there is room; 0 for none.
        states: ``state_dtype``[1].
        size: of an observation.
        steps: most steps of a rollout.
        instances: how many share the memory.
    """

    def __init__(
        self, seed: int, index: int, draws: int, states: np.ndarray, size: int, steps: int, instances: int
    ) -> None:
        most = min(draws * steps, ROOM // (outcome_bytes(size) * instances))
        self._name, self._most, self._room = (seed, "outcomes", index), draws, new_outcomes(states, 1, most, size)
        self._rollouts, self._same, self._one_of = 0, 0, _ALL

    def begun(self, steps: int, draws: bool) -> Outcomes:
        """Return the room for a rollout of so many steps, with a random stream of its own; for none unless it draws."""
        asked = -(-self._most // self._one_of) if self._one_of and draws else 0
        count = min(asked, self._room.drawn.rewards.size // steps)
        self._columns = Drawn(*(_with_draws(column, steps, count) for column in self._room.drawn))
        if not count:
            return self._room._replace(drawn=self._columns)
        self._rollouts += 1
        self._generator = stream(*self._name, self._rollouts)  # the loop has only its address
        return self._room._replace(drawn=self._columns, generators=row_of(self._generator))

    def ended(self, trajectory: Trajectory) -> Drawn | None:
        """Return what was drawn in a rollout, views that the next one overwrites; None if nothing was."""
        if not self._columns.rewards.size:
            return None
        drawn = Drawn(*(column[0, : trajectory.steps] for column in self._columns))
        if self._same >= 0:
            self._same = self._same + trajectory.steps if _are_same(drawn, trajectory) else -1
        if self._same >= _ENOUGH:
            self._one_of = _NONE
        elif self._rollouts == 1 and share_of_kinds(drawn.observations) > _ALL_DIFFER:
            self._one_of = _FEWER
        return drawn

    @contextmanager
    def naming_faults(self) -> Iterator[None]:
        """Say of a fault that the episode does not have it, if it is that of a further outcome."""
        self._room.drawing[0] = False
        try:
            yield
        except SimulatorError as error:
            if not self._room.drawing[0]:
                raise
            raise OutcomeError(
                f"{str(error).rstrip('.')}. This step was repeated with other random numbers, so the episode "
                "itself does not show the fault; OUTCOME_DRAWS = 0 repeats no step."
            ) from error

    def metadata(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"outcomes": [self._rollouts, self._same, self._one_of]} if self._most else {}

    def load(self, metadata: dict[str, Any]) -> None:
        """Continue after :meth:`metadata`."""
        self._rollouts, self._same, self._one_of = metadata.get("outcomes", [0, 0, _ALL])


def _with_draws(column: np.ndarray, steps: int, draws: int) -> np.ndarray:
    """Return the first of the memory of a column [1, 1, n, ...] as [1, T, K, ...], contiguous as a loop asks."""
    rest = column.shape[3:]
    return column.reshape(-1)[: steps * draws * prod(rest)].reshape(1, steps, draws, *rest)


def hashes_of(rows: np.ndarray) -> np.ndarray:
    """Return uint64[n], equal for rows of float32[n, O] with equal bits, and hardly for others."""
    found = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows).view(np.uint32).T:
        found ^= column
        found *= _ODD
        found ^= found >> np.uint64(32)
    return found


def share_of_kinds(observations: np.ndarray) -> float:
    """Return how many of float32[T, K, O] observations differ from each other, as a share."""
    rows = observations.reshape(-1, observations.shape[2])
    return len(np.unique(hashes_of(rows))) / max(len(rows), 1)


def _are_same(drawn: Drawn, trajectory: Trajectory) -> bool:
    """Return whether all outcomes are equal to what happened, as those of a simulator without randomness are."""
    pairs = [(getattr(drawn, name), getattr(trajectory, name)) for name in ("rewards", "elapsed", "terminated")]
    within = ~(trajectory.terminated | trajectory.truncated)[:-1]  # later rows belong to another episode
    pairs.append((drawn.observations[:-1][within], trajectory.observations[1:-1][within]))
    return all(bool((several == one[:, None]).all()) for several, one in pairs)
