"""The compiled loop over one episode that records nothing, with any chooser of actions: a policy or a heuristic."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from longstride.policies.compiled.forward import build_forward
from longstride.policies.compiled.sampling import add_action_features, build_sampling, row_of
from longstride.policies.parameter_layout import feature_weights_offset, log_std_offset
from longstride.policies.spec import PolicySpec
from longstride.simulators.observe import Observed, build_observe_state, new_guarded
from longstride.simulators.simulator import (
    ACTION_NOT_ALLOWED,
    OK,
    REWARD_NOT_FINITE,
    Function,
    Simulator,
    compile_functions,
    compiled,
)
from longstride.simulators.spaces import ActionSpace, Discrete


def build_play(simulator: Simulator, choose: Function) -> Function:
    """Compile the loop that plays one episode without recording it.

    Args:
        simulator: simulator that is stepped.
        choose: ``choose(state, parameters, observed, actor, rng, action) -> action``, compiled; ``observed`` is an
            :class:`longstride.simulators.observe.Observed`; it returns an integer, or ``action`` filled with numbers.

    Returns:
        ``play(states, parameters, actor, rng, policy_rng, actions=None, excursion=0) -> (steps, return, status)``. The
        chooser is given ``actor``: the :class:`longstride.policies.compiled.forward.ActorArrays` of a policy, anything
        for a heuristic. The first ``len(actions)`` actions are written to ``actions``, rows of the action space
        (``row_of``). With an ``excursion`` play goes on from the state as it is, for at most so many steps.
    """
    functions, space, max_steps = compile_functions(simulator), simulator.action_space, simulator.max_steps
    observe_state, admit = build_observe_state(simulator, functions), build_sampling(space).admit
    reset, step, truncated = functions.reset, functions.step, functions.truncated
    observation_size, feature_size = simulator.observation_size, simulator.action_feature_size
    mask_size, (row_size, row_dtype) = sum(space.choices), row_of(space)

    @njit(nogil=True)
    def play(states, parameters, actor, rng, policy_rng, actions=None, excursion=0):  # type: ignore[no-untyped-def]
        state, guarded, row = states[0], new_guarded(observation_size), np.zeros(row_size, row_dtype)
        mask, features = np.empty(mask_size, np.bool_), np.empty((mask_size, feature_size), np.float32)
        observed = Observed(np.empty(observation_size, np.float32), mask, features)
        total = 0.0
        if excursion == 0:
            reset(state, parameters, rng)
        limit = max_steps if excursion == 0 else excursion
        for t in range(limit):
            status = observe_state(state, parameters, guarded, observed.observation, observed.mask, observed.features)
            if status != OK:
                return t, total, status
            action = choose(state, parameters, observed, actor, policy_rng, row)
            if not admit(action, mask):
                return t, total, ACTION_NOT_ALLOWED
            if actions is not None and t < len(actions):
                actions[t, :] = action
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
    forward, sampling = build_forward(spec), build_sampling(spec.action_space, log_std_offset(spec))
    best, sample = sampling.greedy, sampling.sample
    any_features, offset = spec.action_features > 0, feature_weights_offset(spec)

    @njit(nogil=True)
    def choose(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        outputs = forward(actor.params, observed.observation, actor.state, actor.workspace)
        if any_features:
            add_action_features(outputs, observed.features, observed.mask, actor.params, offset)
        if actor.greedy:
            return best(outputs, observed.mask, row)
        return sample(outputs, actor.params, observed.mask, rng, row, row)[0]

    return choose


@cache
def build_heuristic_chooser(space: ActionSpace, *heuristics: Callable[..., Any]) -> Function:
    """Compile heuristics as one chooser for :func:`build_play`; ``actor`` is the number of the one that chooses."""
    choose_first = _build_asking(space, heuristics[0])
    if len(heuristics) == 1:
        return choose_first
    choose_other = build_heuristic_chooser(space, *heuristics[1:])

    @njit(nogil=True)
    def choose(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        if actor == 0:
            return choose_first(state, parameters, observed, actor, rng, row)
        return choose_other(state, parameters, observed, actor - 1, rng, row)

    return choose


@cache
def _build_asking(space: ActionSpace, heuristic: Callable[..., Any]) -> Function:
    """Compile a heuristic as a chooser of actions."""
    act = compiled(heuristic)

    @njit(nogil=True)
    def choose_integer(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        return act(state, parameters, observed.mask, rng)

    @njit(nogil=True)
    def choose_row(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        row[:] = 0
        act(state, parameters, observed.mask, rng, row)
        return row

    return choose_integer if isinstance(space, Discrete) else choose_row
