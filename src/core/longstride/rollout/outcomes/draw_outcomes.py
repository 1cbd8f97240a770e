"""The compiled part of ``drawn.py``: a step is repeated from copies of its state."""

import numpy as np
from numba import njit

from longstride.rollout.streams.generator_addresses import as_generator
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import build_readers
from longstride.simulators.simulator import OK, REWARD_NOT_FINITE, Function, Simulator


def build_draw_outcomes(simulator: Simulator) -> Function:
    """Compile what repeats a step.

    Returns:
        ``draw_outcomes(outcomes, i, t, parameters, action, guarded) -> status``. It plays the first copy of instance
        ``i`` in :class:`longstride.rollout.outcomes.drawn.Outcomes` and writes row ``t``.
    """
    functions = kernel_functions(simulator)
    step, time, (read_observation, _) = functions.step, functions.time, build_readers(simulator, functions)

    @njit(nogil=True)
    def draw_outcomes(outcomes, i, t, parameters, action, guarded):  # type: ignore[no-untyped-def]
        drawn, rng = outcomes.drawn, as_generator(outcomes.generators[i])
        for k in range(drawn.rewards.shape[2]):
            outcomes.copies[i, 1] = outcomes.copies[i, 0]
            state = outcomes.copies[i, 1]
            before = time(state, parameters)
            reward, terminated = step(state, parameters, action, rng)
            drawn.rewards[i, t, k], drawn.terminated[i, t, k] = reward, terminated
            drawn.elapsed[i, t, k] = time(state, parameters) - before
            if not np.isfinite(reward):
                return REWARD_NOT_FINITE
            status = read_observation(state, parameters, guarded, drawn.observations[i, t, k])
            if status != OK:
                return status
        return OK

    return draw_outcomes
