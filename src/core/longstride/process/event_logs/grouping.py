"""Rows of a log by person, by activity or by both, found in one pass over all rows."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


def rows_by(column: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the rows of each value 0 to ``count`` - 1 of int64[n], in order; rows of other values are left out."""
    order = np.argsort(column, kind="stable")
    bounds = np.searchsorted(column[order], np.arange(count + 1))
    return [order[first:last] for first, last in pairwise(bounds.tolist())]


class Pairs(NamedTuple):
    """P pairs of an activity and a resource, by activity and then by resource."""

    activity: np.ndarray  # int64[P]
    resource: np.ndarray  # int64[P]
    events: np.ndarray  # int64[P], events of each pair in the log

    def taken(self, which: np.ndarray | slice) -> "Pairs":
        """Return some of the pairs, chosen by bool[P] or a range."""
        return Pairs(*(column[which] for column in self))


def pairs_of(activity: np.ndarray, resource: np.ndarray, resources: int) -> Pairs:
    """Return the pairs of the events of a log; events without a resource, -1, are left out."""
    named = resource >= 0
    key, events = np.unique(activity[named].astype(np.int64) * resources + resource[named], return_counts=True)
    return Pairs(*np.divmod(key, resources), events)
