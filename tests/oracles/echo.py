"""A simulator that only a policy with memory plays well."""

from typing import ClassVar

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete


class Echo(Simulator):
    """Shows a number of two at random; naming the one shown a step ago earns 1.

    A policy without memory earns 1/2 a step, whatever it does. Episodes have 20 steps, the first of which earns
    nothing, so that 19 are the most.
    """

    observation_size = 2
    action_space = Discrete(2)
    max_steps = 20
    state_dtype = np.dtype([("shown", np.int64), ("before", np.int64)])

    def reset(state, parameters, rng):
        """Show the first number."""
        state.shown = int(rng.random() * 2)
        state.before = -1

    def observe(state, parameters, observation):
        """Write the number as one-hot."""
        observation[state.shown] = 1.0

    def step(state, parameters, action, rng):
        """Pay for the number of before and show the next one."""
        reward = 1.0 if action == state.before else 0.0
        state.before = state.shown
        state.shown = int(rng.random() * 2)
        return reward, False

    def first(state, parameters, mask, rng):
        """Name the first number."""
        return 0

    heuristics: ClassVar = {"first": first}
