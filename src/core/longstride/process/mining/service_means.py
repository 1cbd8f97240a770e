"""The mean service time of each person in an activity, shrunk towards the activity's mean if records are few.

The best of many noisy means is mostly noise: a policy would send all work to a person who was fast in five records. So
each mean is the credibility estimate of Bühlmann and Straub ("Glaubwürdigkeit für Schadensätze", Mitteilungen der
Vereinigung Schweizerischer Versicherungsmathematiker 70, 1970): the best linear combination of a person's mean and the
activity's under the variances in the log.
"""

from typing import NamedTuple

import numpy as np


class Variances(NamedTuple):
    """Variances of the service times of one activity: within a person's times, and between people's true means."""

    within: float
    between: float


def variances(counts: np.ndarray, means: np.ndarray, squares: np.ndarray) -> Variances:
    """Return unbiased estimates, the second at least 0.

    Args:
        counts: int64[P], records of each person, each at least 1.
        means: float64[P], means of their times.
        squares: float64[P], sums of the squared deviations from those means.
    """
    events, people = int(counts.sum()), len(counts)
    if people < 2 or events == people:  # differences between people cannot be told from noise
        return Variances(float(squares.sum()) / max(1, events - people), 0.0)
    within = float(squares.sum()) / (events - people)
    centre = float(counts @ means) / events
    spread = float(counts @ (means - centre) ** 2) - (people - 1) * within
    return Variances(within, max(0.0, spread / (events - float(counts @ counts) / events)))


def mixed(counts: np.ndarray, means: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, float]:
    """Return float64[P], the means shrunk towards the common mean, and that mean; arguments of :func:`variances`."""
    within, between = variances(counts, means, squares)
    if between == 0.0:
        common = float(counts @ means) / float(counts.sum())
        return np.full(len(counts), common), common
    # Credibility Z = n b / (n b + w), b the variance between people and w within: mean = common + Z (own - common).
    trust = counts * between / (counts * between + within)
    common = float(trust @ means) / float(trust.sum())
    return common + trust * (means - common), common


def credible_means(hours: np.ndarray, person: np.ndarray, people: int) -> np.ndarray:
    """Return float64[people], the mean time of each; those without a record have the common mean.

    The total time of all records stays. ``hours``, float64[n], and ``person``, int64[n], are times and people of an
    activity's n >= 1 records.
    """
    counts = np.bincount(person, minlength=people)
    did = np.flatnonzero(counts)
    every = np.bincount(person, hours, people) / np.maximum(counts, 1)
    squares = np.bincount(person, (hours - every[person]) ** 2, people)
    means, common = mixed(counts[did], every[did], squares[did])
    result = np.full(people, common)
    result[did] = means
    return result
