"""Compiled reading of a simulator's state into observation, mask and features, with checks of the contract."""

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
"""Value behind the observation; another value there means that ``observe`` wrote too much."""

_GUARD_SIZE = 16

_INFINITE = np.float32(np.inf)


def build_observe_state(simulator: Simulator, functions: Compiled) -> Function:
    """Build the compiled function that reads a simulator's state.

    Args:
        simulator: simulator whose sizes are used.
        functions: compiled functions of the simulator.

    Returns:
        ``observe_state(state, parameters, guarded, observation, mask, features) -> status``. It fills observation
        float32[O], mask bool[n] and features float32[n, F]; ``guarded`` is scratch from :func:`new_guarded`.
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
    """Compile ``observe_state`` for the types that the loops use, or load it from the cache.

    Args:
        simulator: simulator to read.
        state: record of its state; of this and the next arguments only the types count.
        observation: float32[observation_size].
        mask: bool[n], n values of all choices.
        features: float32[n, action_feature_size].
    """
    guarded = np.zeros(simulator.observation_size + _GUARD_SIZE, np.float32)
    observe_state = build_observe_state(simulator, compile_functions(simulator))
    compile_for(observe_state, (state, simulator.parameters, guarded, observation, mask, features))


@njit(nogil=True)
def all_finite(values):  # type: ignore[no-untyped-def]
    """Return whether ``values``, float32[n], holds neither NaN nor infinity."""
    finite = True
    for i in range(len(values)):  # no early exit, so that the compiler can take 16 at a time
        finite &= abs(values[i]) < _INFINITE
    return finite


@njit(nogil=True)
def new_guarded(size):  # type: ignore[no-untyped-def]
    """Return float32[size + 16]: zeros for the observation, then the guard values."""
    guarded = np.full(size + _GUARD_SIZE, _GUARD, np.float32)
    guarded[:size] = 0.0
    return guarded
