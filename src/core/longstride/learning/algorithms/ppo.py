"""Proximal policy optimisation (Schulman et al., arXiv 1707.06347)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import control_variate_coefficient, gae, standardise
from longstride.learning.algorithms.interface import Loss, PolicyOutputs, RolloutBatch, Samples, Targets
from longstride.policies.distributions import to_float32


class PpoCoefficients(NamedTuple):
    """Coefficients of the loss: floats, or what :class:`longstride.learning.algorithms.interface.Algorithm` says.

    They are epsilon of equation (7), c2 and c1 of equation (9).
    """

    clip_range: Any
    entropy_coefficient: Any
    value_coefficient: Any


class PolicyTerms(NamedTuple):
    """Those of :class:`LossTerms` that need no critic."""

    policy_loss: Any
    entropy: Any
    approx_kl: Any
    clip_fraction: Any
    ratio_error: Any


class LossTerms(NamedTuple):
    """Figures of a minibatch, each a weighted sum over its samples; ratio_error is the largest deviation from 1."""

    policy_loss: Any
    value_loss: Any
    entropy: Any
    approx_kl: Any
    clip_fraction: Any
    ratio_error: Any


def total_loss(terms: LossTerms, coefficients: PpoCoefficients) -> Any:
    """Return what is minimised, equation (9), of tensors or of numbers; it is linear in its terms."""
    value_loss = coefficients.value_coefficient * terms.value_loss
    return terms.policy_loss + value_loss - coefficients.entropy_coefficient * terms.entropy


@dataclass(frozen=True)
class Ppo:
    """PPO with generalised advantage estimation (a :class:`longstride.learning.algorithms.interface.Algorithm`).

    The lambda is that of the actor's advantages; the coefficients are those at the start of a run.
    """

    gae_lambda: float
    coefficients: PpoCoefficients
    needs_critic: ClassVar[bool] = True
    group_size: ClassVar[int] = 1
    learns_from_all: ClassVar[bool] = True
    terms: ClassVar[tuple[str, ...]] = LossTerms._fields

    def targets(
        self, rollout: RolloutBatch, values: Sequence[np.ndarray], next_values: Sequence[np.ndarray]
    ) -> Targets:
        """Return the actor's advantages by its lambda and the critic's targets by the rollout's; see the protocol.

        The critic's lambda is closer to 1 than the actor's (Yuan et al., "VAPO", 2025, decoupled GAE): the critic
        averages noise over samples, but learns slowly from its own bias.
        """
        coefficient = np.float32(
            control_variate_coefficient(rollout.trajectories, values, next_values, rollout.discounts, rollout.total)
        )
        advantages, returns = [], []
        columns = rollout.trajectories, values, next_values, rollout.discounts, rollout.value_lambdas
        for t, value, next_value, discount, value_lambda in zip(*columns, strict=True):
            rewards, ended = t.rewards - coefficient * t.control_variate, t.terminated | t.truncated
            arrays = rewards, value, next_value, discount, t.terminated, ended
            advantages.append(gae(*arrays, self.gae_lambda)[0])
            returns.append(gae(*arrays, value_lambda)[1])
        return Targets(standardise(np.concatenate(advantages), rollout.total), np.concatenate(returns))

    def loss(self, outputs: PolicyOutputs, samples: Samples, weights: Tensor, coefficients: PpoCoefficients) -> Loss:
        """Return the total loss of some samples and its terms; see the protocol."""
        terms = loss_terms(outputs, samples, weights, coefficients)
        return Loss(total_loss(terms, coefficients), terms)


def loss_terms(outputs: PolicyOutputs, samples: Samples, weights: Tensor, coefficients: PpoCoefficients) -> LossTerms:
    """Return the terms of the loss of B samples with weights float32[B], float32 scalars."""
    errors = (to_float32(outputs.values) - samples.returns).square()
    return LossTerms(**_terms(outputs, samples, weights, coefficients.clip_range, {"value_loss": 0.5 * errors}))


def policy_terms(outputs: PolicyOutputs, samples: Samples, weights: Tensor, clip_range: Any) -> PolicyTerms:
    """Return those of the terms of the loss that need no critic."""
    return PolicyTerms(**_terms(outputs, samples, weights, clip_range, {}))


def _terms(
    outputs: PolicyOutputs, samples: Samples, weights: Tensor, clip_range: Any, further: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return the policy's terms and the weighted sums of further figures, float32[B] by name."""
    log_ratio = outputs.log_probs - samples.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    policy_loss = -torch.minimum(ratio * samples.advantages, clipped * samples.advantages)  # (7)
    learned = _weighted_sums({"policy_loss": policy_loss, "entropy": outputs.entropies, **further}, weights)
    with torch.no_grad():
        # The k3 estimator of Schulman's "Approximating KL divergence": unbiased and never negative.
        above = ratio - 1.0
        approx_kl, deviation = above - log_ratio, above.abs()
        clip_fraction = (deviation > clip_range).float()
        watched = _weighted_sums({"approx_kl": approx_kl, "clip_fraction": clip_fraction}, weights)
        ratio_error = torch.where(weights > 0, deviation, 0.0).max()
    return {**learned, **watched, "ratio_error": ratio_error}


def _weighted_sums(figures: dict[str, Tensor], weights: Tensor) -> dict[str, Tensor]:
    """Return the weighted sum of each figure; all together, because on a GPU each operation is a launch."""
    sums = (torch.stack(list(figures.values())) * weights).sum(dim=-1)
    return dict(zip(figures, sums.unbind(), strict=True))
