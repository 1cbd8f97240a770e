"""A rule played for many steps in a compiled loop, which is compiled once for all instances of a simulator."""

import numpy as np
from numba import njit

from longstride.simulators.simulator import compile_functions, compiled, metrics_of, new_state
from longstride.simulators.spaces import Discrete


@njit(nogil=True)
def _discrete(state, parameters, reset, action_mask, choose, step, mask, row, steps, rng):
    reset(state, parameters, rng)
    for _ in range(steps):
        mask[:] = True
        action_mask(state, parameters, mask)
        step(state, parameters, choose(state, parameters, mask, rng), rng)


@njit(nogil=True)
def _array(state, parameters, reset, action_mask, choose, step, mask, row, steps, rng):
    reset(state, parameters, rng)
    for _ in range(steps):
        mask[:] = True
        row[:] = 0
        action_mask(state, parameters, mask)
        choose(state, parameters, mask, rng, row)
        step(state, parameters, row, rng)


def long_run(simulator, rule, steps, seed=0):
    """Return the main metric after so many steps; ``rule`` is the name of a heuristic or a function like one."""
    functions, space = compile_functions(simulator), simulator.action_space
    choose = compiled(simulator.heuristics[rule] if isinstance(rule, str) else rule)
    states, play = new_state(simulator), _discrete if isinstance(space, Discrete) else _array
    row = np.zeros(space.shape or 1, space.dtype)
    mask, rng = np.ones(max(1, sum(space.choices)), bool), np.random.default_rng(seed)
    chosen = functions.reset, functions.action_mask, choose, functions.step
    play(states[0], simulator.parameters, *chosen, mask, row, steps, rng)
    return metrics_of(simulator, states)[simulator.main_metric]
