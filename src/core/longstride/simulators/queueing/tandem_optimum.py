"""The optimum of two queues in a row with servers of any speed, by value iteration on the grid of all states."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-5
"""Of the average cost a time unit, absolute."""


class Solution(NamedTuple):
    """The best policy.

    Attributes:
        cost: its average cost a time unit, within ``TOLERANCE``.
        speed: int64[2, capacity + 1, capacity + 1], the number of each server's speed, by the jobs in queue 1 and 2.
    """

    cost: float
    speed: np.ndarray


def least_cost(
    arrival_rate: float,
    capacity: int,
    power: float,
    speeds: Sequence[float],
    holding: Sequence[float],
    refusal: float,
) -> Solution:
    """Iterate values of the uniformised chain until the bounds on the average cost meet.

    The cost falls apart into one part for each server, so each speed is chosen by itself. Source: Puterman, "Markov
    Decision Processes" (1994), sections 8.5 and 11.5.

    Args:
        arrival_rate: jobs a time unit.
        capacity: jobs that each queue holds.
        power: cost of the speed 1, a time unit; it grows with the square of the speed.
        speeds: completions a time unit, ascending.
        holding: cost of a job in queue 1 and 2, a time unit.
        refusal: cost of an arrival that finds queue 1 full.
    """
    first, second = np.indices((capacity + 1, capacity + 1))
    clock = arrival_rate + 2 * speeds[-1]
    fixed = holding[0] * first + holding[1] * second + arrival_rate * refusal * (first == capacity)
    rates = np.asarray(speeds, np.float64)[:, None, None]
    price = power * rates**2
    value = np.zeros(first.shape)
    while True:
        arrived = np.concatenate([value[1:], value[-1:]])
        gain_1, gain_2 = np.zeros_like(value), np.zeros_like(value)  # of values, by a completion
        gain_1[1:, :-1] = value[:-1, 1:] - value[1:, :-1]
        gain_2[:, 1:] = value[:, :-1] - value[:, 1:]
        works_1, works_2 = (first > 0) & (second < capacity), second > 0
        options_1, options_2 = works_1 * (price + rates * gain_1), works_2 * (price + rates * gain_2)
        change = (fixed + arrival_rate * (arrived - value) + options_1.min(axis=0) + options_2.min(axis=0)) / clock
        if np.ptp(change) * clock < TOLERANCE:
            cost = float(change.max() + change.min()) / 2 * clock
            return Solution(cost, np.array([options_1.argmin(axis=0), options_2.argmin(axis=0)]))
        value = value + change
        value -= value[0, 0]
