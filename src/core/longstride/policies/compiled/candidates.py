"""Scores of feasible actions on the CPU, compiled by Numba; :mod:`longstride.policies.candidates` has the formula.

The encoding of the observation is computed by :mod:`longstride.policies.compiled.forward`, once a decision. Then the
descriptions go through the two small layers in blocks, which read each matrix once for a block.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.policies.compiled.forward import build_forward
from longstride.policies.compiled.products import build_add_product, relu, tanh
from longstride.policies.compiled.sparse_matvec import INPUTS
from longstride.policies.parameter_layout import (
    ACTION_MEAN,
    ACTION_SCALE,
    DESCRIBE,
    FEATURE_WEIGHTS,
    MIX,
    MIX_BIAS,
    SCORE,
    USUAL_LIMIT,
)
from longstride.policies.spec import PolicySpec
from longstride.simulators.observe import all_finite
from longstride.simulators.simulator import Function

_BLOCK = 16
"""Actions that pass through the layers together."""


class Scorer(NamedTuple):
    """The compiled functions of a policy that scores actions.

    Attributes:
        score: ``score(params, encoding, descriptions, count, scores, scratch)`` writes the scores of the first
            ``count`` of float32[n, F] descriptions to float32[n]; encoding is float32[D], scratch float32[*].
        scratch_size: values of the scratch.
    """

    score: Function
    scratch_size: int


@cache
def build_scorer(spec: PolicySpec) -> Scorer:
    """Compile the scores of a policy's actions."""
    offsets, figures, units = spec.layout.offsets, spec.action_features, spec.score_units
    describe, mix, bias, head = (offsets[name] for name in (DESCRIBE, MIX, MIX_BIAS, SCORE))
    linear, mean, scale = (offsets[name] for name in (FEATURE_WEIGHTS, ACTION_MEAN, ACTION_SCALE))
    stride = -(-max(figures, units) // INPUTS) * INPUTS
    half, clip = _BLOCK * stride, np.float32(USUAL_LIMIT)
    add, activate = build_add_product(units), relu if spec.activation == "relu" else tanh

    @njit(nogil=True, fastmath={"contract"})
    def score(params, encoding, descriptions, count, scores, scratch):  # type: ignore[no-untyped-def]
        for first in range(0, count, _BLOCK):
            rows = min(_BLOCK, count - first)
            for r in range(rows):
                x = r * stride
                for k in range(figures):
                    value = (descriptions[first + r, k] - params[mean + k]) * params[scale + k]
                    scratch[x + k] = min(max(value, -clip), clip)
                for j in range(units):
                    scratch[half + x + j] = encoding[j]
            add(params, describe, scratch, 0, figures, half, rows, stride)
            for r in range(rows):
                activate(scratch, half + r * stride, units)
                for j in range(units):
                    scratch[r * stride + j] = params[bias + j]
            add(params, mix, scratch, half, units, 0, rows, stride)
            for r in range(rows):
                activate(scratch, r * stride, units)
                total = np.float32(0.0)
                for j in range(units):
                    total += scratch[r * stride + j] * params[head + j]
                for k in range(figures):
                    total += descriptions[first + r, k] * params[linear + k]
                scores[first + r] = total

    return Scorer(score, 2 * half)


@njit(nogil=True)
def sample_score(scores, count, uniform):  # type: ignore[no-untyped-def]
    """Return one of ``count`` places, drawn from softmax(scores) by inversion, and its log-probability, a float32."""
    highest = -np.inf
    for j in range(count):
        highest = max(highest, scores[j])
    total = 0.0
    for j in range(count):
        total += math.exp(scores[j] - highest)
    target = uniform * total
    place = 0
    for j in range(count):
        place = j
        target -= math.exp(scores[j] - highest)
        if target < 0.0:
            break
    return place, np.float32(scores[place] - highest - math.log(total))


@njit(nogil=True)
def greedy_score(scores, count):  # type: ignore[no-untyped-def]
    """Return the place with the highest of ``count`` scores, the first of equals."""
    place = 0
    for j in range(1, count):
        if scores[j] > scores[place]:
            place = j
    return place


def build_act_on_list(spec: PolicySpec) -> Function:
    """Compile ``act(params, observation, features, noise, state, workspace, scratch) -> place``.

    ``noise`` is uniform in [0, 1), or negative for the likeliest action. The place is -1 where something is not finite.
    """
    forward, score = build_forward(spec), build_scorer(spec).score

    @cached
    @njit(nogil=True)
    def act(params, observation, features, noise, state, workspace, scratch):  # type: ignore[no-untyped-def]
        count = len(features)
        if not (all_finite(observation) and all_finite(features.reshape(features.size))):
            return -1
        scores = np.empty(count, np.float32)
        encoding = forward(params, observation, state, workspace)
        score(params, encoding, features, count, scores, scratch)
        if not all_finite(scores):
            return -1
        return greedy_score(scores, count) if noise < 0.0 else sample_score(scores, count, noise)[0]

    return act
