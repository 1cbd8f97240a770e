"""The loss of proximal policy optimisation (Schulman et al., arXiv 1707.06347), a pure function of tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from core.policies.distributions import to_float32


class Batch(NamedTuple):
    """B samples of a rollout on the device of the model.

    Attributes:
        observations: float32[B, O], as the simulator wrote them.
        actions: as the trajectory keeps them: int64[B], int64[B, choices] or float32[B, numbers].
        log_probs: float32[B] under the policy that collected them.
        masks: bool[B, values of all choices].
        features: float32[B, values of all choices, k], the action features.
        states: float32[B, state_size], states of a policy with memory before each step.
        advantages: float32[B], normalised.
        returns: float32[B], in units of the value normalisation.
        values: float32[B], what the critic said before the update, in the same units.
        weights: float32[B], the share of each sample in its minibatch: they add up to 1 over a whole minibatch, so that
            the gradients of its microbatches add up to its gradient; 0 for padding.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    masks: Tensor
    features: Tensor
    states: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    weights: Tensor


class LossTerms(NamedTuple):
    """Scalars of a minibatch; ``total`` is what is minimised."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    ratio_error: Tensor


def ppo_loss(
    log_probs: Tensor,
    entropies: Tensor,
    values: Tensor,
    batch: Batch,
    clip_range: float | Tensor,
    entropy_coefficient: float | Tensor,
    value_coefficient: float,
    value_clip_range: float | Tensor = 0.0,
) -> LossTerms:
    """Return the loss and what to report of it.

    Args:
        log_probs: float32[B], of the batch's actions under the policy that learns.
        entropies: float32[B] of that policy.
        values: float32[B], in units of the value normalisation.
        batch: the samples; each term is their sum weighted by ``batch.weights``.
        clip_range: epsilon of equation (7).
        entropy_coefficient: c2 of equation (9).
        value_coefficient: c1 of equation (9).
        value_clip_range: how far values may move from ``batch.values``; the number 0, not a tensor of it, for as far
            as they like.
    """
    weights = batch.weights
    log_ratio = log_probs - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)  # type: ignore[arg-type]
    policy = -(torch.minimum(ratio * batch.advantages, clipped * batch.advantages) * weights).sum()  # (7)
    value = 0.5 * (_squared_errors(to_float32(values), batch, value_clip_range) * weights).sum()
    mean_entropy = (entropies * weights).sum()
    total = policy + value_coefficient * value - entropy_coefficient * mean_entropy  # (9)
    with torch.no_grad():
        # The k3 estimator of Schulman's "Approximating KL divergence": unbiased and never negative.
        approx_kl = ((ratio - 1.0 - log_ratio) * weights).sum()
        clip_fraction = (((ratio - 1.0).abs() > clip_range).float() * weights).sum()
        ratio_error = ((ratio - 1.0).abs() * (weights > 0)).max()
    return LossTerms(total, policy, value, mean_entropy, approx_kl, clip_fraction, ratio_error)


def _squared_errors(values: Tensor, batch: Batch, clip_range: float | Tensor) -> Tensor:
    """Return float32[B] squared errors of the critic.

    With a clip range the larger one of the value and of the value clipped around ``batch.values``, as in OpenAI
    Baselines' PPO2: a value that has moved further than the range towards its target has no gradient.
    """
    errors = (values - batch.returns).square()
    if not isinstance(clip_range, Tensor) and clip_range == 0.0:
        return errors
    clipped = batch.values + (values - batch.values).clamp(-clip_range, clip_range)  # type: ignore[arg-type]
    return torch.maximum(errors, (clipped - batch.returns).square())
