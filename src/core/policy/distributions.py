"""Masked categorical distributions as pure functions of tensors, in float32."""

import torch
from torch import Tensor

_FORBIDDEN = -1e30
"""Logit of a forbidden action: its probability is exactly 0 and, unlike with -inf, no gradient becomes NaN."""


def masked_log_softmax(logits: Tensor, masks: Tensor) -> Tensor:
    """Return float32[B, n] log-probabilities; those of forbidden actions are about -1e30.

    Args:
        logits: float[B, n].
        masks: bool[B, n], at least one True in each row.
    """
    return torch.log_softmax(torch.where(masks, logits.float(), _FORBIDDEN), dim=-1)


def log_prob(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Return float32[B], the log-probability of each action (int64[B])."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def entropy(log_probabilities: Tensor, masks: Tensor) -> Tensor:
    """Return float32[B], in nats; forbidden actions add nothing."""
    products = log_probabilities.exp() * log_probabilities
    return -torch.where(masks, products, 0.0).sum(-1)
