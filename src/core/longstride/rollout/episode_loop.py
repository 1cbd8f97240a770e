"""The compiled loop over one episode that records nothing, with any chooser of actions: a policy or a heuristic."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.policies.compiled.forward import build_forward
from longstride.policies.compiled.sampling import add_action_features, build_sampling, row_of
from longstride.policies.spec import PolicySpec
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import Observed, build_observe_state, new_guarded
from longstride.simulators.simulator import (
    ACTION_NOT_ALLOWED,
    OK,
    REWARD_NOT_FINITE,
    Function,
    Simulator,
    compiled,
)
from longstride.simulators.spaces import ActionSpace, Discrete


class EpisodeArrays(NamedTuple):
    """What the loop over an episode writes, beside the simulator's state."""

    observed: Observed  # what the chooser sees
    guarded: np.ndarray  # scratch of :func:`longstride.simulators.observe.new_guarded`
    row: np.ndarray  # scratch of an action
    actions: np.ndarray  # the first actions of the episode, rows of the action space (``row_of``); may have none


def new_episode_arrays(simulator: Simulator, most_actions: int = 0) -> EpisodeArrays:
    """Return the arrays for an episode of a simulator, with room for its first actions."""
    size, space = simulator.observation_size, simulator.action_space
    values, (row_size, row_dtype) = sum(space.choices), row_of(space)
    features = np.empty((values, simulator.action_feature_size), np.float32)
    observed = Observed(np.empty(size, np.float32), np.empty(values, np.bool_), features)
    row, actions = np.zeros(row_size, row_dtype), np.zeros((most_actions, row_size), row_dtype)
    return EpisodeArrays(observed, new_guarded(size), row, actions)


def build_play(simulator: Simulator, choose: Function) -> Function:
    """Return the compiled loop that plays one episode without recording it.

    Simulators that differ in sizes alone share it.

    Args:
        simulator: simulator that is stepped.
        choose: ``choose(state, parameters, observed, actor, rng, action) -> action``, compiled; ``observed`` is an
            :class:`longstride.simulators.observe.Observed`; it returns an integer, or ``action`` filled with numbers.

    Returns:
        ``play(states, parameters, actor, rng, policy_rng, arrays, limit, goes_on) -> (steps, return, status)``. The
        chooser is given ``actor``: the :class:`longstride.policies.compiled.forward.ActorArrays` of a policy, anything
        for a heuristic. The :class:`EpisodeArrays` are overwritten. An episode has at most ``limit`` steps. If it goes
        on, it begins in the state as it is, else with a reset.
    """
    functions = kernel_functions(simulator)
    stepping = functions.reset, functions.step, functions.truncated
    observe_state, admit = build_observe_state(simulator, functions), build_sampling(simulator.action_space).admit
    return _build_play(*stepping, observe_state, admit, choose)


@cache
def _build_play(
    reset: Function, step: Function, truncated: Function, observe_state: Function, admit: Function, choose: Function
) -> Function:
    @njit(nogil=True)
    def play(states, parameters, actor, rng, policy_rng, arrays, limit, goes_on):  # type: ignore[no-untyped-def]
        state, observed, total = states[0], arrays.observed, 0.0
        if not goes_on:
            reset(state, parameters, rng)
        for t in range(limit):
            observation, mask, features = observed.observation, observed.mask, observed.features
            status = observe_state(state, parameters, arrays.guarded, observation, mask, features)
            if status != OK:
                return t, total, status
            action = choose(state, parameters, observed, actor, policy_rng, arrays.row)
            if not admit(action, mask):
                return t, total, ACTION_NOT_ALLOWED
            if t < len(arrays.actions):
                arrays.actions[t, :] = action
            reward, terminated = step(state, parameters, action, rng)
            total += reward
            if not np.isfinite(total):
                return t, total, REWARD_NOT_FINITE
            if terminated or truncated(state, parameters):
                return t + 1, total, OK
        return limit, total, OK

    return play


@cache
def build_policy_chooser(spec: PolicySpec) -> Function:
    """Compile the trained policy as a chooser of actions for :func:`build_play`, greedy or not."""
    forward, sampling = build_forward(spec), build_sampling(spec.action_space, spec.layout.log_std_offset)
    best, sample = sampling.greedy, sampling.sample
    any_features, offset = spec.action_features > 0, spec.layout.feature_weights_offset

    @njit(nogil=True)
    def choose(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        outputs = forward(actor.params, observed.observation, actor.state, actor.workspace)
        if any_features:
            add_action_features(outputs, observed.features, observed.mask, actor.params, offset)
        if actor.greedy:
            return best(outputs, observed.mask, row)
        return sample(outputs, actor.params, observed.mask, rng, row, row)[0]

    return choose


def build_heuristic_chooser(space: ActionSpace, *heuristics: Callable[..., Any]) -> Function:
    """Compile heuristics as one chooser for :func:`build_play`; ``actor`` is the number of the one that chooses."""
    return _build_chooser(isinstance(space, Discrete), *heuristics)


@cache
def _build_chooser(returns_action: bool, *heuristics: Callable[..., Any]) -> Function:
    choose_first = _build_asking(returns_action, heuristics[0])
    if len(heuristics) == 1:
        return choose_first
    choose_other = _build_chooser(returns_action, *heuristics[1:])

    @njit(nogil=True)
    def choose(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        if actor == 0:
            return choose_first(state, parameters, observed, actor, rng, row)
        return choose_other(state, parameters, observed, actor - 1, rng, row)

    return choose


@cache
def _build_asking(returns_action: bool, heuristic: Callable[..., Any]) -> Function:
    """Compile a heuristic as a chooser of actions; one that does not return its action fills an array."""
    act = compiled(heuristic)

    @njit(nogil=True)
    def choose_integer(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        return act(state, parameters, observed.mask, rng)

    @njit(nogil=True)
    def choose_row(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        row[:] = 0
        act(state, parameters, observed.mask, rng, row)
        return row

    return choose_integer if returns_action else choose_row
