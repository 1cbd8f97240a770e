"""Reading a simulator's state into observation, mask and features, compiled, with the checks that make faults speak."""

import numpy as np
from numba import njit

from core.jit_cache.cache import cached, compile_for
from core.simulators.simulator import (
    EMPTY_MASK,
    FEATURE_NOT_FINITE,
    OBSERVATION_NOT_FINITE,
    OBSERVATION_TOO_LONG,
    OK,
    Compiled,
    Function,
    Simulator,
    compile_functions,
)

_GUARD = np.float32(-7.0e37)
"""Lies behind the observation that a simulator writes; anything else there means it wrote too much."""

_GUARD_SIZE = 16

_INFINITE = np.float32(np.inf)


def build_observe_state(simulator: Simulator, functions: Compiled) -> Function:
    """Compile the reading of a simulator's state.

    Returns:
        ``observe_state(state, parameters, guarded, observation, mask, features) -> status`` fills the last three;
        ``guarded`` comes from :func:`new_guarded`.
    """
    observe, action_mask, action_features = functions.observe, functions.action_mask, functions.action_features
    size, choices = simulator.observation_size, simulator.action_space.choices
    ends, n_choices = np.cumsum((0, *choices)), len(choices)
    any_features = simulator.action_feature_size > 0

    @cached  # so that a second process can compile it, while this one compiles something else
    @njit(nogil=True)
    def observe_state(state, parameters, guarded, observation, mask, features):  # type: ignore[no-untyped-def]
        guarded[:size] = 0.0
        observe(state, parameters, guarded[:size])
        for i in range(size, size + _GUARD_SIZE):
            if guarded[i] != _GUARD:
                return OBSERVATION_TOO_LONG
        for i in range(size):
            observation[i] = guarded[i]
        if not all_finite(observation):
            return OBSERVATION_NOT_FINITE
        mask[:] = True
        action_mask(state, parameters, mask)
        if any_features:
            features[:] = 0.0
            action_features(state, parameters, mask, features)
            if not all_finite(features.reshape(features.size)):
                return FEATURE_NOT_FINITE
        for choice in range(n_choices):
            i = ends[choice]
            while i < ends[choice + 1] and not mask[i]:
                i += 1
            if i == ends[choice + 1]:
                return EMPTY_MASK
        return OK

    return observe_state


def compile_observe_state(
    simulator: Simulator, state: np.record, observation: np.ndarray, mask: np.ndarray, features: np.ndarray
) -> None:
    """Compile the reading of a simulator's state as the loops need it, or load it.

    Args:
        simulator: the simulator.
        state: a record of its state.
        observation: float32[observations]; only its type counts, and that of the next two.
        mask: bool[values of all choices].
        features: float32[values of all choices, k].
    """
    guarded = np.zeros(simulator.observation_size + _GUARD_SIZE, np.float32)
    observe_state = build_observe_state(simulator, compile_functions(simulator))
    compile_for(observe_state, (state, simulator.parameters, guarded, observation, mask, features))


@njit(nogil=True)
def all_finite(values):  # type: ignore[no-untyped-def]
    """Return whether float32[n] holds neither NaN nor infinity."""
    finite = True
    for i in range(len(values)):  # no way out on the first that is not: then the compiler can take 16 at a time
        finite &= abs(values[i]) < _INFINITE
    return finite


@njit(nogil=True)
def new_guarded(size):  # type: ignore[no-untyped-def]
    """Return float32[size + guard], zero where the observation goes and the guard behind it."""
    guarded = np.full(size + _GUARD_SIZE, _GUARD, np.float32)
    guarded[:size] = 0.0
    return guarded
