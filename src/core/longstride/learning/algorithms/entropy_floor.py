"""A floor under the entropy of a young policy: its logits become smaller where an update has left it too little.

The weight of the entropy bonus needs some updates to turn a collapse, in which the policy tries nothing. Smaller logits
make it try more at once, in all states. The likeliest actions stay as they are.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.policy_health import some_rows
from longstride.policies.distributions import entropy, masked_log_softmax
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory

_HALVINGS = 20
"""Halvings of the interval in which the factor is looked for."""


@torch.no_grad()
def hold_floor(model: ActorCritic, trajectories: Sequence[Trajectory], floor: float, ranks: Ranks = ALONE) -> float:
    """Make the logits of a model on the CPU so much smaller that its mean entropy is not below a floor.

    The mean is over some observations of all ranks' trajectories. Networks whose logits depend on more than that are
    left alone: those with memory, those that score lists of actions, and those with features of actions.

    Args:
        model: actor with choices; its last layer is changed in place.
        trajectories: this rank's part of a rollout.
        floor: least mean entropy, as a share of the most that the allowed actions make possible.
        ranks: all processes of the run.

    Returns:
        Factor of the logits, 0 .. 1; 1 where nothing had to change.
    """
    spec = model.spec
    if floor <= 0.0 or not spec.has_plain_logits or spec.action_features:
        return 1.0
    x = model.normalise(torch.from_numpy(some_rows([t.observations[: t.steps] for t in trajectories], ranks)))
    allowed = torch.from_numpy(some_rows([t.masks for t in trajectories], ranks))
    logits = model.logits(x)
    factor = ranks.from_first(lambda: factor_for(logits, allowed, list(spec.action_space.choices), floor))
    if factor < 1.0:
        for tensor in model.layers("actor")[-1]:
            tensor *= factor
    return factor


def factor_for(logits: Tensor, allowed: Tensor, choices: Sequence[int], floor: float) -> float:
    """Return the largest factor of some logits, 0 .. 1, for which their mean entropy is a share of the most possible.

    Logits are float32[B, n], allowed bool[B, n], with as many columns as all choices have values.
    """
    least = floor * mean_entropy(torch.zeros_like(logits), allowed, choices)
    if mean_entropy(logits, allowed, choices) >= least:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        enough = mean_entropy(middle * logits, allowed, choices) >= least
        low, high = (middle, high) if enough else (low, middle)
    return low


def mean_entropy(logits: Tensor, allowed: Tensor, choices: Sequence[int]) -> float:
    """Return the mean over rows of the entropies in nats, summed over the choices; arguments as above."""
    parts = zip(*(torch.split(each, list(choices), dim=1) for each in (logits, allowed)), strict=True)
    return sum(float(entropy(masked_log_softmax(own, ok), ok).mean()) for own, ok in parts)
