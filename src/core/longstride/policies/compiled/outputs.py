"""The policy on recorded steps, compiled: its outputs and greedy actions, for comparisons with its other forms."""

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.policies.compiled.forward import build_forward
from longstride.policies.compiled.sampling import add_action_features, build_sampling
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Function


def build_outputs(spec: PolicySpec) -> Function:
    """Compile the policy for steps one after another.

    Returns:
        ``outputs_of(params, observations, masks, features, begins, state, workspace, outputs, actions)``: params
        float32[*] of the actor, observations float32[T, O], masks bool[T, values], features float32[T, values, k],
        begins bool[T], whether a step is the first of an episode, state float32[state_size], scratch. Outputs
        float32[T, outputs], not masked, and actions float64[T, n] are filled.
    """
    forward, best = build_forward(spec), build_sampling(spec.action_space).greedy
    any_features, offset = spec.action_features > 0, spec.layout.feature_weights_offset

    @cached
    @njit(nogil=True)
    def outputs_of(params, observations, masks, features, begins, state, workspace, outputs, actions):  # type: ignore[no-untyped-def]
        for t in range(len(observations)):
            if begins[t]:
                state[:] = np.float32(0.0)
            found, mask, action = forward(params, observations[t], state, workspace), masks[t], actions[t]
            if any_features:
                add_action_features(found, features[t], mask, params, offset)
            outputs[t, :] = found
            action[:] = best(found, mask, action)

    return outputs_of
