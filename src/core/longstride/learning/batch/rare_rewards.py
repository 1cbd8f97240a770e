"""Rare large rewards, such as the cost of a breakdown: an update learns from their mean in like situations.

Such a reward comes once in many rollouts. It decides the advantages of those with it and is missing in all others, and
the clipped ratio of PPO lets it change the policy no more than a small one. Its mean, given observation and action,
changes nothing that is expected, and takes the noise away (Romoff et al., "Reward estimation for variance reduction in
deep reinforcement learning", arXiv 1805.03359). It is the mean over all steps of the run, whatever policy made them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from longstride.learning.batch.mean_outcomes import mean_rewards, rewards_of, with_mean_rewards
from longstride.learning.distributed.ranks import ALONE, Ranks, flattened
from longstride.rollout.outcomes.drawn import Drawn
from longstride.rollout.trajectory import Trajectory

_USUAL, _LARGER = 0.999, 10.0
"""Share of the rewards of a rollout that are usual, and how much larger than all of those a rare one is."""

_WIDTH, _FARTHEST = 0.5, 10.0
"""Width of a cell of observations, and how far from the mean all are one, in standard deviations."""

_OFTEN = 0.1
"""Share of the steps in a cell with the same action from which its rewards are not rare there, and stay as they are."""

_MOST_ROWS, _MOST_BYTES, _THINNED, _ENOUGH = 1 << 18, 4 << 20, 3, 4_096
"""Limits of the steps that are remembered, how much they are thinned at once, and rare rewards that are enough."""

_PREFIX = "rare."

AVERAGED = (
    "Some rewards are rare and more than ten times as large as the others: updates learn from their mean in like "
    "situations. Metrics keep them as they come."
)


class Steps(NamedTuple):
    """Steps of a run: observations float32[n, O], actions int64[n, choices], rewards float32[n], outcomes int64[n].

    Of a step that was repeated, ``outcomes`` counts what happened and what was drawn.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    outcomes: np.ndarray

    def at(self, rows: slice | np.ndarray) -> "Steps":
        """Return some of them."""
        return Steps(*(column[rows] for column in self))

    def cells(self, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return int64[n], a hash of the action and of the cell of the scaled observation."""
        scaled = np.clip((self.observations - shift) * scale, -_FARTHEST, _FARTHEST)
        digits = np.concatenate([np.floor(np.nan_to_num(scaled) / _WIDTH + 0.5).astype(np.int64), self.actions], axis=1)
        return np.asarray(digits @ np.random.default_rng(0).integers(1 << 62, size=digits.shape[1]), np.int64)


class RareRewards:
    """The rare rewards of a run, and one of every ``stride`` steps since the rollout with the first of them.

    ``usual`` is the largest reward, by its size, that has not been rare in any rollout.
    """

    def __init__(self) -> None:
        self._usual, self._stride = 0.0, 1
        self._steps: Steps | None = None  # None before the first rare reward
        self._rare: Steps | None = None
        self._unsaid = True

    def take_line(self) -> str | None:
        """Return a sentence once, after the first rare reward."""
        if self._rare is None or not self._unsaid:
            return None
        self._unsaid = False
        return AVERAGED

    def replaced(
        self,
        trajectories: Sequence[Trajectory],
        drawn: Sequence[Drawn | None],
        shift: np.ndarray,
        scale: np.ndarray,
        ranks: Ranks = ALONE,
    ) -> list[Trajectory]:
        """Remember a rollout of all ranks; return this rank's part with means over outcomes, and for rare rewards.

        A reward of one outcome is rare, not a mean over several. Cells are those of observations with float32[O]
        ``shift`` and ``scale``. The given trajectories do not change.
        """
        rewards = [rewards_of(*each) for each in zip(trajectories, drawn, strict=True)]
        own = [_steps_of(*each) for each in zip(trajectories, rewards, strict=True)]
        sizes = np.abs(np.concatenate(flattened(ranks.gather([each.ravel() for each in rewards]))))
        self._usual = max(self._usual, float(np.quantile(sizes, _USUAL, method="lower")))
        if self._rare is None and sizes.max() <= _LARGER * self._usual:
            return list(map(with_mean_rewards, trajectories, drawn))
        rare = [self._rare_of(*each) for each in zip(own, rewards, strict=True)]
        self._remember(*(_all_of(flattened(ranks.gather(each))) for each in (own, rare)))
        assert self._steps is not None and self._rare is not None
        cells, which = np.unique(self._rare.cells(shift, scale), return_inverse=True)
        counts = np.bincount(which)
        places, found = _places(self._steps.cells(shift, scale), cells)
        seen = np.bincount(places[found], self._steps.outcomes[found], minlength=len(cells))
        visits = np.maximum(self._stride * seen, counts)
        means, is_rare = np.bincount(which, self._rare.rewards) / visits, counts < _OFTEN * visits
        changed = []
        for trajectory, steps, each in zip(trajectories, own, rewards, strict=True):
            places, found = _places(steps.cells(shift, scale), cells)
            usual = mean_rewards(np.where(np.abs(each) > _LARGER * self._usual, np.float32(0.0), each))
            learned = np.where(found & is_rare[places], usual + means[places], mean_rewards(each))
            changed.append(trajectory._replace(rewards=learned.astype(np.float32)))
        return changed

    def _rare_of(self, steps: Steps, rewards: np.ndarray) -> Steps:
        """Return the rare ones among float32[n, outcomes] rewards of some steps."""
        rows, columns = np.nonzero(np.abs(rewards) > _LARGER * self._usual)
        return steps.at(rows)._replace(rewards=rewards[rows, columns])

    def _remember(self, rollout: Steps, rare: Steps) -> None:
        """Include the steps of a rollout and its rare rewards, unless enough of those are known."""
        self._rare, kept = _joined(self._rare, rare), self._rare
        if kept is not None and len(kept.rewards) >= _ENOUGH:
            self._rare = kept
            return
        self._steps = _joined(self._steps, rollout.at(slice(None, None, self._stride)))
        row = 4 * rollout.observations.shape[1] + 8 * rollout.actions.shape[1] + 4
        while len(self._steps.rewards) > min(_MOST_ROWS, max(_MOST_BYTES // row, 1)):
            self._steps, self._stride = self._steps.at(slice(None, None, _THINNED)), _THINNED * self._stride

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        columns = {"numbers": np.array([self._usual, self._stride])}
        for kind, steps in (("steps", self._steps), ("rare", self._rare)):
            columns |= {} if steps is None else {f"{kind}.{n}": column for n, column in steps._asdict().items()}
        return {f"{_PREFIX}{name}": column for name, column in columns.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned, among others; begin anew without it."""
        self._usual, stride = arrays.get(f"{_PREFIX}numbers", np.array([0.0, 1.0])).tolist()
        self._stride = int(stride)
        self._steps, self._rare = (_restored(arrays, f"{_PREFIX}{kind}.") for kind in ("steps", "rare"))
        self._unsaid = self._rare is None


def _restored(arrays: dict[str, np.ndarray], begin: str) -> Steps | None:
    """Return the steps of which a checkpoint has columns with such names; None without any."""
    if f"{begin}rewards" not in arrays:
        return None
    once = np.ones(len(arrays[f"{begin}rewards"]), np.int64)  # earlier versions repeated no step
    return Steps(*(arrays.get(f"{begin}{name}", once) for name in Steps._fields))


def _steps_of(trajectory: Trajectory, rewards: np.ndarray) -> Steps:
    steps = trajectory.steps
    outcomes = np.full(steps, rewards.shape[1], np.int64)
    return Steps(trajectory.observations[:steps], trajectory.actions.reshape(steps, -1), trajectory.rewards, outcomes)


def _all_of(parts: Sequence[Steps]) -> Steps:
    return Steps(*map(np.concatenate, zip(*parts, strict=True)))


def _joined(first: Steps | None, second: Steps) -> Steps:
    return second if first is None else _all_of([first, second])


def _places(cells: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[n] places of cells among sorted known ones, and bool[n], whether they are there."""
    places = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    return places, known[places] == cells
