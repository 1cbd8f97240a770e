"""The step that all compiled loops make and record, whatever chose the action.

Both functions are inlined by Numba, and :func:`record` has no branch. A compiled function with branches would count the
references of all arrays that it is given at each step, which takes as long as a small network.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.simulators.simulator import OK, POLICY_NOT_FINITE, REWARD_NOT_FINITE, Compiled, Function


class Made(NamedTuple):
    """A step that was made."""

    status: int  # OK, or what was wrong
    reward: float
    elapsed: float  # simulated time that passed
    control_variate: float  # increment of the simulator's control variate
    terminated: bool  # whether the process has ended
    truncated: bool  # whether the episode was cut


def build_make_step(functions: Compiled, max_steps: int) -> Function:
    """Compile ``make_step(state, parameters, action, log_prob, rng, age) -> Made``.

    The age is the number of steps before this one. Nothing is done if the log-probability of the action is not finite.
    """
    step, truncated, time, variate = functions.step, functions.truncated, functions.time, functions.control_variate

    @njit(nogil=True, inline="always")
    def make_step(state, parameters, action, log_prob, rng, age):  # type: ignore[no-untyped-def]
        if not np.isfinite(log_prob):
            return Made(POLICY_NOT_FINITE, 0.0, 0.0, 0.0, False, False)
        before, control = time(state, parameters), variate(state, parameters)
        reward, terminated = step(state, parameters, action, rng)
        cut = not terminated and (age + 1 == max_steps or truncated(state, parameters))
        elapsed, change = time(state, parameters) - before, variate(state, parameters) - control
        return Made(OK if np.isfinite(reward) else REWARD_NOT_FINITE, reward, elapsed, change, terminated, cut)

    return make_step


@njit(nogil=True, inline="always")
def record(arrays, i, t, log_prob, made):  # type: ignore[no-untyped-def]
    """Write a step without a fault to row ``t`` of instance ``i``.

    The arrays have ``rows``, ``next_rows``, ``ages`` and ``rewards`` of
    :class:`longstride.rollout.loop_arrays.LoopArrays`.
    """
    rows = arrays.rows
    arrays.rewards[i] += made.reward
    arrays.next_rows[i], arrays.ages[i] = t + 1, arrays.ages[i] + 1
    rows.log_probs[i, t], rows.rewards[i, t] = log_prob, made.reward
    rows.elapsed[i, t], rows.control_variate[i, t] = made.elapsed, made.control_variate
    rows.terminated[i, t], rows.truncated[i, t] = made.terminated, made.truncated
