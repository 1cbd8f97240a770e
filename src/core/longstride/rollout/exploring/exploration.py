"""Which instances begin from archived states, and what they and the others add to the archive."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from longstride.rollout.exploring.archive import Archive, ArchivedState, Findings
from longstride.rollout.exploring.finds import CELLS, NONE, Finds, count_visits, new_finds
from longstride.rollout.exploring.reach import Reach
from longstride.rollout.trajectory import Trajectory
from longstride.seeding import stream

SHORT, LONG = 8, 64
"""Steps from an archived state on until another one is drawn, by turns of the instances that explore. Short ones look
at what many states are worth; in long ones the policy soon is where it always is. But a critic learns from long ones
what a rare state costs in the end: after short ones its targets build on its own values of states that are as rare."""

_PREFIX = "rollout.exploring."

_PARTS = 8
"""Parts of a rollout whose rewards and ages are compared."""


class Played(NamedTuple):
    """What an instance played in a rollout."""

    number: int  # of the instance among those of all processes
    trajectory: Trajectory
    age: int  # steps of its episode at the end of the rollout
    finds: Finds


class Sample(NamedTuple):
    """The mean reward of natural episodes at an age."""

    age: float
    reward: float


class Part(NamedTuple):
    """What the instances of a process add."""

    findings: Findings
    samples: list[Sample]


class Exploring(Protocol):
    """What a collector asks about exploring starts."""

    @property
    def oldest(self) -> int:
        """Steps after which episodes are given up between two rollouts."""

    @property
    def reach(self) -> float:
        """The same as a share of the whole length of an episode."""

    @property
    def runs_away(self) -> bool:
        """Whether the episodes that play on beyond that have to be given up, too."""

    def explores(self, index: int) -> bool:
        """Return whether an instance makes excursions from archived states in this rollout."""

    def steps(self, index: int) -> int:
        """Return the most steps of an excursion of an instance."""

    def finds(self, states: np.ndarray) -> Finds:
        """Return the places for what instances of ``state_dtype``[S] find."""

    def starts(self, index: int) -> Iterator[ArchivedState]:
        """Yield the states from which an instance begins its excursions in a rollout, without end."""

    def part(self, played: Iterable[Played], actor_params: np.ndarray) -> Part | None:
        """Return what some instances add after a rollout; None where nothing is explored."""

    def learn(self, parts: Sequence[Part | None], terminated: bool) -> None:
        """Include the parts of all processes; episodes may have been terminated, and not cut."""

    def forget(self) -> None:
        """Forget all states: their cells are those of other scales, and their episodes those of a policy long gone."""

    def rare_states(self, count: int) -> np.ndarray:
        """Return at most so many archived states, ``state_dtype``[n], rarely visited ones more often than others."""

    def take_lines(self) -> list[str]:
        """Return sentences for the user."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned, among others."""


class NoExploring:
    """All instances begin naturally."""

    runs_away, reach = False, 1.0

    def __init__(self, restart_after: int, state_dtype: np.dtype) -> None:
        self._oldest, self._dtype = restart_after, state_dtype

    @property
    def oldest(self) -> int:
        """Steps after which episodes are given up between two rollouts."""
        return self._oldest

    def explores(self, index: int) -> bool:
        """Return False."""
        return False

    def steps(self, index: int) -> int:
        """Return 0."""
        return 0

    def finds(self, states: np.ndarray) -> Finds:
        """Return no places."""
        return new_finds(states)

    def starts(self, index: int) -> Iterator[ArchivedState]:
        """Return nothing."""
        return iter(())

    def part(self, played: Iterable[Played], actor_params: np.ndarray) -> None:
        """Return nothing."""

    def learn(self, parts: Sequence[Part | None], terminated: bool) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""

    def rare_states(self, count: int) -> np.ndarray:
        """Return no states."""
        return np.empty(0, self._dtype)

    def take_lines(self) -> list[str]:
        """Return nothing."""
        return []

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing."""
        return {}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Do nothing."""


NO_EXPLORING: Exploring = NoExploring(0, np.dtype(np.uint8))
"""That of collectors which never make excursions."""


class Exploration:
    """Excursions of every n-th instance.

    Attributes:
        oldest: steps after which episodes are given up between two rollouts.
    """

    def __init__(self, seed: int, every: int, restart_after: int, state_dtype: np.dtype) -> None:
        self._seed, self._every, self._dtype = seed, every, state_dtype
        self._archive, self._reach = Archive(state_dtype), Reach(restart_after)
        self._rollouts, self._limit = 0, np.array([self._reach.now], np.int64)

    @property
    def oldest(self) -> int:
        """Steps after which episodes are given up between two rollouts."""
        return self._reach.now

    @property
    def reach(self) -> float:
        """The same as a share of the whole length of an episode."""
        return self._reach.now / self._reach.whole

    @property
    def runs_away(self) -> bool:
        """Whether the episodes that play on beyond that have to be given up, too."""
        return self._reach.runs_away

    def explores(self, index: int) -> bool:
        """Return whether an instance makes excursions: every n-th does once something is archived."""
        return index % self._every == 1 and len(self._archive) > 0

    def steps(self, index: int) -> int:
        """Return the most steps of an excursion of an instance: the first one that explores makes long ones."""
        return SHORT if index // self._every % 2 else LONG

    def finds(self, states: np.ndarray) -> Finds:
        """Return the places for what instances of ``state_dtype``[S] find."""
        return new_finds(states, self._archive.visits, self._limit)

    def starts(self, index: int) -> Iterator[ArchivedState]:
        """Yield the states from which an instance begins its excursions in a rollout, without end."""
        return self._archive.draws(stream(self._seed, "exploring", index, self._rollouts))

    def part(self, played: Iterable[Played], actor_params: np.ndarray) -> Part:
        """Return what some instances add after a rollout, and free their places."""
        visits, states, samples = np.zeros(CELLS, np.float32), list[Finds](), list[Sample]()
        for each in played:
            count_visits(each.trajectory.observations, actor_params, visits)
            states.append(each.finds)
            if not self.explores(each.number):
                samples += _samples(each)
        used = [each.cells[0] != NONE for each in states]
        columns = [
            np.concatenate([getattr(each, name)[0][taken] for each, taken in zip(states, used, strict=True)])
            for name in ("cells", "ages", "states")
        ]
        for finds in states:
            finds.rarity.fill(np.inf)
            finds.cells.fill(NONE)
        return Part(Findings(visits, *columns), samples)

    def learn(self, parts: Sequence[Part | None], terminated: bool) -> None:
        """Include the parts of all processes; where episodes are terminated, they are not given up."""
        known = [part for part in parts if part is not None]
        self._archive.learn(part.findings for part in known)
        if not terminated:
            self._reach.learn(sample for part in known for sample in part.samples)
        self._rollouts += 1
        self._limit[0] = np.iinfo(np.int64).max if terminated else self._reach.now
        self._archive.drop_older(self._limit.item())

    def forget(self) -> None:
        """Forget all states: their cells are those of other scales, and their episodes those of a policy long gone."""
        self._archive.clear()

    def rare_states(self, count: int) -> np.ndarray:
        """Return at most so many different archived states, ``state_dtype``[n], rarely visited ones most likely."""
        drawn = islice(self._archive.draws(stream(self._seed, "draws of rare states", self._rollouts)), 4 * count)
        found = {id(each): each.state for each in drawn} if len(self._archive) else {}
        return np.array(list(found.values())[:count], self._dtype)

    def take_lines(self) -> list[str]:
        """Return a sentence where the policy does not keep up."""
        line = self._reach.take_line()
        return [] if line is None else [line]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        numbers = {"numbers": np.array([self._rollouts, self._limit[0]], np.int64)}
        arrays = self._archive.arrays() | self._reach.arrays() | numbers
        return {f"{_PREFIX}{name}": array for name, array in arrays.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned, among others."""
        own = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        self._archive.restore(own)
        self._reach.restore(own)
        self._rollouts, self._limit[0] = own.get("numbers", np.array([0, self._reach.now])).tolist()


def exploring_of(seed: int, every: int, restart_after: int, state_dtype: np.dtype) -> Exploring:
    """Return how the instances of a run explore: one of ``every`` of them, or none where that is 0."""
    return Exploration(seed, every, restart_after, state_dtype) if every else NoExploring(restart_after, state_dtype)


def _samples(played: Played) -> list[Sample]:
    """Return mean rewards of the parts of a rollout in which one episode went on; nothing of others."""
    steps = played.trajectory.steps
    size = steps // _PARTS
    if size == 0 or played.age < steps:
        return []
    means = played.trajectory.rewards[: size * _PARTS].reshape(_PARTS, size).mean(axis=1, dtype=np.float64)
    return [Sample(played.age - steps + (k + 0.5) * size, float(mean)) for k, mean in enumerate(means)]
