"""The fused episode: simulator and policy in one compiled loop, with nothing of Python inside.

Two loops are built here. ``collect`` records a trajectory for the update; ``play`` only plays, for evaluation, with
any chooser of actions (the policy, or a simulator's heuristic).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

from core.policy.forward import build_forward, greedy_masked, sample_masked
from core.simulators.simulator import (
    ACTION_NOT_ALLOWED,
    EMPTY_MASK,
    OBSERVATION_NOT_FINITE,
    OBSERVATION_TOO_LONG,
    OK,
    POLICY_NOT_FINITE,
    REWARD_NOT_FINITE,
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
    look = _build_look(functions.observe, functions.action_mask, simulator.observation_size, simulator.action_space.n)
    reset, step, time, truncated = functions.reset, functions.step, functions.time, functions.truncated
    control_variate = functions.control_variate
    max_steps, n_actions = simulator.max_steps, simulator.action_space.n

    @njit(nogil=True)
    def collect(states, parameters, weights, rng, policy_rng, trajectory, workspace):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(trajectory.observations.shape[1])
        final_mask = np.empty(n_actions, np.bool_)
        total = 0.0
        reset(state, parameters, rng)
        status = look(state, parameters, guarded, trajectory.observations[0], trajectory.masks[0])
        for t in range(max_steps):
            if status != OK:
                return t, total, status
            mask = trajectory.masks[t]
            logits = forward(weights, trajectory.observations[t], workspace)
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
                status = look(state, parameters, guarded, trajectory.observations[t + 1], final_mask)
                if status == EMPTY_MASK:
                    status = OK
                return t + 1, total, status
            status = look(state, parameters, guarded, trajectory.observations[t + 1], trajectory.masks[t + 1])
        return max_steps, total, status

    return collect


def build_play(simulator: Simulator, choose: Function) -> Function:
    """Compile the loop that plays one episode without recording it.

    Args:
        simulator: the simulator.
        choose: ``choose(state, parameters, observation, mask, weights, rng, workspace) -> action``, compiled.

    Returns:
        ``play(states, parameters, weights, rng, policy_rng, workspace) -> (steps, return, status)``.
    """
    functions = compile_functions(simulator)
    look = _build_look(functions.observe, functions.action_mask, simulator.observation_size, simulator.action_space.n)
    reset, step, truncated = functions.reset, functions.step, functions.truncated
    max_steps, n_actions = simulator.max_steps, simulator.action_space.n
    observation_size = simulator.observation_size

    @njit(nogil=True)
    def play(states, parameters, weights, rng, policy_rng, workspace):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(observation_size)
        observation = np.empty(observation_size, np.float32)
        mask = np.empty(n_actions, np.bool_)
        total = 0.0
        reset(state, parameters, rng)
        for t in range(max_steps):
            status = look(state, parameters, guarded, observation, mask)
            if status != OK:
                return t, total, status
            action = choose(state, parameters, observation, mask, weights, policy_rng, workspace)
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


def build_policy_chooser(sizes: Sequence[int], activation: str, greedy: bool) -> Function:
    """Compile the trained policy as a chooser of actions for :func:`build_play`."""
    forward = build_forward(sizes, activation)
    n_actions = sizes[-1]

    @njit(nogil=True)
    def choose(state, parameters, observation, mask, weights, rng, workspace):  # type: ignore[no-untyped-def]
        logits = forward(weights, observation, workspace)
        if greedy:
            return greedy_masked(logits, mask, n_actions)
        return sample_masked(logits, mask, n_actions, rng.random())[0]

    return choose


def build_heuristic_chooser(heuristic: Callable[..., Any]) -> Function:
    """Compile a simulator's heuristic as a chooser of actions for :func:`build_play`."""
    act = compiled(heuristic)

    @njit(nogil=True)
    def choose(state, parameters, observation, mask, weights, rng, workspace):  # type: ignore[no-untyped-def]
        return act(state, parameters, mask, rng)

    return choose


def _build_look(observe: Function, action_mask: Function, size: int, n_actions: int) -> Function:
    """Compile the reading of a state into observation and mask, with the checks that make faults speak."""

    @njit(nogil=True)
    def look(state, parameters, guarded, observation, mask):  # type: ignore[no-untyped-def]
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
