"""The loss of PPO and GRPO for one masked choice, and its derivatives by logits and values in closed form.

Autograd would launch an operation for each of the loss, and one or two for each of its gradient. With probabilities p,
their logarithms, the entropy H, and the weight w of a sample:

    d total / d z_j = s (1[j is chosen] - p_j) + c1 w p_j (log p_j + H),    s = d total / d log p_chosen
    s = -w ratio advantage, or 0 where the clipped ratio counts;    d total / d value = c2 w (value - return)

The definitions are those of :mod:`longstride.learning.algorithms.ppo` and :mod:`longstride.policies.distributions`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.interface import Algorithm, Samples
from longstride.learning.algorithms.ppo import LossTerms, PolicyTerms, Ppo, PpoCoefficients, total_loss
from longstride.policies.distributions import FORBIDDEN
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete


_READ = "actions", "log_probs", "masks", "features", "advantages", "returns"
"""Columns of the samples that the loss reads."""


class StepLoss(NamedTuple):
    """A loss, its terms, and outputs of the networks with the derivatives of the loss by them; none for autograd."""

    total: Tensor
    terms: Any
    outputs: tuple[Tensor, ...] = ()
    slopes: tuple[Tensor, ...] = ()


class Figures(NamedTuple):
    """What is computed from the outputs for B samples.

    Attributes:
        sums: float32[5], weighted sums: the surrogate objective, negative entropies, the estimate of the KL divergence,
            clipped samples, squared errors of the critic.
        ratio_error: float32 scalar, the largest deviation of a ratio from 1.
        by_logits: float32[B, n], derivatives of the total loss.
        by_values: float32[B]; float32[0] without a critic.
        by_features: float32[k], derivatives by the weights of the action features; float32[0] without them.
    """

    sums: Tensor
    ratio_error: Tensor
    by_logits: Tensor
    by_values: Tensor
    by_features: Tensor


Compute = Callable[[Tensor, Tensor, Samples, Tensor, PpoCoefficients, Tensor | None, Tensor | None], Figures]
"""A function like :func:`figures_of`."""


def fits(spec: PolicySpec, algorithm: Algorithm) -> bool:
    """Return whether these are the loss and the actions of an algorithm and a policy."""
    one_choice = isinstance(spec.action_space, Discrete) and not spec.scores_actions
    return one_choice and type(algorithm) in (Ppo, Grpo)  # a subclass may compute another loss


def loss_with_slopes(
    logits: Tensor,
    values: Tensor,
    samples: Samples,
    weights: Tensor,
    coefficients: PpoCoefficients,
    compute: Compute | None = None,
    rows: Tensor | None = None,
    feature_weights: Tensor | None = None,
) -> StepLoss:
    """Return the loss of samples with weights float32[B], for logits float32[B, n] and values float32[B], or none.

    Args:
        logits: float32[B, n].
        values: float32[B], or none.
        samples: B samples, or a rollout.
        weights: float32[B].
        coefficients: those of the loss.
        compute: another implementation of :func:`figures_of`.
        rows: int64[B], the places of the samples in a rollout.
        feature_weights: float32[k], the weights of the action features, where the logits are without them; then the
            last of the slopes is the derivative by those.
    """
    with torch.no_grad():
        outputs = logits.detach(), values.detach()
        described = None if feature_weights is None else feature_weights.detach()
        figures = (compute or figures_of)(*outputs, samples, weights, coefficients, rows, described)
        sums = figures.sums * _signs(logits.device)[: len(figures.sums)]
        policy_loss, entropy, approx_kl, clip_fraction, *value_loss = sums.unbind()
        policy = PolicyTerms(policy_loss, entropy, approx_kl, clip_fraction, figures.ratio_error)
        terms = LossTerms(value_loss=value_loss[0] if value_loss else 0.0, **policy._asdict())
        total = total_loss(terms, coefficients)
    by_features = () if feature_weights is None else (figures.by_features,)
    if not value_loss:
        return StepLoss(total, policy, (logits,), (figures.by_logits, *by_features))
    return StepLoss(total, terms, (logits, values), (figures.by_logits, figures.by_values, *by_features))


def figures_of(
    logits: Tensor,
    values: Tensor,
    samples: Samples,
    weights: Tensor,
    coefficients: PpoCoefficients,
    rows: Tensor | None = None,
    feature_weights: Tensor | None = None,
) -> Figures:
    """Return the figures of samples, operation by operation; arguments are those of :func:`loss_with_slopes`."""
    clip_range, by_entropy, by_value = coefficients
    if rows is not None:
        samples = samples._replace(**{name: getattr(samples, name).index_select(0, rows) for name in _READ})
    if feature_weights is not None:  # as a product of matrices with few columns it is slow on a GPU
        logits = logits + (samples.features * feature_weights).sum(dim=-1)
    actions = samples.actions.unsqueeze(-1)
    log_p = torch.log_softmax(logits.masked_fill(samples.masks.logical_not(), FORBIDDEN), dim=-1)
    p = log_p.exp()
    less_entropy = (p * log_p).sum(dim=-1)
    log_ratio = log_p.gather(-1, actions).squeeze(-1) - samples.log_probs
    ratio = log_ratio.exp()
    gain = ratio * samples.advantages
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * samples.advantages
    above = ratio - 1.0
    deviation = above.abs()
    columns = [torch.minimum(gain, clipped), less_entropy, above - log_ratio, (deviation > clip_range).to(ratio.dtype)]
    by_values = values
    if len(values):
        error = values - samples.returns
        columns.append(error.square())
        by_values = error * (weights * by_value)
    sums = (torch.stack(columns) * weights).sum(dim=-1)
    ratio_error = deviation.masked_fill(weights <= 0.0, 0.0).max()
    by_chosen = (gain * weights * (gain <= clipped)).unsqueeze(-1)  # times -1; NaN where the gain is not finite
    slopes = by_chosen
    if not _is_none(by_entropy):
        weighed = (weights * by_entropy).unsqueeze(-1)
        slopes = torch.addcmul(by_chosen, log_p - less_entropy.unsqueeze(-1), weighed)
    by_logits = (slopes * p).scatter_add_(-1, actions, by_chosen.neg())
    by_features = logits.new_empty(0)
    if feature_weights is not None:
        by_features = (by_logits.unsqueeze(-1) * samples.features).sum(dim=(0, 1))
    return Figures(sums, ratio_error, by_logits, by_values, by_features)


def _is_none(coefficient: Any) -> bool:
    """Return whether a coefficient is the number 0: then its term is left out."""
    return isinstance(coefficient, float) and coefficient == 0.0


@cache
def _signs(device: torch.device) -> Tensor:
    """Return float32[5], what the sums of :class:`Figures` are multiplied by."""
    return torch.tensor([-1.0, -1.0, 1.0, 1.0, 0.5], device=device)
