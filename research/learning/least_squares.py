"""What values that are linear in products of observations need; for critic_fits.py and critic_oracles.py."""

from itertools import combinations_with_replacement

import numpy as np
from numba import njit


@njit
def traces_of(features, decays, ended):  # type: ignore[no-untyped-def]
    """Return float64[N, F], the sums of features so far, of which a step keeps its decay."""
    traces, trace = np.empty_like(features), np.zeros(features.shape[1])
    for t in range(len(features)):
        trace = trace + features[t]
        traces[t] = trace
        trace *= 0.0 if ended[t] else decays[t]
    return traces


def powers(numbers: np.ndarray, degree: int) -> np.ndarray:
    """Return all products of at most so many of the columns, and 1."""
    columns = np.concatenate([np.ones((len(numbers), 1)), numbers], axis=1)
    chosen = combinations_with_replacement(range(columns.shape[1]), degree)
    return np.stack([columns[:, list(each)].prod(axis=1) for each in chosen], axis=1)
