"""The policy for callers from Python, compiled: one call answers one observation or a batch."""

import math

import numpy as np
from numba import njit

from core.jit_cache.cache import cached
from core.policies.compiled.forward import build_network, workspace
from core.policies.compiled.sampling import add_action_features, build_sampling, clip, sample_masked, squash
from core.policies.parameter_layout import feature_weights_offset, log_std_offset
from core.policies.spec import PolicySpec
from core.simulators.observe import all_finite
from core.simulators.simulator import Function
from core.simulators.spaces import Box

_BLOCK = 8
"""Observations that pass through the network together."""


def act_workspace(spec: PolicySpec) -> np.ndarray:
    """Return the scratch array, float32[*], of one caller of :func:`build_act`."""
    return workspace(spec, _BLOCK)


def build_act(spec: PolicySpec) -> Function:
    """Compile the policy for rows of observations.

    Args:
        spec: architecture of the policy.

    Returns:
        ``act(params, observations, masks, features, noise, greedy, workspace, actions) -> rows``. It reads params
        float32[*] of the actor, observations float32[B, O], masks bool[B, values of all choices], features
        float32[B, values, k] and, unless ``greedy``, noise float64[B, n]: for each choice uniform in [0, 1), for each
        number of a Box standard normal. It fills actions [B, length of a row] and returns B; or the first row whose
        observation, features or outputs are not finite or whose mask allows nothing.
    """
    network, space = build_network(spec), spec.action_space
    seat, advance, outputs_of = network.seat, network.advance, network.outputs
    best, draw, first_bad = build_sampling(space).greedy, _build_draw(spec), _build_first_bad(space.choices)
    offset, any_features = feature_weights_offset(spec), spec.action_features > 0

    @cached
    @njit(nogil=True)
    def act(params, observations, masks, features, noise, greedy, workspace, actions):  # type: ignore[no-untyped-def]
        rows = first_bad(observations, masks, features)
        for begin in range(0, rows, _BLOCK):
            count = min(_BLOCK, rows - begin)
            for r in range(count):
                seat(params, observations[begin + r], workspace, r)
            advance(params, workspace, count)
            for r in range(count):
                row = begin + r
                outputs, mask = outputs_of(workspace, r), masks[row]
                if any_features:
                    add_action_features(outputs, features[row], mask, params, offset)
                if not all_finite(outputs):
                    return row
                if greedy:
                    actions[row, :] = best(outputs, mask, actions[row])
                else:
                    draw(outputs, params, mask, noise[row], actions[row])
        return rows

    return act


def _build_first_bad(choices: tuple[int, ...]) -> Function:
    """Compile ``first_bad(observations, masks, features) -> row``, the number of rows where nothing is wrong."""
    ends, n_choices = np.cumsum((0, *choices)), len(choices)

    @njit(nogil=True)
    def first_bad(observations, masks, features):  # type: ignore[no-untyped-def]
        for row in range(len(observations)):
            if not all_finite(observations[row]) or not all_finite(features[row].reshape(features[row].size)):
                return row
            for choice in range(n_choices):
                i = ends[choice]
                while i < ends[choice + 1] and not masks[row, i]:
                    i += 1
                if i == ends[choice + 1]:
                    return row
        return len(observations)

    return first_bad


def _build_draw(spec: PolicySpec) -> Function:
    """Compile ``draw(outputs, params, mask, noise, action)``.

    It draws what ``Sampling.sample`` draws from a generator that gives this noise.
    """
    space = spec.action_space
    if isinstance(space, Box):
        (low, high), count, log_std = np.ascontiguousarray(space.bounds), space.outputs, log_std_offset(spec)
        place = squash if space.squashed else clip

        @njit(nogil=True)
        def draw_numbers(outputs, params, mask, noise, action):  # type: ignore[no-untyped-def]
            for i in range(count):
                std = math.exp(np.float64(params[log_std + i]))
                action[i] = place(np.float32(outputs[i] + std * noise[i]), low[i], high[i])

        return draw_numbers
    sizes = np.array(space.choices, np.int64)
    begins = np.cumsum(sizes) - sizes

    @njit(nogil=True)
    def draw_choices(outputs, params, mask, noise, action):  # type: ignore[no-untyped-def]
        for i in range(len(sizes)):
            begin, n = begins[i], sizes[i]
            action[i], _ = sample_masked(outputs[begin : begin + n], mask[begin : begin + n], n, noise[i])

    return draw_choices
