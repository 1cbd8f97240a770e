"""A rule played for many steps in a compiled loop, which all instances and rules of a simulator share."""

from functools import cache

import numpy as np
from numba import njit

from longstride.simulators.simulator import compile_functions, compiled, metrics_of, new_state
from longstride.simulators.spaces import Discrete


@njit(nogil=True)
def _discrete(state, parameters, reset, action_mask, choose, rule, step, mask, row, steps, rng):
    reset(state, parameters, rng)
    for _ in range(steps):
        mask[:] = True
        action_mask(state, parameters, mask)
        step(state, parameters, choose(rule, state, parameters, mask, rng), rng)


@njit(nogil=True)
def _array(state, parameters, reset, action_mask, choose, rule, step, mask, row, steps, rng):
    reset(state, parameters, rng)
    for _ in range(steps):
        mask[:] = True
        row[:] = 0
        action_mask(state, parameters, mask)
        choose(rule, state, parameters, mask, rng, row)
        step(state, parameters, row, rng)


@cache
def _any_of(first, *others):
    """Return a compiled function that calls the rule of a number."""
    if not others:

        @njit(nogil=True)
        def choose(rule, *arguments):
            return first(*arguments)

        return choose
    rest = _any_of(*others)

    @njit(nogil=True)
    def choose_one(rule, *arguments):
        if rule == 0:
            return first(*arguments)
        return rest(rule - 1, *arguments)

    return choose_one


def long_run(simulator, rule, steps, seed=0):
    """Return the main metric after so many steps; ``rule`` is the name of a heuristic or a function like one."""
    functions, space = compile_functions(simulator), simulator.action_space
    rules = simulator.heuristics if isinstance(rule, str) else {rule: rule}
    choose, number = _any_of(*map(compiled, rules.values())), list(rules).index(rule)
    states, play = new_state(simulator), _discrete if isinstance(space, Discrete) else _array
    row = np.zeros(space.shape or 1, space.dtype)
    mask, rng = np.ones(max(1, sum(space.choices)), bool), np.random.default_rng(seed)
    chosen = functions.reset, functions.action_mask, choose, number, functions.step
    play(states[0], simulator.parameters, *chosen, mask, row, steps, rng)
    return metrics_of(simulator, states)[simulator.main_metric]
