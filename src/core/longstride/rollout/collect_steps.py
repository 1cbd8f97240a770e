"""The compiled loop that records trajectories: simulator and policy together, without Python in between.

It plays one instance, or several side by side on one core: the actor then reads a part of its parameters once for all
of them. The arithmetic of an instance is the same, to the bit, whatever is played beside it.
"""

import numpy as np
from numba import njit

from longstride.policies.compiled.forward import build_network
from longstride.policies.compiled.sampling import add_action_features, build_sampling, row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_listed import build_collect_listed
from longstride.rollout.exploring.finds import note_find
from longstride.rollout.outcomes.draw_outcomes import build_draw_outcomes
from longstride.rollout.record_step import build_make_step, record
from longstride.rollout.streams.generator_addresses import as_generator
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import build_readers, new_guarded
from longstride.simulators.simulator import (
    OK,
    Function,
    Simulator,
)


def build_collect_steps(simulator: Simulator, spec: PolicySpec, draws: bool = False) -> Function:
    """Compile the loop that continues an episode of each instance, to its end or to the last row of its trajectory.

    With ``draws`` it writes further outcomes of each step; policies that score actions have none.

    Returns:
        ``collect_steps(states, generators, parameters, actor_params, arrays)``: state records,
        :class:`longstride.rollout.streams.generator_addresses.GeneratorRows` of as many instances,
        :class:`longstride.rollout.loop_arrays.LoopArrays`. One at fault stops alone.
    """
    return build_collect_listed(simulator, spec) if spec.scores_actions else _build_masked(simulator, spec, draws)


def _build_masked(simulator: Simulator, spec: PolicySpec, draws: bool) -> Function:
    """Compile the loop for policies with an output for each action, or for each number of one."""
    size, network = spec.observation_size, build_network(spec)
    load, advance, outputs_of = network.load, network.advance, network.outputs
    any_features, note_state = spec.action_features > 0, _build_note_state(spec)
    layout = spec.layout
    sample, offset = build_sampling(spec.action_space, layout.log_std_offset).sample, layout.feature_weights_offset
    functions = kernel_functions(simulator)
    read_observation, read_choices = build_readers(simulator, functions)
    begin, make_step = build_begin(simulator, spec), build_make_step(functions, simulator.max_steps)
    draw_outcomes = build_draw_outcomes(simulator) if draws else _draw_none
    row_size, row_dtype = row_of(spec.action_space)

    @njit(nogil=True)
    def collect_steps(states, generators, parameters, actor_params, arrays):  # type: ignore[no-untyped-def]
        rows, policy_states, workspace = arrays.rows, arrays.policy_states, arrays.workspace
        next_rows, ages, statuses, playing = arrays.next_rows, arrays.ages, arrays.statuses, arrays.playing
        guarded, action_row, end = new_guarded(size), np.zeros(row_size, row_dtype), rows.rewards.shape[1]
        given = np.zeros(row_size, row_dtype)
        explores = arrays.finds.rarity.shape[1] > 0
        order, count = begin(states, generators, parameters, arrays, guarded)
        while count > 0:
            for place in range(count):
                i = order[place]
                t = next_rows[i]
                note_state(rows, policy_states, ages, i, t)
                load(actor_params, rows.observations[i, t], workspace, place)
            advance(actor_params, policy_states, order, workspace, count)
            remaining = 0
            for place in range(count):
                i = order[place]
                t, playing[0] = next_rows[i], i
                state, mask, outputs = states[i], rows.masks[i, t], outputs_of(workspace, place)
                if any_features:
                    add_action_features(outputs, rows.features[i, t], mask, actor_params, offset)
                rng, drawn = as_generator(generators.policy[i]), rows.actions[i, t]
                action, log_prob = sample(outputs, actor_params, mask, rng, drawn, action_row)
                if draws:
                    arrays.outcomes.copies[i, 0], given[:] = state, action_row
                made = make_step(state, parameters, action, log_prob, as_generator(generators.simulator[i]), ages[i])
                if made.status != OK:
                    statuses[i] = made.status
                    continue
                if draws:
                    statuses[i] = draw_outcomes(arrays.outcomes, i, t, parameters, action, given, guarded)
                    if statuses[i] != OK:
                        continue
                record(arrays, i, t, log_prob, made)
                statuses[i] = read_observation(state, parameters, guarded, rows.observations[i, t + 1])
                going_on = not (made.terminated or made.truncated) and statuses[i] == OK
                if explores and going_on:
                    note_find(arrays.finds, i, state, rows.observations[i, t + 1], ages[i], actor_params)
                if going_on and t + 1 != end:  # a last mask may be empty
                    statuses[i] = read_choices(state, parameters, rows.masks[i, t + 1], rows.features[i, t + 1])
                    if statuses[i] == OK:
                        order[remaining], remaining = i, remaining + 1
            count = remaining

    return collect_steps


@njit(nogil=True)
def _draw_none(outcomes, i, t, parameters, action, given, guarded):  # type: ignore[no-untyped-def]
    return OK


def build_begin(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile what comes before the first step: a new episode where one has to begin, observation, mask, features.

    Returns:
        ``begin(states, generators, parameters, arrays, guarded) -> (order, count)``: order int64[S] begins with the
        ``count`` instances that can make a step.
    """
    functions, state_size = kernel_functions(simulator), spec.state_size
    reset, (read_observation, read_choices) = functions.reset, build_readers(simulator, functions)

    @njit(nogil=True)
    def begin(states, generators, parameters, arrays, guarded):  # type: ignore[no-untyped-def]
        rows, ages, statuses, count = arrays.rows, arrays.ages, arrays.statuses, 0
        order = np.zeros(len(ages), np.int64)
        for i in range(len(ages)):
            arrays.playing[0], t, state = i, arrays.next_rows[i], states[i]
            if ages[i] < 0:
                ages[i] = 0
                for j in range(state_size):
                    arrays.policy_states[i, j] = 0.0
                reset(state, parameters, as_generator(generators.simulator[i]))
            statuses[i] = read_observation(state, parameters, guarded, rows.observations[i, t])
            if statuses[i] == OK:
                statuses[i] = read_choices(state, parameters, rows.masks[i, t], rows.features[i, t])
            if statuses[i] == OK:
                order[count] = i
                count += 1
        return order, count

    return begin


def _build_note_state(spec: PolicySpec) -> Function:
    """Compile ``note_state(rows, policy_states, ages, i, t)``: what a policy with memory is trained with later."""
    has_memory, chunk = spec.has_memory, spec.chunk

    @njit(nogil=True)
    def note_state(rows, policy_states, ages, i, t):  # type: ignore[no-untyped-def]
        if has_memory:
            rows.begins[i, t, 0] = ages[i] == 0
            if t % chunk == 0 and t // chunk < rows.states.shape[1]:
                rows.states[i, t // chunk, :] = policy_states[i]

    return note_state
