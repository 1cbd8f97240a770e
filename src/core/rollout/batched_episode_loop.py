"""Several episodes side by side on one core: the loop of :mod:`core.rollout.episode_loop` for several streams.

The actor reads a part of its weights once for all of them, and each stream's arithmetic is what it is alone, to the
bit. With one stream the other loop is faster, so this one is compiled only where there are several.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from core.policies.compiled.forward import build_network
from core.policies.compiled.sampling import add_action_features, build_sampling, row_of
from core.policies.parameter_layout import feature_weights_offset, log_std_offset
from core.policies.spec import PolicySpec
from core.simulators.observe import build_observe_state, new_guarded
from core.simulators.simulator import (
    EMPTY_MASK,
    OK,
    POLICY_NOT_FINITE,
    REWARD_NOT_FINITE,
    Function,
    Simulator,
    compile_functions,
)

_CACHE_LINE = 64
"""Bytes in one."""


class LoopResult(NamedTuple):
    """Where the loop leaves each of its streams.

    Attributes:
        rows: int64[streams], number of its decisions.
        rewards: float64[streams], their sum.
        statuses: int64[streams], what is wrong, if anything is.
        playing: int64[1], the stream in hand: the one that an exception comes from.
    """

    rows: np.ndarray
    rewards: np.ndarray
    statuses: np.ndarray
    playing: np.ndarray


def new_loop_result(streams: int) -> LoopResult:
    """Return room for what becomes of so many streams."""
    rows, statuses, playing = (apart(n, np.dtype(np.int64)) for n in (streams, streams, 1))
    return LoopResult(rows, apart(streams, np.dtype(np.float64)), statuses, playing)


def apart(count: int, dtype: np.dtype) -> np.ndarray:
    """Return zeros that share no cache line with anything else: threads that write to one line wait for each other."""
    size = count * dtype.itemsize
    room = np.zeros(size + 2 * _CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % _CACHE_LINE
    return room[begin : begin + size].view(dtype)


def build_batched_loop(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile the loop that plays several episodes from their beginnings to their ends.

    One that ends, or is at fault, leaves the others to go on.

    Args:
        simulator: the simulator.
        spec: architecture of the policy.

    Returns:
        ``lockstep(states, parameters, actor_params, rngs, policy_rngs, rows, workspace, ends)``, with as many streams
        as ``ends`` has room for: a record of ``states`` for each, freshly reset, a generator of each of the two tuples
        (which may hold more) and, along the first axis of every array, a trajectory of ``rows``.
    """
    functions, space = compile_functions(simulator), simulator.action_space
    seat, advance, outputs_of = build_network(spec)
    sample, offset = build_sampling(space, log_std_offset(spec)).sample, feature_weights_offset(spec)
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
    def lockstep(states, parameters, actor_params, rngs, policy_rngs, rows, workspace, ends):  # type: ignore[no-untyped-def]
        guarded = new_guarded(rows.observations.shape[2])
        final_mask, final_features = np.empty(mask_size, np.bool_), np.empty((mask_size, feature_size), np.float32)
        drawn = rows.actions.reshape((rows.actions.shape[0], rows.actions.shape[1], row_size))
        row = np.zeros(row_size, row_dtype)  # what step receives, if it is an array: nothing it does to it is recorded
        playing, count = np.zeros(len(ends.rows), np.int64), 0
        for g in range(len(ends.rows)):
            ends.playing[0] = g
            seen = rows.observations[g, 0], rows.masks[g, 0], rows.features[g, 0]
            ends.statuses[g] = observe_state(states[g], parameters, guarded, *seen)
            if ends.statuses[g] == OK:
                playing[count] = g
                count += 1
        t = 0
        while count > 0:
            for k in range(count):
                seat(actor_params, rows.observations[playing[k], t], workspace, k)
            advance(actor_params, workspace, count)
            n, staying = t + 1, 0
            for k in range(count):
                g = playing[k]
                ends.playing[0] = g
                state, mask, outputs = states[g], rows.masks[g, t], outputs_of(workspace, k)
                if feature_size > 0:
                    add_action_features(outputs, rows.features[g, t], mask, actor_params, offset)
                action, log_prob = sample(outputs, actor_params, mask, policy_rngs[g], drawn[g, t], row)
                if not np.isfinite(log_prob):
                    ends.statuses[g] = POLICY_NOT_FINITE
                    continue
                now, control = time(state, parameters), control_variate(state, parameters)
                lucky = luck(state, parameters)
                reward, terminated = step(state, parameters, action, rngs[g])
                ends.rewards[g] += reward
                if not np.isfinite(reward):
                    ends.statuses[g] = REWARD_NOT_FINITE
                    continue
                cut = not terminated and (n == max_steps or truncated(state, parameters))
                rows.log_probs[g, t] = log_prob
                rows.rewards[g, t] = reward + (control_variate(state, parameters) - control)
                rows.elapsed[g, t] = time(state, parameters) - now
                rows.luck[g, t] = luck(state, parameters) - lucky
                rows.terminated[g, t] = terminated
                rows.truncated[g, t] = cut
                ends.rows[g] = n
                if terminated or cut:
                    # The mask after the end is of no use and may rightly be empty, so only the observation is checked.
                    status = observe_state(
                        state, parameters, guarded, rows.observations[g, n], final_mask, final_features
                    )
                    ends.statuses[g] = OK if status == EMPTY_MASK else status
                    continue
                seen = rows.observations[g, n], rows.masks[g, n], rows.features[g, n]
                ends.statuses[g] = observe_state(state, parameters, guarded, *seen)
                if ends.statuses[g] == OK:
                    playing[staying] = g
                    staying += 1
            t, count = n, staying

    return lockstep
