"""The shop of the toys with descriptions of its orders, and a van of any size: how many orders there are."""

import numpy as np
from oracles.toy_simulators import Shop

from longstride.simulators.spaces import Discrete


class ListedShop(Shop):
    """Order 0 .. van items a day, as many as the shelf of 6 holds: with a full shelf only one action is feasible."""

    summary_size = 3
    description_size = 3
    initial_description_weights = np.array([0.5, -0.25, 0.0])
    expected_actions = 0.4  # far too few, so that lists need more room

    def __init__(self, van: int = 3):
        self.action_space = Discrete(van + 1)

    def action_mask(state, parameters, mask):
        """Forbid orders that the shelf cannot hold."""
        for order in range(len(mask)):
            mask[order] = state.stock + order <= 6

    def action_features(state, parameters, mask, features):
        """Write the stock after an order."""
        for order in range(len(mask)):
            features[order, 0] = 0.3 * (state.stock + order - 3)

    def summarise(state, parameters, summary):
        """Write stock, cash and the last demand."""
        summary[0] = state.stock
        summary[1] = 0.1 * state.cash
        summary[2] = 0.5 * state.demand - 1.0

    def describe_actions(state, parameters, ids, descriptions):
        """Describe what fits, the largest order first: a list needs no order."""
        count = 0
        for k in range(len(ids)):
            order = len(ids) - 1 - k
            if state.stock + order <= 6:
                ids[count] = order
                descriptions[count, 0] = 0.3 * (state.stock + order - 3)
                descriptions[count, 1] = 1.0 / order if order > 0 else 0.0
                descriptions[count, 2] = order - state.demand
                count += 1
        return count
