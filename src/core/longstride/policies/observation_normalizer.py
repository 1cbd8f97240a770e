"""Running mean and variance of observations, which are part of the policy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LEAST_STD = 1e-4
"""A column that varies less than this is shifted but not scaled: its variation is rounding."""

_ENOUGH_ROWS = 8_192


class BatchStatistics(NamedTuple):
    """What :class:`RunningStatistics` takes in of a batch: its rows, then arrays of a figure for each column."""

    rows: int
    mean: np.ndarray
    squares: np.ndarray
    indicator: np.ndarray


def statistics_of(values: np.ndarray) -> BatchStatistics:
    """Return those of all rows of float[B, O] observations."""
    rows, count = np.ascontiguousarray(values), len(values)  # one pass over rows that may be far apart
    mean = rows.mean(axis=0, dtype=np.float64)
    deviations = rows - mean
    deviations *= deviations
    return BatchStatistics(count, mean, deviations.mean(axis=0) * count, ((rows == 0.0) | (rows == 1.0)).all(axis=0))


def thinned(values: np.ndarray) -> np.ndarray:
    """Return every k-th row of a large batch of observations, at least 8,192 of them."""
    return values[:: max(1, len(values) // _ENOUGH_ROWS)]


@dataclass
class RunningStatistics:
    """Count, mean and sum of squared deviations per column, merged batch by batch (Chan, Golub and LeVeque, 1983).

    Columns that have only ever held 0 and 1 are left alone: they are indicators, already of a good scale, and a zero
    that stays zero costs the compiled forward pass nothing. The count is float64[1]; of the O columns mean and squares
    are float64[O], and bool[O] says which have been indicators so far.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    indicator: np.ndarray

    @classmethod
    def empty(cls, size: int) -> "RunningStatistics":
        """Return statistics of no observations of this many columns."""
        return cls(np.zeros(1), np.zeros(size), np.zeros(size), np.ones(size, np.bool_))

    def update(self, values: np.ndarray) -> None:
        """Merge float32[B, O] observations; of a large batch every k-th row, at least 8,192 of them."""
        self.merge(thinned(values))

    def merge(self, values: np.ndarray) -> None:
        """Merge all rows of float[B, O] observations."""
        self.include(statistics_of(values))

    def include(self, batch: BatchStatistics) -> None:
        """Merge a batch of which only the statistics are known."""
        total = self.count[0] + batch.rows
        delta = batch.mean - self.mean
        self.squares += batch.squares + delta**2 * (self.count[0] * batch.rows / total)
        self.mean += delta * (batch.rows / total)
        self.count[0] = total
        self.indicator &= batch.indicator

    def fade(self, kept: float) -> None:
        """Let everything so far count as a share of its rows."""
        self.count *= kept
        self.squares *= kept

    def begin_anew(self, others: "RunningStatistics", columns: np.ndarray) -> None:
        """Take mean and deviation of some columns, bool[O], from other statistics, and count as many rows as they do.

        The other columns keep theirs.
        """
        before, now = self.deviation(), others.deviation()
        self.mean = np.where(columns, others.mean, self.mean)
        self.squares = np.where(columns, now**2, before**2) * others.count
        self.count = others.count.copy()

    def deviation(self) -> np.ndarray:
        """Return float64[O] standard deviations, 0 before the first batch."""
        std: np.ndarray = np.sqrt(self.squares / max(self.count[0], 1.0))
        return std

    def shift_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Return float32[O] mean and 1 / standard deviation, 0 and 1 for indicators."""
        std = self.deviation()
        scale = np.where(std > LEAST_STD, 1.0 / np.maximum(std, LEAST_STD), 1.0)
        shift = np.where(self.indicator, 0.0, self.mean)
        return shift.astype(np.float32), np.where(self.indicator, 1.0, scale).astype(np.float32)
