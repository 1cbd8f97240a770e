"""Finds events that a log contains twice."""

import numpy as np


def first_of_equals(columns: list[np.ndarray]) -> np.ndarray:
    """Return int64[n], for each row the first row that equals it in all columns, which may be itself."""
    order = np.lexsort(columns)
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    first = np.empty(len(order), np.int64)
    # The sort is stable, so each run of equal rows begins with the first of them.
    first[order] = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    return first
