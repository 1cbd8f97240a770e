"""The compiled loop that makes recorded actions again: the simulator without the policy.

From an instance's state and its actions it fills in everything else that :mod:`longstride.rollout.collect_steps`
records, to the bit: observations, masks, features, rewards, times and ends.
"""

import numpy as np
from numba import njit

from longstride.policies.compiled.sampling import build_place, row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_begin, build_measure
from longstride.simulators.observe import build_readers, new_guarded
from longstride.simulators.simulator import OK, REWARD_NOT_FINITE, Function, Simulator, compile_functions
from longstride.simulators.spaces import ActionSpace, Box, Discrete


def build_replay_steps(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile the loop with the arguments of :func:`longstride.rollout.collect_steps.build_collect_steps`.

    ``arrays.rows.actions`` is read; log-probabilities and the policy's states are left as they are, and the actor's
    parameters are not used. Instances are played one after another.
    """
    functions, max_steps, size = compile_functions(simulator), simulator.max_steps, spec.observation_size
    step, truncated, measure = functions.step, functions.truncated, build_measure(functions)
    begin, (read_observation, read_choices) = build_begin(simulator, spec), build_readers(simulator, functions)
    place_action, has_memory = _build_place_action(simulator.action_space), spec.has_memory
    row_size, row_dtype = row_of(spec.action_space)

    @njit(nogil=True)
    def replay_steps(states, generators, parameters, actor_params, arrays):  # type: ignore[no-untyped-def]
        rows, next_rows, ages, statuses = arrays.rows, arrays.next_rows, arrays.ages, arrays.statuses
        guarded, action_row, end = new_guarded(size), np.zeros(row_size, row_dtype), rows.rewards.shape[1]
        order, count = begin(states, generators, parameters, arrays, guarded)
        for place in range(count):
            i = order[place]
            arrays.playing[0], state = i, states[i]
            while statuses[i] == OK:
                t = next_rows[i]
                if has_memory:
                    rows.begins[i, t, 0] = ages[i] == 0
                time, control = measure(state, parameters)
                action = place_action(rows.actions[i, t], action_row)
                reward, terminated = step(state, parameters, action, generators[i][0])
                arrays.rewards[i] += reward
                if not np.isfinite(reward):
                    statuses[i] = REWARD_NOT_FINITE
                    break
                next_rows[i], ages[i] = t + 1, ages[i] + 1
                cut = not terminated and (ages[i] == max_steps or truncated(state, parameters))
                new_time, new_control = measure(state, parameters)
                rows.rewards[i, t] = reward
                rows.elapsed[i, t], rows.control_variate[i, t] = new_time - time, new_control - control
                rows.terminated[i, t], rows.truncated[i, t] = terminated, cut
                statuses[i] = read_observation(state, parameters, guarded, rows.observations[i, t + 1])
                if terminated or cut or t + 1 == end or statuses[i] != OK:
                    break
                statuses[i] = read_choices(state, parameters, rows.masks[i, t + 1], rows.features[i, t + 1])

    return replay_steps


def _build_place_action(space: ActionSpace) -> Function:
    """Compile ``place_action(drawn, action) -> action``: what ``step`` receives for a recorded row of an action."""
    if isinstance(space, Discrete):

        @njit(nogil=True)
        def read_integer(drawn, action):  # type: ignore[no-untyped-def]
            return drawn[0]

        return read_integer
    if not isinstance(space, Box):

        @njit(nogil=True)
        def copy_row(drawn, action):  # type: ignore[no-untyped-def]
            action[:] = drawn
            return action

        return copy_row
    place, count = build_place(space), space.outputs

    @njit(nogil=True)
    def bound_row(drawn, action):  # type: ignore[no-untyped-def]
        for i in range(count):
            action[i] = place(drawn[i], i)
        return action

    return bound_row
