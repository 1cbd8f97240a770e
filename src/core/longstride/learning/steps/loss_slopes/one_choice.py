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
    """A loss, its terms, and outputs of the networks with the derivatives of the loss by them; none for autograd.

    Where there are some, ``report`` has total and terms as a step reports them.
    """

    total: Tensor
    terms: Any
    outputs: tuple[Tensor, ...] = ()
    slopes: tuple[Tensor, ...] = ()
    report: Tensor | None = None


class Figures(NamedTuple):
    """What is computed from the outputs for B samples.

    Attributes:
        report: float32[columns], total loss, fields of ``PolicyTerms`` or (with a critic) of ``LossTerms``, and 0.
        by_logits: float32[B, n], derivatives of the total loss.
        by_values: float32[B]; float32[0] without a critic.
        by_features: float32[k], derivatives by the weights of the action features; float32[0] without them.
    """

    report: Tensor
    by_logits: Tensor
    by_values: Tensor
    by_features: Tensor


Compute = Callable[
    [Tensor, Tensor, Samples, Tensor, PpoCoefficients, Tensor | None, Tensor | None, Tensor | None], Figures
]
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
    by_features: Tensor | None = None,
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
        by_features: float32[k], where that derivative is written, if it has a place.
    """
    with torch.no_grad():
        outputs = logits.detach(), values.detach()
        described = None if feature_weights is None else feature_weights.detach()
        figures = (compute or figures_of)(*outputs, samples, weights, coefficients, rows, described, by_features)
        total, *terms, _ = figures.report.unbind()
    slopes = () if feature_weights is None else (figures.by_features,)
    if not len(values):
        return StepLoss(total, PolicyTerms(*terms), (logits,), (figures.by_logits, *slopes), figures.report)
    slopes = figures.by_logits, figures.by_values, *slopes
    return StepLoss(total, LossTerms(*terms), (logits, values), slopes, figures.report)


def figures_of(
    logits: Tensor,
    values: Tensor,
    samples: Samples,
    weights: Tensor,
    coefficients: PpoCoefficients,
    rows: Tensor | None = None,
    feature_weights: Tensor | None = None,
    by_features: Tensor | None = None,
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
    by_features = logits.new_empty(0) if by_features is None else by_features
    if feature_weights is not None:
        torch.sum(by_logits.unsqueeze(-1) * samples.features, dim=(0, 1), out=by_features)
    return Figures(_report(sums, ratio_error, coefficients), by_logits, by_values, by_features)


def _is_none(coefficient: Any) -> bool:
    """Return whether a coefficient is the number 0: then its term is left out."""
    return isinstance(coefficient, float) and coefficient == 0.0


def _report(sums: Tensor, ratio_error: Tensor, coefficients: PpoCoefficients) -> Tensor:
    """Return the report of weighted sums.

    They are the surrogate objective, negative entropies, the estimate of the KL divergence, clipped samples, and, if
    there is a critic, its squared errors.
    """
    factors, zero = _factors(sums.device)
    policy_loss, entropy, approx_kl, clip_fraction, *value_loss = (sums * factors[: len(sums)]).unbind()
    terms: Any = PolicyTerms(policy_loss, entropy, approx_kl, clip_fraction, ratio_error)
    both = LossTerms(value_loss=value_loss[0] if value_loss else 0.0, **terms._asdict())
    return torch.stack([total_loss(both, coefficients), *(both if value_loss else terms), zero])


@cache
def _factors(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return float32[5], what those sums are multiplied by, and 0."""
    return torch.tensor([-1.0, -1.0, 1.0, 1.0, 0.5], device=device), torch.tensor(0.0, device=device)
