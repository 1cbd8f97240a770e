"""The greedy action with the probabilities of all actions, compiled: for those who show people a choice."""

import math

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.policies.compiled.candidates import build_scorer, greedy_score
from longstride.policies.compiled.forward import build_forward
from longstride.policies.compiled.sampling import add_action_features, greedy_masked
from longstride.policies.spec import PolicySpec
from longstride.simulators.observe import all_finite, build_mask_check
from longstride.simulators.simulator import Function


@njit(nogil=True)
def softmax_masked(logits, mask, probabilities):  # type: ignore[no-untyped-def]
    """Write softmax(logits) of the allowed actions to float32[n], 0 for the others."""
    highest, total = -np.inf, 0.0
    for j in range(len(logits)):
        if mask[j] and logits[j] > highest:
            highest = logits[j]
    for j in range(len(logits)):
        if mask[j]:
            total += math.exp(logits[j] - highest)
    for j in range(len(logits)):
        probabilities[j] = np.float32(math.exp(logits[j] - highest) / total if mask[j] else 0.0)


def build_decide(spec: PolicySpec) -> Function:
    """Compile ``decide(params, inputs, mask, probabilities, workspace) -> action`` of a Discrete policy.

    ``inputs``, float32[O + n * k + S], are an observation, its action features, and the policy's state, which is
    replaced by the one after it. Probabilities, float32[n], are filled. The action is -1 where inputs or outputs are
    not finite or the mask, bool[n], allows nothing.
    """
    forward, allows_a_choice = build_forward(spec), build_mask_check(spec.action_space)
    n_observation, n_values, n_features = spec.observation_size, sum(spec.action_space.choices), spec.action_features
    offset, begin_state = spec.layout.feature_weights_offset, n_observation + n_values * n_features

    @cached
    @njit(nogil=True)
    def decide(params, inputs, mask, probabilities, workspace):  # type: ignore[no-untyped-def]
        if not all_finite(inputs[:begin_state]) or not allows_a_choice(mask):
            return -1
        logits = forward(params, inputs[:n_observation], inputs[begin_state:], workspace)
        if n_features > 0:
            features = inputs[n_observation:begin_state].reshape((n_values, n_features))
            add_action_features(logits, features, mask, params, offset)
        if not all_finite(logits):
            return -1
        softmax_masked(logits, mask, probabilities)
        return greedy_masked(logits, mask, n_values)

    return decide


def build_decide_on_list(spec: PolicySpec) -> Function:
    """Compile ``decide(params, observation, features, probabilities, state, workspace, scratch) -> place``.

    The arguments are those of :func:`longstride.policies.compiled.candidates.build_act_on_list`; probabilities,
    float32[n], are those of the n listed actions.
    """
    forward, score = build_forward(spec), build_scorer(spec).score

    @cached
    @njit(nogil=True)
    def decide(params, observation, features, probabilities, state, workspace, scratch):  # type: ignore[no-untyped-def]
        count = len(features)
        if not (all_finite(observation) and all_finite(features.reshape(features.size))):
            return -1
        scores = np.empty(count, np.float32)
        encoding = forward(params, observation, state, workspace)
        score(params, encoding, features, count, scores, scratch)
        if not all_finite(scores):
            return -1
        softmax_masked(scores, np.ones(count, np.bool_), probabilities)
        return greedy_score(scores, count)

    return decide
