"""The fused episode: simulator and policy in one compiled loop, with nothing of Python inside.

Two loops are built here. ``collect_steps`` records a trajectory for the update; ``play`` only plays, for evaluation,
with any chooser of actions (the policy, or a simulator's heuristic).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from core.policies.compiled.forward import build_forward
from core.policies.compiled.sampling import add_action_features, build_sampling, row_of
from core.policies.parameter_layout import feature_weights_offset, log_std_offset
from core.policies.spec import PolicySpec
from core.simulators.observe import build_observe_state, new_guarded
from core.simulators.simulator import (
    ACTION_NOT_ALLOWED,
    EMPTY_MASK,
    OK,
    POLICY_NOT_FINITE,
    REWARD_NOT_FINITE,
    Function,
    Simulator,
    compile_functions,
    compiled,
)
from core.simulators.spaces import ActionSpace, Discrete


def build_collect_steps(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile the loop that plays an episode on from the state it is in, to its end or to a row of the trajectory.

    Args:
        simulator: the simulator.
        spec: architecture of the policy.

    Returns:
        ``collect_steps(states, parameters, actor_params, rng, policy_rng, trajectory, workspace, begin, end, age) ->
        (row, rewards, status)``. It writes rows ``begin`` .. ``row`` - 1, at most to ``end``, of an episode that made
        ``age`` decisions before, and the observation after them.
    """
    functions, space = compile_functions(simulator), simulator.action_space
    actor, sample = _build_actor(spec), build_sampling(space, log_std_offset(spec)).sample
    observe_state = build_observe_state(simulator, functions)
    step, time, truncated, control_variate, luck = (
        functions.step,
        functions.time,
        functions.truncated,
        functions.control_variate,
        functions.luck,
    )
    max_steps, mask_size, feature_size = simulator.max_steps, sum(space.choices), simulator.action_feature_size
    row_size, row_dtype = row_of(space)

    @njit(nogil=True)
    def collect_steps(states, parameters, actor_params, rng, policy_rng, trajectory, workspace, begin, end, age):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(trajectory.observations.shape[1])
        final_mask, final_features = np.empty(mask_size, np.bool_), np.empty((mask_size, feature_size), np.float32)
        drawn = trajectory.actions.reshape(len(trajectory.actions), row_size)
        row = np.zeros(row_size, row_dtype)  # what step receives, if it is an array: nothing it does to it is recorded
        total, last = 0.0, begin - age + max_steps  # the row before which max_steps cuts the episode
        rows = trajectory
        status = observe_state(
            state, parameters, guarded, rows.observations[begin], rows.masks[begin], rows.features[begin]
        )
        for t in range(begin, end):
            if status != OK:
                return t, total, status
            mask = rows.masks[t]
            outputs = actor(actor_params, rows.observations[t], mask, rows.features[t], workspace)
            action, log_prob = sample(outputs, actor_params, mask, policy_rng, drawn[t], row)
            if not np.isfinite(log_prob):
                return t, total, POLICY_NOT_FINITE
            now, control = time(state, parameters), control_variate(state, parameters)
            lucky = luck(state, parameters)
            reward, terminated = step(state, parameters, action, rng)
            total += reward
            if not np.isfinite(reward):
                return t, total, REWARD_NOT_FINITE
            cut = not terminated and (t + 1 == last or truncated(state, parameters))
            trajectory.log_probs[t] = log_prob
            trajectory.rewards[t] = reward + (control_variate(state, parameters) - control)
            trajectory.elapsed[t] = time(state, parameters) - now
            trajectory.luck[t] = luck(state, parameters) - lucky
            trajectory.terminated[t] = terminated
            trajectory.truncated[t] = cut
            n = t + 1
            if terminated or cut or n == end:
                # The mask after the end is of no use and may rightly be empty, so only the observation is checked.
                status = observe_state(state, parameters, guarded, rows.observations[n], final_mask, final_features)
                if status == EMPTY_MASK:
                    status = OK
                return n, total, status
            status = observe_state(state, parameters, guarded, rows.observations[n], rows.masks[n], rows.features[n])
        return end, total, status

    return collect_steps


def build_play(simulator: Simulator, choose: Function) -> Function:
    """Compile the loop that plays one episode without recording it.

    Args:
        simulator: the simulator.
        choose: ``choose(state, parameters, observation, mask, features, actor_params, rng, workspace, row) -> action``,
            compiled; the action is an integer, or ``row`` filled with one.

    Returns:
        ``play(states, parameters, actor_params, rng, policy_rng, workspace) -> (steps, return, status)``.
    """
    functions, space = compile_functions(simulator), simulator.action_space
    observe_state = build_observe_state(simulator, functions)
    reset, step, truncated = functions.reset, functions.step, functions.truncated
    max_steps, mask_size = simulator.max_steps, sum(space.choices)
    observation_size, feature_size = simulator.observation_size, simulator.action_feature_size
    admit = build_sampling(space).admit
    row_size, row_dtype = row_of(space)

    @njit(nogil=True)
    def play(states, parameters, actor_params, rng, policy_rng, workspace):  # type: ignore[no-untyped-def]
        state = states[0]
        guarded = new_guarded(observation_size)
        observation = np.empty(observation_size, np.float32)
        mask, features = np.empty(mask_size, np.bool_), np.empty((mask_size, feature_size), np.float32)
        row = np.zeros(row_size, row_dtype)
        total = 0.0
        reset(state, parameters, rng)
        for t in range(max_steps):
            status = observe_state(state, parameters, guarded, observation, mask, features)
            if status != OK:
                return t, total, status
            action = choose(state, parameters, observation, mask, features, actor_params, policy_rng, workspace, row)
            if not admit(action, mask):
                return t, total, ACTION_NOT_ALLOWED
            reward, terminated = step(state, parameters, action, rng)
            total += reward
            if not np.isfinite(total):
                return t, total, REWARD_NOT_FINITE
            if terminated or truncated(state, parameters):
                return t + 1, total, OK
        return max_steps, total, OK

    return play


def build_policy_chooser(simulator: Simulator, spec: PolicySpec, greedy: bool) -> Function:
    """Compile the trained policy as a chooser of actions for :func:`build_play`."""
    actor, sampling = _build_actor(spec), build_sampling(spec.action_space, log_std_offset(spec))
    best, sample = sampling.greedy, sampling.sample

    @njit(nogil=True)
    def choose(state, parameters, observation, mask, features, actor_params, rng, workspace, row):  # type: ignore[no-untyped-def]
        outputs = actor(actor_params, observation, mask, features, workspace)
        if greedy:
            return best(outputs, mask, row)
        return sample(outputs, actor_params, mask, rng, row, row)[0]

    return choose


def build_heuristic_chooser(space: ActionSpace, heuristic: Callable[..., Any]) -> Function:
    """Compile a simulator's heuristic as a chooser of actions for :func:`build_play`."""
    act = compiled(heuristic)

    @njit(nogil=True)
    def choose_integer(state, parameters, observation, mask, features, actor_params, rng, workspace, row):  # type: ignore[no-untyped-def]
        return act(state, parameters, mask, rng)

    @njit(nogil=True)
    def choose_row(state, parameters, observation, mask, features, actor_params, rng, workspace, row):  # type: ignore[no-untyped-def]
        row[:] = 0
        act(state, parameters, mask, rng, row)
        return row

    return choose_integer if isinstance(space, Discrete) else choose_row


def _build_actor(spec: PolicySpec) -> Function:
    """Compile the whole actor: its network and, where there are any, the action features."""
    forward, offset = build_forward(spec), feature_weights_offset(spec)
    any_features = spec.action_features > 0

    @njit(nogil=True)
    def actor(actor_params, observation, mask, features, workspace):  # type: ignore[no-untyped-def]
        outputs = forward(actor_params, observation, workspace)
        if any_features:
            add_action_features(outputs, features, mask, actor_params, offset)
        return outputs

    return actor
