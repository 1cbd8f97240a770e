"""The units in which a critic says values: mean and deviation of the returns that it has seen."""

import numpy as np
import torch

from core.policies.networks import ActorCritic

_MEMORY = 0.9
"""Share of the old statistics that each rollout's returns leave of the value normalisation."""


@torch.no_grad()
def rescale_values(model: ActorCritic, factor: float) -> None:
    """Multiply all that a critic says, before an update whose rewards are in other units."""
    if _knows_returns(model):
        for name in ("value_mean", "value_std"):
            model.tensors[name].mul_(factor)


@torch.no_grad()
def renormalise_values(model: ActorCritic, returns: np.ndarray) -> None:
    """Move the value normalisation towards these returns and keep what the critic says unchanged.

    The critic's head is rescaled (van Hasselt et al., "Learning values across many orders of magnitude", 2016,
    equation 6), so no scale of the reward has to be chosen by hand.
    """
    tensors = model.tensors
    mean, std = tensors["value_mean"].item(), tensors["value_std"].item()
    new_mean, new_std = float(returns.mean()), max(float(returns.std()), 1e-6)
    if _knows_returns(model):
        new_mean = _MEMORY * mean + (1 - _MEMORY) * new_mean
        new_std = _MEMORY * std + (1 - _MEMORY) * new_std
        weight, bias = model.layers("critic")[-1]
        weight.mul_(std / new_std)
        bias.mul_(std).add_(mean - new_mean).div_(new_std)
    tensors["value_mean"].fill_(new_mean)
    tensors["value_std"].fill_(new_std)


def _knows_returns(model: ActorCritic) -> bool:
    """Return whether the value normalisation has seen returns; a fresh model's is mean 0 and deviation 1."""
    return not (model.tensors["value_mean"].item() == 0.0 and model.tensors["value_std"].item() == 1.0)
