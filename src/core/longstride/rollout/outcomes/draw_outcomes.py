"""The compiled part of ``drawn.py``: a step is repeated from copies of its state."""

import numpy as np
from numba import njit

from longstride.rollout.streams.generator_addresses import as_generator
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import build_readers
from longstride.simulators.simulator import CLOCK_NOT_FORWARD, OK, REWARD_NOT_FINITE, Function, Simulator
from longstride.simulators.spaces import Discrete


def build_draw_outcomes(simulator: Simulator) -> Function:
    """Compile what repeats a step.

    Returns:
        ``draw_outcomes(outcomes, i, t, parameters, action, given, guarded) -> status``. It plays the first copy of
        instance ``i`` in :class:`longstride.rollout.outcomes.drawn.Outcomes` and writes row ``t``. The action is a
        number, or a row as the loop has ``given`` it: the row may be changed.
    """
    functions = kernel_functions(simulator)
    step, time, (read_observation, _) = functions.step, functions.time, build_readers(simulator, functions)
    again = _number if isinstance(simulator.action_space, Discrete) else _row

    @njit(nogil=True)
    def draw_outcomes(outcomes, i, t, parameters, action, given, guarded):  # type: ignore[no-untyped-def]
        drawn, rng = outcomes.drawn, as_generator(outcomes.generators[i])
        outcomes.drawing[0] = True
        for k in range(drawn.rewards.shape[2]):
            outcomes.copies[i, 1] = outcomes.copies[i, 0]
            state = outcomes.copies[i, 1]
            before = time(state, parameters)
            reward, terminated = step(state, parameters, again(action, given), rng)
            elapsed = time(state, parameters) - before
            drawn.rewards[i, t, k], drawn.terminated[i, t, k], drawn.elapsed[i, t, k] = reward, terminated, elapsed
            if not np.isfinite(reward):
                return REWARD_NOT_FINITE
            if not (0.0 <= elapsed < np.inf):
                return CLOCK_NOT_FORWARD
            status = read_observation(state, parameters, guarded, drawn.observations[i, t, k])
            if status != OK:
                return status
        outcomes.drawing[0] = False
        return OK

    return draw_outcomes


@njit(nogil=True)
def _number(action, given):  # type: ignore[no-untyped-def]
    return action


@njit(nogil=True)
def _row(action, given):  # type: ignore[no-untyped-def]
    action[:] = given
    return action
