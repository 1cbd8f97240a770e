"""Weeks from which a log has clearly more or fewer cases or people than before.

The change point is where the standardised CUSUM of the weekly numbers is largest. Whether it is chance, permutations of
the weeks tell: they need no distribution of the numbers (Antoch and Hušková, 2001, "Permutation tests in change point
analysis").
"""

from dataclasses import dataclass

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.resample import weeks_of
from longstride.process.mining.machines import without_machines
from longstride.seeding import stream

_WEEK = 168 * 3600.0

_FEWEST_WEEKS = 4
"""Fewest weeks on each side of a change point."""

_LEVEL, _PERMUTATIONS = 0.01, 2000
_LEAST = 0.1
"""Smallest change of the weekly numbers, as a share, that is looked at."""


@dataclass(frozen=True)
class ChangePoint:
    """A moment from which weekly numbers differ."""

    what: str  # ``volume`` or ``staffing``
    week: int  # first week after the change
    before: float  # mean weekly number before
    after: float  # and from then on
    chance: float  # share of permutations with as large a change

    @property
    def share(self) -> float:
        """The change as a share of the number before."""
        return self.after / self.before - 1.0


def change_points(log: EventLog) -> list[tuple[ChangePoint, float]]:
    """Return the change points of a log's cases and people a week, with the moment in seconds since its Monday."""
    week, _ = weeks_of(log)
    first = np.full(len(log.cases), np.inf)
    np.minimum.at(first, log.case, log.clock_start)
    origin = 86_400.0 * (float(first.min()) // 86_400.0)
    whole = int((float(log.clock_start.max()) - origin) // _WEEK)
    by_people, _, _ = without_machines(log)
    named = by_people.resource >= 0
    seen = ((by_people.clock_start[named] - origin) // _WEEK).astype(np.int64)
    pairs = np.unique(np.stack([seen, by_people.resource[named]]), axis=1)
    numbers = {
        "volume": np.bincount(week, minlength=whole)[:whole],
        "staffing": np.bincount(pairs[0], minlength=whole)[:whole],
    }
    found = [(what, change_point(values)) for what, values in numbers.items()]
    return [(ChangePoint(what, *point), origin + point[0] * _WEEK) for what, point in found if point is not None]


def change_point(values: np.ndarray, seed: int = 0) -> tuple[int, float, float, float] | None:
    """Return the first week after the largest change of weekly numbers, both means and the chance; None without one."""
    count = len(values)
    if count < 2 * _FEWEST_WEEKS or values.std() == 0.0:
        return None
    numbers = np.asarray(values, np.float64)
    shuffled = stream(seed, "change point").permuted(np.tile(numbers, (_PERMUTATIONS, 1)), axis=1)
    largest, at = _largest(numbers[None])
    chance = float((1 + (_largest(shuffled)[0] >= largest[0]).sum()) / (1 + _PERMUTATIONS))
    before, after = float(numbers[: at[0]].mean()), float(numbers[at[0] :].mean())
    if chance > _LEVEL or before <= 0.0 or abs(after / before - 1.0) < _LEAST:
        return None
    return int(at[0]), before, after, chance


def _largest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[rows] and int64[rows], the largest standardised CUSUM of each row and where it is."""
    count = rows.shape[1]
    weeks = np.arange(_FEWEST_WEEKS, count - _FEWEST_WEEKS + 1)
    sums = np.abs(np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1))[:, weeks - 1]
    scaled = sums / np.sqrt(weeks * (count - weeks) / count)
    return scaled.max(axis=1), weeks[scaled.argmax(axis=1)]
