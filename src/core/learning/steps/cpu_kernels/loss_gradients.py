"""From the networks' outputs to loss terms and their derivatives by those outputs, sample by sample.

The definitions are those of :mod:`core.policies.distributions` and :mod:`core.learning.algorithms.ppo`; a test compares
them. A head overwrites the outputs by the derivatives of the total loss and adds to ``terms``, float64[7], the fields
of :class:`core.learning.algorithms.ppo.LossTerms`.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from core.jit_cache.cache import cached

POLICY, VALUE, ENTROPY, APPROX_KL, CLIP_FRACTION, RATIO_ERROR = range(1, 7)
"""Places in the terms; the total is at 0."""

_FORBIDDEN = np.float32(-1e30)
_LOG_SQRT_TAU = 0.5 * math.log(2.0 * math.pi)


class Columns(NamedTuple):
    """N samples of a rollout, as :class:`core.learning.algorithms.ppo.Batch` has them, but for the weights."""

    observations: np.ndarray
    actions: np.ndarray
    """int64[N, choices] or float32[N, numbers]."""
    log_probs: np.ndarray
    masks: np.ndarray
    features: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray
    values: np.ndarray


class Coefficients(NamedTuple):
    """Of the loss; floats, so that a change compiles nothing."""

    clip_range: float
    entropy_coefficient: float
    value_coefficient: float
    value_clip_range: float


@njit(nogil=True)
def policy_term(log_prob, k, weight, columns, c, terms):  # type: ignore[no-untyped-def]
    """Add sample k's part of the policy terms; return the derivative of the total by its log-probability."""
    advantage = columns.advantages[k]
    log_ratio = log_prob - columns.log_probs[k]
    ratio = np.float32(math.exp(log_ratio))
    clipped = 1.0 - c.clip_range if ratio < 1.0 - c.clip_range else np.float64(ratio)
    clipped = 1.0 + c.clip_range if clipped > 1.0 + c.clip_range else clipped
    cut = ratio * advantage > clipped * advantage  # false for NaN, so that the term is NaN then
    terms[POLICY] -= (clipped * advantage if cut else ratio * advantage) * weight
    terms[APPROX_KL] += (ratio - 1.0 - log_ratio) * weight
    error = abs(ratio - 1.0)
    terms[CLIP_FRACTION] += weight if error > c.clip_range else 0.0
    if weight > 0.0 and (error > terms[RATIO_ERROR] or error != error):
        terms[RATIO_ERROR] = error
    return -(0.0 if cut and clipped != ratio else advantage * weight) * ratio  # 0 times an infinite ratio: NaN


@cached
@njit(nogil=True)
def value_head(values, indices, weights, columns, c, terms):  # type: ignore[no-untyped-def]
    """Turn the critic's outputs, float32[rows], into derivatives."""
    for row in range(len(indices)):
        k, weight, value = indices[row], weights[row], values[row]
        error = np.float64(value) - columns.returns[k]
        squared, slope = error * error, error
        if c.value_clip_range > 0.0:
            moved = np.float64(value) - columns.values[k]
            if abs(moved) > c.value_clip_range:
                clipped = columns.values[k] + math.copysign(c.value_clip_range, moved) - columns.returns[k]
                if clipped * clipped > squared:
                    squared, slope = clipped * clipped, 0.0
        terms[VALUE] += 0.5 * squared * weight
        values[row] = c.value_coefficient * slope * weight


@cached
@njit(nogil=True)
def choices_head(logits, parts, indices, weights, columns, c, flat, features_at, gradient, terms):  # type: ignore[no-untyped-def]
    """Turn the logits of one or several masked choices into derivatives.

    Args:
        logits: float32[rows, values of all choices].
        parts: int64[choices + 1], where each choice begins in a row, and the end.
        indices: int64[rows].
        weights: float32[rows].
        columns: the rollout.
        c: :class:`Coefficients`.
        flat: float32[*], which holds the weights of the action features from ``features_at`` on.
        features_at: int.
        gradient: float32, of the shape of ``flat``; its part for those weights is overwritten.
        terms: float64[7].
    """
    n_features, n = columns.features.shape[2], logits.shape[1]
    p, entropies = np.empty(n, np.float32), np.empty(len(parts) - 1, np.float32)
    for f in range(n_features):  # a slice assignment would take Numba longer to compile
        gradient[features_at + f] = 0.0
    for row in range(len(indices)):
        k, weight, z = indices[row], weights[row], logits[row]
        mask, features, actions = columns.masks[k], columns.features[k], columns.actions[k]
        for j in range(n if n_features else 0):
            for f in range(n_features):
                z[j] += features[j, f] * flat[features_at + f]
        log_prob, entropy = np.float32(0.0), np.float32(0.0)
        for part in range(len(entropies)):
            entropies[part] = _log_softmax(z, mask, parts[part], parts[part + 1], p)
            entropy += entropies[part]
            log_prob += z[parts[part] + actions[part]]
        terms[ENTROPY] += entropy * weight
        by_log_prob = np.float32(policy_term(log_prob, k, weight, columns, c, terms))
        by_entropy = np.float32(-c.entropy_coefficient * weight)
        for part in range(len(entropies)):
            for j in range(parts[part], parts[part + 1]):  # dlog p_a/dz_j = [j = a] - p_j, dH/dz_j = -p_j (log p_j + H)
                chosen = np.float32(j == parts[part] + actions[part])
                slope = by_log_prob * (chosen - p[j]) - by_entropy * p[j] * (z[j] + entropies[part])
                z[j] = slope if mask[j] else np.float32(0.0)
        for j in range(n if n_features else 0):
            for f in range(n_features):
                gradient[features_at + f] += z[j] * features[j, f]


@njit(nogil=True, error_model="numpy")
def _log_softmax(z, mask, begin, end, p):  # type: ignore[no-untyped-def]
    """Replace the logits of one choice by log-probabilities, write its probabilities, return its entropy."""
    largest, total, entropy = np.float32(-np.inf), np.float32(0.0), np.float32(0.0)
    for j in range(begin, end):
        z[j] = z[j] if mask[j] else _FORBIDDEN
        largest = z[j] if z[j] > largest else largest
    for j in range(begin, end):
        p[j] = math.exp(z[j] - largest) if mask[j] else np.float32(0.0)
        total += p[j]
    shift, scale = largest + math.log(total), np.float32(1.0) / total
    for j in range(begin, end):
        z[j] -= shift
        p[j] *= scale
        entropy -= p[j] * z[j]
    return entropy


@cached
@njit(nogil=True)
def gaussian_head(means, nodes, log_area, indices, weights, columns, c, flat, log_std_at, gradient, terms):  # type: ignore[no-untyped-def]
    """Turn the means of Gaussians, plain or squashed by tanh, into derivatives.

    Args:
        means: float32[rows, numbers].
        nodes: float64[2, n], points and weights of the quadrature in a squashed Gaussian's entropy; n = 0 for a plain
            one.
        log_area: of :func:`core.policies.distributions.squashed_gaussian`; 0 for a plain one.
        indices: as for :func:`choices_head`, like ``weights``, ``columns``, ``c`` and ``terms``.
        weights: float32[rows].
        columns: the rollout.
        c: :class:`Coefficients`.
        flat: float32[*], which holds the logarithms of the standard deviations from ``log_std_at`` on.
        log_std_at: int.
        gradient: float32, of the shape of ``flat``; its part for those logarithms is overwritten.
        terms: float64[7].
    """
    numbers, squashed = means.shape[1], nodes.shape[1] > 0
    log_std = flat[log_std_at : log_std_at + numbers]
    by_log_std = gradient[log_std_at : log_std_at + numbers]
    for i in range(numbers):
        by_log_std[i] = 0.0
    for row in range(len(indices)):
        k, weight, mean = indices[row], weights[row], means[row]
        actions = columns.actions[k]
        log_prob, entropy = -log_area, log_area
        for i in range(numbers):
            z = (actions[i] - mean[i]) * math.exp(-np.float64(log_std[i]))
            log_prob -= 0.5 * z * z + log_std[i] + _LOG_SQRT_TAU
            entropy += log_std[i] + _LOG_SQRT_TAU + 0.5
            if squashed:
                log_prob -= _log_slope(actions[i])
        by_log_prob = policy_term(log_prob, k, weight, columns, c, terms)
        by_entropy = -c.entropy_coefficient * weight
        for i in range(numbers):
            std = math.exp(np.float64(log_std[i]))
            z = (actions[i] - mean[i]) / std
            slope, by_deviation = 0.0, 1.0
            for q in range(nodes.shape[1]):
                point = mean[i] + std * nodes[0, q]
                entropy += nodes[1, q] * _log_slope(point)
                slope -= 2.0 * nodes[1, q] * math.tanh(point)
                by_deviation -= 2.0 * nodes[1, q] * math.tanh(point) * std * nodes[0, q]
            mean[i] = by_log_prob * z / std + by_entropy * slope
            by_log_std[i] += by_log_prob * (z * z - 1.0) + by_entropy * by_deviation
        terms[ENTROPY] += entropy * weight


@njit(nogil=True)
def _log_slope(x):  # type: ignore[no-untyped-def]
    """Return log(1 - tanh(x)^2), as :func:`core.policies.distributions.log_slope` does; its slope is -2 tanh(x)."""
    return 2.0 * (math.log(2.0) - abs(x) - math.log1p(math.exp(-2.0 * abs(x))))
