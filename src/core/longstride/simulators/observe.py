"""Compiled reading of a simulator's state into observation, mask and features, with checks of the contract."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.simulators.compile import kernel_functions
from longstride.simulators.simulator import (
    EMPTY_MASK,
    FEATURE_NOT_FINITE,
    OBSERVATION_NOT_FINITE,
    OBSERVATION_TOO_LONG,
    OK,
    Compiled,
    Function,
    Simulator,
)
from longstride.simulators.spaces import ActionSpace

_GUARD = np.float32(-7.0e37)
"""Value behind the observation; another value there means that ``observe`` wrote too much."""

_GUARD_SIZE = 16

_INFINITE = np.float32(np.inf)


class Observed(NamedTuple):
    """What a policy chooses an action from."""

    observation: np.ndarray  # float32[O], not normalised
    mask: np.ndarray  # bool[n], n values of all choices, True where allowed; bool[0] for a Box
    features: np.ndarray  # float32[n, F], the action features


def build_observe_state(simulator: Simulator, functions: Compiled) -> Function:
    """Build the compiled function that reads a simulator's state.

    Returns:
        ``observe_state(state, parameters, guarded, observation, mask, features) -> status``. It fills observation
        float32[O], mask bool[n] and features float32[n, F]; ``guarded`` is scratch from :func:`new_guarded`.
    """
    return _build_observe_state(*build_readers(simulator, functions))


@cache
def _build_observe_state(read_observation: Function, read_choices: Function) -> Function:
    @njit(nogil=True)
    def observe_state(state, parameters, guarded, observation, mask, features):  # type: ignore[no-untyped-def]
        status = read_observation(state, parameters, guarded, observation)
        return read_choices(state, parameters, mask, features) if status == OK else status

    return observe_state


def build_readers(simulator: Simulator, functions: Compiled) -> tuple[Function, Function]:
    """Build the two halves of :func:`build_observe_state`: only the first one is of use after the last step.

    They are built once, as all builders of what several loops call: Numba then compiles them once, too.

    Returns:
        ``read_observation(state, parameters, guarded, observation) -> status`` and
        ``read_choices(state, parameters, mask, features) -> status``.
    """
    any_features, check = simulator.action_feature_size > 0, build_mask_check(simulator.action_space)
    read_choices = _build_read_choices(functions.action_mask, functions.action_features, any_features, check)
    return _build_read_observation(functions.observe), read_choices


def build_read_summary(simulator: Simulator) -> Function:
    """Build ``read_summary(state, parameters, guarded, summary) -> status``, the same for float32[summary_size]."""
    return _build_read_observation(kernel_functions(simulator).summarise)


@cache
def _build_read_observation(observe: Function) -> Function:
    @njit(nogil=True)
    def read_observation(state, parameters, guarded, observation):  # type: ignore[no-untyped-def]
        size = len(guarded) - _GUARD_SIZE
        guarded[:size] = 0.0
        observe(state, parameters, guarded[:size])
        intact = True
        for i in range(_GUARD_SIZE):  # no early exit, so that the compiler can take all at once
            intact &= guarded[size + i] == _GUARD
        if not intact:
            return OBSERVATION_TOO_LONG
        for i in range(size):
            observation[i] = guarded[i]
        return OK if all_finite(observation) else OBSERVATION_NOT_FINITE

    return read_observation


@cache
def _build_read_choices(
    action_mask: Function, action_features: Function, any_features: bool, allows_a_choice: Function
) -> Function:
    @njit(nogil=True)
    def read_choices(state, parameters, mask, features):  # type: ignore[no-untyped-def]
        mask[:] = True
        action_mask(state, parameters, mask)
        if any_features:
            flat = features.reshape(features.size)
            for i in range(len(flat)):
                flat[i] = 0.0
            action_features(state, parameters, mask, features)
            if not all_finite(flat):
                return FEATURE_NOT_FINITE
        return OK if allows_a_choice(mask) else EMPTY_MASK

    return read_choices


@cache
def build_mask_check(space: ActionSpace) -> Function:
    """Build ``allows_a_choice(mask) -> bool``: whether bool[n] allows a value of each choice of an action space."""
    if len(space.choices) == 1:
        return _any_allowed
    ends, n_choices = np.cumsum((0, *space.choices)), len(space.choices)

    @njit(nogil=True)
    def allows_a_choice(mask):  # type: ignore[no-untyped-def]
        for choice in range(n_choices):
            i = ends[choice]
            while i < ends[choice + 1] and not mask[i]:
                i += 1
            if i == ends[choice + 1]:
                return False
        return True

    return allows_a_choice


@njit(nogil=True)
def _any_allowed(mask):  # type: ignore[no-untyped-def]
    i = 0
    while i < len(mask) and not mask[i]:
        i += 1
    return i < len(mask)


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
