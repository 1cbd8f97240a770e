"""From the networks' outputs to loss terms and their derivatives by those outputs, sample by sample.

The definitions are those of :mod:`longstride.policies.distributions` and :mod:`longstride.learning.algorithms.ppo`; a
test compares them. A head overwrites the outputs by the derivatives of the total loss and adds to ``terms``,
float64[6].
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached

TERMS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_error")
"""Names of the terms, as in :class:`longstride.learning.algorithms.ppo.LossTerms`; all but the last one are sums."""

_POLICY, _VALUE, _ENTROPY, _APPROX_KL, _CLIP_FRACTION, RATIO_ERROR = range(len(TERMS))

_FORBIDDEN = np.float32(-1e30)
_LOG_SQRT_TAU = 0.5 * math.log(2.0 * math.pi)


class KernelCoefficients(NamedTuple):
    """Clip range of PPO and derivatives of the total loss by its terms; floats, so that a change compiles nothing."""

    clip_range: float
    by_policy_loss: float
    by_value_loss: float
    by_entropy: float


class Piece(NamedTuple):
    """Samples of a piece of a minibatch: int64[rows] indices of the rollout, float32[rows] shares in the minibatch.

    The rollout is :class:`longstride.learning.algorithms.interface.Samples` of arrays, actions int64[N, choices] or
    float32[N, numbers].
    """

    rollout: Any
    indices: np.ndarray
    weights: np.ndarray
    coefficients: KernelCoefficients


class HeadParameters(NamedTuple):
    """Parameters of the actor beside its layers, float32[k], and the place of their gradient, overwritten."""

    values: np.ndarray
    gradient: np.ndarray


@njit(nogil=True)
def _policy_terms(log_prob, row, piece, terms):  # type: ignore[no-untyped-def]
    """Add a sample's part of the policy terms; return the derivative of the total by its log-probability."""
    rollout, coefficients, k, weight = piece.rollout, piece.coefficients, piece.indices[row], piece.weights[row]
    clip_range = coefficients.clip_range
    advantage = rollout.advantages[k]
    log_ratio = log_prob - rollout.log_probs[k]
    ratio = np.float32(math.exp(log_ratio))
    clipped = 1.0 - clip_range if ratio < 1.0 - clip_range else np.float64(ratio)
    clipped = 1.0 + clip_range if clipped > 1.0 + clip_range else clipped
    cut = ratio * advantage > clipped * advantage  # false for NaN, so that the term is NaN then
    terms[_POLICY] -= (clipped * advantage if cut else ratio * advantage) * weight
    terms[_APPROX_KL] += (ratio - 1.0 - log_ratio) * weight
    error = abs(ratio - 1.0)
    terms[_CLIP_FRACTION] += weight if error > clip_range else 0.0
    if weight > 0.0 and (error > terms[RATIO_ERROR] or error != error):
        terms[RATIO_ERROR] = error
    slope = -(0.0 if cut and clipped != ratio else advantage * weight) * ratio  # 0 times an infinite ratio: NaN
    return slope * coefficients.by_policy_loss


@cached
@njit(nogil=True)
def value_head(values, piece, terms):  # type: ignore[no-untyped-def]
    """Turn the critic's outputs, float32[rows], into derivatives."""
    rollout, by_value_loss = piece.rollout, piece.coefficients.by_value_loss
    for row in range(len(piece.indices)):
        k, weight, value = piece.indices[row], piece.weights[row], values[row]
        error = np.float64(value) - rollout.returns[k]
        terms[_VALUE] += 0.5 * (error * error) * weight
        values[row] = by_value_loss * error * weight


@cached
@njit(nogil=True)
def choices_head(logits, parts, piece, head, terms):  # type: ignore[no-untyped-def]
    """Turn the logits of masked choices, float32[rows, values of all choices], into derivatives.

    Each choice begins at its element of int64[choices + 1] ``parts``, whose last is the end. The head has the weights
    of the action features.
    """
    rollout, feature_weights, by_feature_weights = piece.rollout, head.values, head.gradient
    n_features, n = rollout.features.shape[2], logits.shape[1]
    p, entropies = np.empty(n, np.float32), np.empty(len(parts) - 1, np.float32)
    for f in range(n_features):  # a slice assignment would take Numba longer to compile
        by_feature_weights[f] = 0.0
    for row in range(len(piece.indices)):
        k, weight, z = piece.indices[row], piece.weights[row], logits[row]
        mask, features, actions = rollout.masks[k], rollout.features[k], rollout.actions[k]
        for j in range(n if n_features else 0):
            for f in range(n_features):
                z[j] += features[j, f] * feature_weights[f]
        log_prob, entropy = np.float32(0.0), np.float32(0.0)
        for part in range(len(entropies)):
            entropies[part] = _log_softmax(z, mask, parts[part], parts[part + 1], p)
            entropy += entropies[part]
            log_prob += z[parts[part] + actions[part]]
        terms[_ENTROPY] += entropy * weight
        by_log_prob = np.float32(_policy_terms(log_prob, row, piece, terms))
        by_entropy = np.float32(piece.coefficients.by_entropy * weight)
        for part in range(len(entropies)):
            for j in range(parts[part], parts[part + 1]):  # dlog p_a/dz_j = [j = a] - p_j, dH/dz_j = -p_j (log p_j + H)
                chosen = np.float32(j == parts[part] + actions[part])
                slope = by_log_prob * (chosen - p[j]) - by_entropy * p[j] * (z[j] + entropies[part])
                z[j] = slope if mask[j] else np.float32(0.0)
        for j in range(n if n_features else 0):
            for f in range(n_features):
                by_feature_weights[f] += z[j] * features[j, f]


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
def gaussian_head(means, nodes, log_area, piece, head, terms):  # type: ignore[no-untyped-def]
    """Turn the means of Gaussians, float32[rows, numbers], plain or squashed by tanh, into derivatives.

    Nodes are float64[2, n], points and weights of the quadrature in the entropy. A plain Gaussian has none and a
    ``log_area`` of 0, which otherwise is that of :func:`longstride.policies.distributions.squashed_gaussian`. The head
    has the log-standard deviations.
    """
    log_std, by_log_std = head.values, head.gradient
    numbers, squashed = means.shape[1], nodes.shape[1] > 0
    for i in range(numbers):
        by_log_std[i] = 0.0
    for row in range(len(piece.indices)):
        weight, mean, actions = piece.weights[row], means[row], piece.rollout.actions[piece.indices[row]]
        log_prob, entropy = -log_area, log_area
        for i in range(numbers):
            z = (actions[i] - mean[i]) * math.exp(-np.float64(log_std[i]))
            log_prob -= 0.5 * z * z + log_std[i] + _LOG_SQRT_TAU
            entropy += log_std[i] + _LOG_SQRT_TAU + 0.5
            if squashed:
                log_prob -= _log_slope(actions[i])
        by_log_prob = _policy_terms(log_prob, row, piece, terms)
        by_entropy = piece.coefficients.by_entropy * weight
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
        terms[_ENTROPY] += entropy * weight


@njit(nogil=True)
def _log_slope(x):  # type: ignore[no-untyped-def]
    """Return log(1 - tanh(x)^2) like ``log_slope`` of ``policies/distributions.py``; its slope is -2 tanh(x)."""
    return 2.0 * (math.log(2.0) - abs(x) - math.log1p(math.exp(-2.0 * abs(x))))
