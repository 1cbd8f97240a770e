"""How long episodes last where a poor policy lets the state grow without bound.

Rewards that keep falling with the age of an episode show that the policy does not keep up: a queue that grows, a
backlog. What is then learned is about states that a good policy never sees, and their returns drown all others. So
episodes are short at first, and become longer as long as rewards do not fall with age. If rewards fall from the start,
episodes become shorter, and archived states must not be older: excursions would bring back the first backlogs.
"""

from collections.abc import Iterable

import numpy as np

_SHORTER, _SHORTEST, _LONGER = 10, 50, 1.5
"""How much shorter episodes are at first, and if rewards fall then; and the factor by which they become longer."""

_EARLY, _LATE = 0.15, 0.5
"""Shares of an episode where its first part ends and its last one begins."""

_FALLING = 1.7
"""Fall of the reward to the last part, in falls to the middle one: 1 where it has ended, 2.3 where it is steady."""

_FEWEST, _REMEMBERED = 10, 1_200

_STEADY = 3
"""Rollouts in a row with falling rewards after which the first episodes become shorter, and without them after which
those become longer."""

_PATIENCE = 30
"""Rollouts in a row with falling rewards after which a line says so, and episodes become longer all the same: some
rewards fall with age whatever a policy does, and what comes late has to be seen, too."""

FALLS_BEHIND = (
    "The policy does not keep up: rewards keep falling with the age of an episode. Either something piles up "
    "that the policy leaves undone, or no policy could keep up."
)


class Reach:
    """The age at which episodes end between two rollouts: ``now``, at most ``whole``.

    ``runs_away`` says whether episodes that play on beyond the whole length have to end after this rollout.
    """

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self.now = self._first = max(whole // _SHORTER, 1)
        self._samples = np.zeros((0, 2))
        self.runs_away = False
        self._fell, self._unsaid = 0, True  # rollouts in a row with falling rewards, or negative: without

    def learn(self, samples: Iterable[tuple[float, float]]) -> None:
        """Take note of a rollout: (age, mean reward there) of parts of natural episodes."""
        new = np.array(list(samples)).reshape(-1, 2)
        if self.now == self.whole:
            self.runs_away = drowns(new[new[:, 0] > self.whole, 1], new[new[:, 0] <= self.whole, 1])
            return
        self._samples = np.concatenate([self._samples, new])[-_REMEMBERED:]
        is_short = self.now < self._first  # episodes end between two rollouts, so that they may be longer
        longest = self._samples[:, 0].max(initial=self.now) if is_short else self.now
        falls = falling(self._samples[:, 0] / longest, self._samples[:, 1])
        before, self._fell = self._fell, 0
        if falls is not None:
            self._fell = max(before, 0) + 1 if falls else min(before, 0) - 1
        if self.now == self._first and self._fell == _STEADY:
            self.now, self._samples, self._fell = max(self.whole // _SHORTEST, 1), self._samples[:0], 0
        elif self._fell <= -(_STEADY if is_short else 1) or self._fell == _PATIENCE:
            self.now = min(int(max(self.now * _LONGER, longest)), self.whole)
            self._samples, self._fell = self._samples[:0], max(self._fell, 0)

    def take_line(self) -> str | None:
        """Return a sentence once, where rewards have been falling with age for many rollouts."""
        if self._fell < _PATIENCE:
            return None
        self._fell, first, self._unsaid = 0, self._unsaid, False
        return FALLS_BEHIND if first else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps, by name."""
        return {"reach": np.array([self.now, self._fell, self._unsaid]), "reach_samples": self._samples}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned; begin anew without it."""
        now, self._fell, unsaid = arrays.get("reach", np.array([self._first, 0, 1])).tolist()
        self.now, self._unsaid = min(now, self.whole), bool(unsaid)
        self._samples = arrays.get("reach_samples", np.zeros((0, 2)))


def drowns(old: np.ndarray, others: np.ndarray) -> bool:
    """Return whether rewards, float64[n], of episodes that play on lie as far below all others as those spread.

    A policy may be stable but for a state that is seldom reached, and from which it never comes back. What is then
    learned is about that state alone.
    """
    if not len(old) or len(others) < _FEWEST:
        return False
    return bool(old.mean() < others.min() - np.ptp(others))


def falling(shares: np.ndarray, rewards: np.ndarray) -> bool | None:
    """Return whether rewards keep falling with age, float64[n] shares of an episode; None if too few say so."""
    parts = rewards[shares < _EARLY], rewards[(shares >= _EARLY) & (shares < _LATE)], rewards[shares >= _LATE]
    if min(map(len, parts)) < _FEWEST:
        return None
    first, middle, last = (part.mean() for part in parts)
    noise = 2.0 * np.sqrt(parts[1].var() / len(parts[1]) + parts[2].var() / len(parts[2]))
    best = max(first, middle, last)
    return bool(best - last - noise > _FALLING * (best - middle))
