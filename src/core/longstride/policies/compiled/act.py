"""The policy for callers from Python, compiled: one call answers one observation or a batch."""

import math

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.policies.compiled.forward import build_network
from longstride.policies.compiled.sampling import add_action_features, build_place, build_sampling, sample_masked
from longstride.policies.spec import PolicySpec
from longstride.simulators.observe import all_finite, build_mask_check
from longstride.simulators.simulator import Function
from longstride.simulators.spaces import Box

BLOCK = 8
"""Observations that pass through the network together: instances of its workspace."""


def build_act(spec: PolicySpec) -> Function:
    """Compile the policy for rows of observations; few arrays, because each one costs 0.1 to 0.2 µs a call.

    Returns:
        ``act(params, inputs, masks, actions, greedy, workspace) -> rows``: params float32[*] of the actor; inputs
        float32[B, O + values * k + S], each row an observation, its action features, and the policy's state, which is
        replaced by the one after it; masks bool[B, values of all choices]; actions float64[B, n], filled. Unless
        ``greedy`` they come in as noise: for each choice uniform in [0, 1), for each number of a Box standard normal.
        It returns B, or the first row whose inputs or outputs are not finite or whose mask allows nothing.
    """
    network, space = build_network(spec), spec.action_space
    load, advance, outputs_of = network.load, network.advance, network.outputs
    best, draw, first_bad = build_sampling(space).greedy, _build_draw(spec), _build_first_bad(spec)
    n_observation, n_values, n_features = spec.observation_size, sum(space.choices), spec.action_features
    offset, begin_state = spec.layout.feature_weights_offset, n_observation + n_values * n_features
    members = np.arange(BLOCK)

    @cached
    @njit(nogil=True)
    def act(params, inputs, masks, actions, greedy, workspace):  # type: ignore[no-untyped-def]
        rows = first_bad(inputs, masks)
        for begin in range(0, rows, BLOCK):
            count = min(BLOCK, rows - begin)
            for r in range(count):
                load(params, inputs[begin + r], workspace, r)
            advance(params, inputs[begin : begin + count, begin_state:], members, workspace, count)
            for r in range(count):
                row = begin + r
                outputs, mask, action = outputs_of(workspace, r), masks[row], actions[row]
                if n_features > 0:
                    features = inputs[row, n_observation:begin_state].reshape((n_values, n_features))
                    add_action_features(outputs, features, mask, params, offset)
                if not all_finite(outputs):
                    return row
                if greedy:
                    action[:] = best(outputs, mask, action)
                else:
                    draw(outputs, params, mask, action)
        return rows

    return act


def _build_first_bad(spec: PolicySpec) -> Function:
    """Compile ``first_bad(inputs, masks) -> row``, the number of rows where nothing is wrong."""
    allows_a_choice = build_mask_check(spec.action_space)
    begin_state = spec.observation_size + sum(spec.action_space.choices) * spec.action_features

    @njit(nogil=True)
    def first_bad(inputs, masks):  # type: ignore[no-untyped-def]
        for row in range(len(inputs)):
            if not all_finite(inputs[row, :begin_state]) or not allows_a_choice(masks[row]):
                return row
        return len(inputs)

    return first_bad


def _build_draw(spec: PolicySpec) -> Function:
    """Compile ``draw(outputs, params, mask, action)``; it replaces noise by what ``Sampling.sample`` draws from it."""
    space = spec.action_space
    if isinstance(space, Box):
        place, count, log_std = build_place(space), space.outputs, spec.layout.log_std_offset

        @njit(nogil=True)
        def draw_numbers(outputs, params, mask, action):  # type: ignore[no-untyped-def]
            for i in range(count):
                std = math.exp(np.float64(params[log_std + i]))
                action[i] = place(np.float32(outputs[i] + std * action[i]), i)

        return draw_numbers
    sizes = np.array(space.choices, np.int64)
    begins = np.cumsum(sizes) - sizes

    @njit(nogil=True)
    def draw_choices(outputs, params, mask, action):  # type: ignore[no-untyped-def]
        for i in range(len(sizes)):
            begin, n = begins[i], sizes[i]
            action[i], _ = sample_masked(outputs[begin : begin + n], mask[begin : begin + n], n, action[i])

    return draw_choices
