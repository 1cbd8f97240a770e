"""A simulator whose step takes as long as asked for: 100 µs by default, as one of a large model does."""

from typing import NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

OBSERVATIONS = 40


class SlowParameters(NamedTuple):
    """Rounds of integer arithmetic in a step, about a nanosecond each."""

    rounds: int


class Slow(Simulator):
    """Forty numbers that drift; the action chooses the direction. Episodes are cut after 1,000 steps."""

    observation_size = OBSERVATIONS
    action_space = Discrete(8)
    max_steps = 1_000
    state_dtype = np.dtype([("values", np.float64, (OBSERVATIONS,)), ("hash", np.uint64)])

    def __init__(self, rounds: int = 100_000) -> None:
        self.parameters = SlowParameters(rounds)

    @staticmethod
    def reset(state, parameters, rng):
        """Begin somewhere."""
        state.hash = np.uint64(88172645463325252)
        for i in range(len(state["values"])):
            state["values"][i] = rng.random()

    @staticmethod
    def observe(state, parameters, observation):
        """Write the numbers."""
        for i in range(len(observation)):
            observation[i] = state["values"][i]

    @staticmethod
    def step(state, parameters, action, rng):
        """Compute for a while, then move one of the numbers."""
        x = state.hash
        for _ in range(parameters.rounds):
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
        state.hash = x
        place = action * 5
        state["values"][place] += 0.1 * rng.standard_normal() - 0.01 * state["values"][place]
        return -abs(state["values"][place]), False
