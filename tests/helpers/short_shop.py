"""The shop of the toys with episodes that max_steps cuts, so that groups meet every kind of end."""

from oracles.toy_simulators import Shop


class ShortShop(Shop):
    """Its 30 days are never over; broke is terminated as before. No policy is given to start from."""

    max_steps = 20
    initial_feature_weights = None
