"""The fused episode: simulator and policy in one compiled loop, with nothing of Python inside.

Two loops are built here. ``collect`` records a trajectory for the update; ``play`` only plays, for evaluation, with
any chooser of actions (the policy, or a simulator's heuristic).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

from core.policy.forward import add_action_features, build_forward, greedy_masked, sample_masked
from core.policy.layout import policy_layout
from core.simulators.simulator import (
    ACTION_NOT_ALLOWED,
    EMPTY_MASK,
    FEATURE_NOT_FINITE,
    OBSERVATION_NOT_FINITE,
    OBSERVATION_TOO_LONG,
    OK,
    POLICY_NOT_FINITE,
    REWARD_NOT_FINITE,
    Compiled,
    Function,
    Simulator,
    compile_functions,
    compiled,
)

_GUARD = np.float32(-7.0e37)
"""Lies behind the observation that a simulator writes; anything else there means it wrote too much."""

_GUARD_SIZE = 16


def build_collect(simulator: Simulator, sizes: Sequence[int], activation: str) -> Function:
    """Compile the loop that plays one episode with the sampled policy and records it.

    Args:
        simulator: the simulator.
        sizes: layer sizes of the actor: observation size, hidden ..., actions.
        activation: of the actor's hidden layers.

    Returns:
        ``collect(states, parameters, weights, rng, policy_rng, trajectory, workspace) -> (steps, return, status)``. It
        resets ``states[0]``, fills the trajectory's arrays, writes the observation after the last decision, and
        stops early with a status other than OK at the first fault of the simulator.
    """
    functions = compile_functions(simulator)
    forward = build_forward(sizes, activation)
    look = _build_look(simulator, functions)
    weigh = _build_weigh(simulator, sizes)
    reset, step, time, truncated = functions.reset, functions.step, functions.time, functions.truncated
    control_variate = functions.control_variate
    max_steps, n_actions, n_features = simulator.max_steps, simulator.action_space.n, simulator.action_feature_size

    @njit(nogil=True)
    def collect(states, parameters, weights, rng, policy_rng, trajectory, workspace):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(trajectory.observations.shape[1])
        final_mask, final_features = np.empty(n_actions, np.bool_), np.empty((n_actions, n_features), np.float32)
        total = 0.0
        reset(state, parameters, rng)
        rows = trajectory
        status = look(state, parameters, guarded, rows.observations[0], rows.masks[0], rows.features[0])
        for t in range(max_steps):
            if status != OK:
                return t, total, status
            mask = trajectory.masks[t]
            logits = forward(weights, trajectory.observations[t], workspace)
            weigh(logits, trajectory.features[t], mask, weights)
            action, log_prob = sample_masked(logits, mask, n_actions, policy_rng.random())
            if not np.isfinite(log_prob):
                return t, total, POLICY_NOT_FINITE
            now, control = time(state, parameters), control_variate(state, parameters)
            reward, terminated = step(state, parameters, action, rng)
            total += reward
            if not np.isfinite(reward):
                return t, total, REWARD_NOT_FINITE
            cut = not terminated and (t + 1 == max_steps or truncated(state, parameters))
            trajectory.actions[t] = action
            trajectory.log_probs[t] = log_prob
            trajectory.rewards[t] = reward + (control_variate(state, parameters) - control)
            trajectory.elapsed[t] = time(state, parameters) - now
            trajectory.terminated[t] = terminated
            trajectory.truncated[t] = cut
            if terminated or cut:
                # The mask after the end is of no use and may rightly be empty, so only the observation is checked.
                status = look(state, parameters, guarded, rows.observations[t + 1], final_mask, final_features)
                if status == EMPTY_MASK:
                    status = OK
                return t + 1, total, status
            n = t + 1
            status = look(state, parameters, guarded, rows.observations[n], rows.masks[n], rows.features[n])
        return max_steps, total, status

    return collect


def build_play(simulator: Simulator, choose: Function) -> Function:
    """Compile the loop that plays one episode without recording it.

    Args:
        simulator: the simulator.
        choose: ``choose(state, parameters, observation, mask, features, weights, rng, workspace) -> action``, compiled.

    Returns:
        ``play(states, parameters, weights, rng, policy_rng, workspace) -> (steps, return, status)``.
    """
    functions = compile_functions(simulator)
    look = _build_look(simulator, functions)
    reset, step, truncated = functions.reset, functions.step, functions.truncated
    max_steps, n_actions = simulator.max_steps, simulator.action_space.n
    observation_size, n_features = simulator.observation_size, simulator.action_feature_size

    @njit(nogil=True)
    def play(states, parameters, weights, rng, policy_rng, workspace):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(observation_size)
        observation = np.empty(observation_size, np.float32)
        mask, features = np.empty(n_actions, np.bool_), np.empty((n_actions, n_features), np.float32)
        total = 0.0
        reset(state, parameters, rng)
        for t in range(max_steps):
            status = look(state, parameters, guarded, observation, mask, features)
            if status != OK:
                return t, total, status
            action = choose(state, parameters, observation, mask, features, weights, policy_rng, workspace)
            if action < 0 or action >= n_actions or not mask[action]:
                return t, total, ACTION_NOT_ALLOWED
            reward, terminated = step(state, parameters, action, rng)
            total += reward
            if not np.isfinite(total):
                return t, total, REWARD_NOT_FINITE
            if terminated or truncated(state, parameters):
                return t + 1, total, OK
        return max_steps, total, OK

    return play


def build_policy_chooser(simulator: Simulator, sizes: Sequence[int], activation: str, greedy: bool) -> Function:
    """Compile the trained policy as a chooser of actions for :func:`build_play`."""
    weigh = _build_weigh(simulator, sizes)
    forward = build_forward(sizes, activation)
    n_actions = sizes[-1]

    @njit(nogil=True)
    def choose(state, parameters, observation, mask, features, weights, rng, workspace):  # type: ignore[no-untyped-def]
        logits = forward(weights, observation, workspace)
        weigh(logits, features, mask, weights)
        if greedy:
            return greedy_masked(logits, mask, n_actions)
        return sample_masked(logits, mask, n_actions, rng.random())[0]

    return choose


def build_heuristic_chooser(heuristic: Callable[..., Any]) -> Function:
    """Compile a simulator's heuristic as a chooser of actions for :func:`build_play`."""
    act = compiled(heuristic)

    @njit(nogil=True)
    def choose(state, parameters, observation, mask, features, weights, rng, workspace):  # type: ignore[no-untyped-def]
        return act(state, parameters, mask, rng)

    return choose


def _build_weigh(simulator: Simulator, sizes: Sequence[int]) -> Function:
    """Compile the part of the actor that weighs the action features, nothing where there are none."""
    offset = policy_layout(sizes, (sizes[0], 1)).actor_size
    any_features = simulator.action_feature_size > 0

    @njit(nogil=True)
    def weigh(logits, features, mask, weights):  # type: ignore[no-untyped-def]
        if any_features:
            add_action_features(logits, features, mask, weights, offset)

    return weigh


def _build_look(simulator: Simulator, functions: Compiled) -> Function:
    """Compile the reading of a state into observation, mask and features, with the checks that make faults speak."""
    observe, action_mask, action_features = functions.observe, functions.action_mask, functions.action_features
    size, n_actions = simulator.observation_size, simulator.action_space.n
    any_features = simulator.action_feature_size > 0

    @njit(nogil=True)
    def look(state, parameters, guarded, observation, mask, features):  # type: ignore[no-untyped-def]
        guarded[:size] = 0.0
        observe(state, parameters, guarded[:size])
        for i in range(size, size + _GUARD_SIZE):
            if guarded[i] != _GUARD:
                return OBSERVATION_TOO_LONG
        finite = np.float32(0.0)
        for i in range(size):
            observation[i] = guarded[i]
            finite += guarded[i] * np.float32(0.0)
        if finite != 0.0:
            return OBSERVATION_NOT_FINITE
        mask[:] = True
        action_mask(state, parameters, mask)
        if any_features:
            features[:] = 0.0
            action_features(state, parameters, mask, features)
            for i in range(n_actions):
                for k in range(features.shape[1]):
                    finite += features[i, k] * np.float32(0.0)
            if finite != 0.0:
                return FEATURE_NOT_FINITE
        for i in range(n_actions):
            if mask[i]:
                return OK
        return EMPTY_MASK

    return look


@njit(nogil=True)
def new_guarded(size):  # type: ignore[no-untyped-def]
    """Return float32[size + guard], zero where the observation goes and the guard behind it."""
    guarded = np.full(size + _GUARD_SIZE, _GUARD, np.float32)
    guarded[:size] = 0.0
    return guarded
