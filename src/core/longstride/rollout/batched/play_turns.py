"""The compiled part of a batched collector: sampled actions, steps and observations of a block of instances.

What it does for an instance is what :mod:`longstride.rollout.collect_steps` does, but for the network, whose outputs it
is given. The instances of a block share a generator, whose state is that of the instance in hand.
"""

import numpy as np
from numba import njit

from longstride.policies.compiled.sampling import add_action_features, build_sampling, row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.batched.arrays import ACTS, BEGINS, ENDED, IDLE
from longstride.rollout.batched.turns import load, next_turn, store
from longstride.rollout.record_step import build_make_step, record
from longstride.rollout.streams.swapped_generator import put_in, take_out
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import build_readers, new_guarded
from longstride.simulators.simulator import (
    OK,
    Function,
    Simulator,
)

EPISODES_ENDED = 0
"""What ``play_turns`` returns where Python has to look at episodes that ended, before the turn is complete."""


def build_play_turns(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile the turns of a thread.

    Returns:
        ``play_turns(states, rng, parameters, actor_params, arrays, block, spins) -> reason``: state records[S], the
        block's generator, :class:`longstride.rollout.batched.arrays.BatchArrays` and ``BlockArrays``, and how often to
        look for the next turn. It returns EPISODES_ENDED, and ``NO_TURN`` or ``OVER`` of
        :mod:`longstride.rollout.batched.turns`. One at fault stops alone.
    """
    functions, size = kernel_functions(simulator), spec.observation_size
    readers = build_readers(simulator, functions)
    begin = _build_begin(functions.reset, readers, spec)
    act = _build_act(build_make_step(functions, simulator.max_steps), readers, spec)

    @njit(nogil=True)
    def play_turns(states, rng, parameters, actor_params, arrays, block, spins):  # type: ignore[no-untyped-def]
        guarded, thread = new_guarded(size), block.thread[0]
        while True:
            half = block.begins_in[0]
            if half < 0:
                half = next_turn(arrays.turns, arrays.done, thread, spins)
                if half < 0:
                    return half
                ended = act(states, rng, parameters, actor_params, arrays, block, half, guarded)
                block.begins_in[0] = half
                if ended > 0:
                    return EPISODES_ENDED
            begin(states, rng, parameters, arrays, block, half, guarded)
            block.begins_in[0] = -1
            store(arrays.done, thread, half, load(arrays.turns, 0, half))

    return play_turns


def _build_act(make_step: Function, readers: tuple[Function, Function], spec: PolicySpec) -> Function:
    """Compile ``act(states, rng, parameters, actor_params, arrays, block, half, guarded) -> ended episodes``."""
    any_features, offset = spec.action_features > 0, spec.layout.feature_weights_offset
    sample, (row_size, row_dtype) = (
        build_sampling(spec.action_space, spec.layout.log_std_offset).sample,
        row_of(spec.action_space),
    )
    read_observation, read_choices = readers

    @njit(nogil=True)
    def act(states, rng, parameters, actor_params, arrays, block, half, guarded):  # type: ignore[no-untyped-def]
        rows, statuses, phases = arrays.rows, arrays.statuses, arrays.phases
        words, rest, end, first = block.words, block.rest, arrays.steps[0], half * arrays.in_a_half[0]
        action_row, ended = np.zeros(row_size, row_dtype), 0
        for i in range(block.bounds[half, 0], block.bounds[half, 1]):
            if phases[i] != ACTS:
                continue
            t, block.playing[0], phases[i] = arrays.next_rows[i], i, IDLE
            state, mask, outputs = states[i], rows.masks[i, t], arrays.outputs[half, i - first]
            if any_features:
                add_action_features(outputs, rows.features[i, t], mask, actor_params, offset)
            put_in(arrays.policy_words[i], words, rest)
            action, log_prob = sample(outputs, actor_params, mask, rng, rows.actions[i, t], action_row)
            take_out(arrays.policy_words[i], words, rest)
            put_in(arrays.simulator_words[i], words, rest)
            made = make_step(state, parameters, action, log_prob, rng, arrays.ages[i])
            take_out(arrays.simulator_words[i], words, rest)
            if made.status != OK:
                statuses[i] = made.status
                continue
            record(arrays, i, t, log_prob, made)
            statuses[i] = read_observation(state, parameters, guarded, rows.observations[i, t + 1])
            if statuses[i] != OK:
                continue
            if made.terminated or made.truncated:  # a last mask may be empty
                phases[i], ended = ENDED, ended + 1
            elif t + 1 < end:
                statuses[i] = read_choices(state, parameters, rows.masks[i, t + 1], rows.features[i, t + 1])
                phases[i] = ACTS if statuses[i] == OK else IDLE
        return ended

    return act


def _build_begin(reset: Function, readers: tuple[Function, Function], spec: PolicySpec) -> Function:
    """Compile ``begin(states, rng, parameters, arrays, block, half, guarded)``.

    It begins episodes, and shows the observations of all instances that go on to the forward pass.
    """
    size, has_memory, (read_observation, read_choices) = spec.observation_size, spec.has_memory, readers

    @njit(nogil=True)
    def begin(states, rng, parameters, arrays, block, half, guarded):  # type: ignore[no-untyped-def]
        rows, ages, statuses, phases = arrays.rows, arrays.ages, arrays.statuses, arrays.phases
        first, going_on = half * arrays.in_a_half[0], 0
        for i in range(block.bounds[half, 0], block.bounds[half, 1]):
            t, block.playing[0] = arrays.next_rows[i], i
            if phases[i] == BEGINS:
                phases[i] = IDLE
                if ages[i] < 0:
                    ages[i] = 0
                    put_in(arrays.simulator_words[i], block.words, block.rest)
                    reset(states[i], parameters, rng)
                    take_out(arrays.simulator_words[i], block.words, block.rest)
                statuses[i] = read_observation(states[i], parameters, guarded, rows.observations[i, t])
                if statuses[i] == OK:
                    statuses[i] = read_choices(states[i], parameters, rows.masks[i, t], rows.features[i, t])
                if statuses[i] == OK:
                    phases[i] = ACTS
            if phases[i] == ACTS:
                going_on += 1
                for j in range(size):
                    arrays.observations[half, i - first, j] = rows.observations[i, t, j]
                if has_memory:
                    arrays.begins[half, i - first, 0] = ages[i] == 0
                    rows.begins[i, t, 0] = ages[i] == 0
        block.going_on[half] = going_on

    return begin
