"""The policy's distributions as pure functions of tensors, at least in float32 whatever the layers compute in.

:func:`distribution_of` chooses, once a run, the function that an action space needs; update and model know no spaces.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from longstride.simulators.spaces import ActionSpace, Box, MultiDiscrete

Distribution = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""``(outputs, log_std, masks, actions) -> (log-probabilities of the actions, entropies)``, float32[B] each.

outputs float[B, outputs] of the actor; log_std float32[numbers] of a Box, empty otherwise; masks bool[B, values];
actions as the trajectory keeps them: int64[B], int64[B, choices] or float32[B, numbers] before clipping or squashing.
"""

FORBIDDEN = -1e30
"""Logit of a forbidden action: its probability is exactly 0 and, unlike with -inf, no gradient becomes NaN."""

_NODES = 16
"""Points of the quadrature in the entropy of a squashed Gaussian: within 2e-5 nats a number at a standard deviation of
1, 0.02 at e, 0.3 (of 12) at e^2; a test holds it to 1e-3 up to 1.3."""

_QUADRATURES: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}


def distribution_of(space: ActionSpace) -> Distribution:
    """Return the distribution of an action space."""
    if isinstance(space, MultiDiscrete):
        return partial(multi_discrete, list(space.sizes))
    if isinstance(space, Box):
        return partial(squashed_gaussian, log_area(space)) if space.squashed else gaussian
    return discrete


def discrete(logits: Tensor, log_std: Tensor, masks: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate one masked choice; see :data:`Distribution`."""
    log_probabilities = masked_log_softmax(logits, masks)
    return log_prob(log_probabilities, actions), entropy(log_probabilities, masks)


def multi_discrete(
    sizes: list[int], logits: Tensor, log_std: Tensor, masks: Tensor, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Evaluate independent choices, whose log-probabilities and entropies add up; see :data:`Distribution`."""
    columns = zip(torch.split(logits, sizes, -1), torch.split(masks, sizes, -1), actions.unbind(-1), strict=True)
    choices = [discrete(part, log_std, mask, values) for part, mask, values in columns]
    log_probs, entropies = zip(*choices, strict=True)
    return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)


def gaussian(means: Tensor, log_std: Tensor, masks: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate independent Gaussians at unclipped draws; see :data:`Distribution`."""
    z = (actions - to_float32(means)) * (-log_std).exp()
    log_probs = -(0.5 * z.square() + log_std + 0.5 * math.log(2.0 * math.pi)).sum(-1)
    return log_probs, (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum().expand(len(means))


def squashed_gaussian(
    log_area: float, means: Tensor, log_std: Tensor, masks: Tensor, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Evaluate Gaussians that tanh squashes onto bounds, at the draws before tanh; see :data:`Distribution`.

    The entropy is the closed one of the Gaussians plus the mean of the logarithm of the map's slope, by Gauss-Hermite
    quadrature: no randomness, and gradients for means and standard deviations. ``log_area`` is that of the bounds.
    """
    log_probs, entropies = gaussian(means, log_std, masks, actions)
    nodes, weights = _quadrature(means.device, log_std.dtype)
    points = to_float32(means).unsqueeze(-1) + log_std.exp().unsqueeze(-1) * nodes
    return (
        log_probs - log_slope(actions).sum(-1) - log_area,
        entropies + (log_slope(points) @ weights).sum(-1) + log_area,
    )


def log_slope(x: Tensor) -> Tensor:
    """Return log(1 - tanh(x)^2) from x itself: right also where tanh(x) rounds to 1 and the logarithm would be -inf."""
    return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


def masked_log_softmax(logits: Tensor, masks: Tensor) -> Tensor:
    """Return log-probabilities, float32[B, n]; about -1e30 where masks, bool[B, n] with a True in each row, forbid."""
    return torch.log_softmax(torch.where(masks, to_float32(logits), FORBIDDEN), dim=-1)


def log_prob(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Return float32[B], the log-probability of each action (int64[B])."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def entropy(log_probabilities: Tensor, masks: Tensor) -> Tensor:
    """Return float32[B], in nats; forbidden actions add nothing."""
    products = log_probabilities.exp() * log_probabilities
    return -torch.where(masks, products, 0.0).sum(-1)


def to_float32(x: Tensor) -> Tensor:
    """Return half-precision numbers as float32 and others as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def log_area(space: Box) -> float:
    """Return the logarithm of the product of half the widths between the bounds."""
    low, high = space.bounds.astype(np.float64)
    return float(np.log(0.5 * (high - low)).sum())


def quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return float64 nodes and weights whose weighted sum of f(nodes) is the mean of f under the standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


def _quadrature(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return nodes and weights, made once: torch's compiler looks them up, but cannot trace how they are made."""
    if (device, dtype) not in _QUADRATURES:
        nodes, weights = (torch.tensor(numbers, dtype=dtype, device=device) for numbers in quadrature())
        _QUADRATURES[device, dtype] = nodes, weights
    return _QUADRATURES[device, dtype]
