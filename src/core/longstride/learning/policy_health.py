"""Figures of an actor that show trouble before the reward does: dead units, and how much observations matter."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory

_ROWS = 1_024

MANY_DEAD = 0.5
"""Share of dead units from which a network hardly learns."""


class PolicyHealth(NamedTuple):
    """Figures of the actor on some observations.

    Attributes:
        dead_units: share of the hidden units that give the same number for all of them: 0, or with tanh -1 or 1.
        observation_effect: root mean square of the change in the outputs from one observation to another. Of logits
            their differences count, of a Gaussian's means the distance in standard deviations. None with action
            features, through which observations matter, too.
        choices_changed: share of decisions, 0 .. 1, whose likeliest allowed action changes if the observation of
            another decision takes the place of theirs. None with action features and of a Gaussian.
    """

    dead_units: float
    observation_effect: float | None
    choices_changed: float | None = None


def some_rows(arrays: Sequence[np.ndarray], ranks: Ranks = ALONE) -> np.ndarray:
    """Return about 1,024 rows, [B, ...], of all ranks' arrays, [T_i, ...] of each trajectory here."""
    rows = sum(ranks.gather(sum(map(len, arrays))))
    return np.concatenate(ranks.gather(np.concatenate([each[:: max(rows // _ROWS, 1)] for each in arrays])))


def health_on(model: ActorCritic, trajectories: Sequence[Trajectory], ranks: Ranks) -> PolicyHealth:
    """Return the figures of the actor of a model on the CPU on some observations of all ranks' trajectories."""
    rows = [(t.observations[: t.steps], t.masks) for t in trajectories]
    return policy_health(model, *(some_rows(each, ranks) for each in zip(*rows, strict=True)))


@torch.no_grad()
def policy_health(model: ActorCritic, observations: np.ndarray, masks: np.ndarray) -> PolicyHealth:
    """Return the figures of the actor of a model on the CPU on float32[B, O] observations with masks bool[B, n]."""
    x = model.normalise(torch.from_numpy(observations))
    weight, bias = model.layers("actor")[-1]
    hidden = model.hidden_outputs("actor", x)
    dead = [((outputs - outputs[:1]).abs() < 1e-6).all(dim=0) for outputs in hidden]
    share = torch.cat(dead).float().mean().item() if dead else 0.0
    if model.spec.action_features > 0:
        return PolicyHealth(share, None)
    outputs = torch.addmm(bias, hidden[-1] if hidden else x, weight)
    if model.spec.is_gaussian:
        return PolicyHealth(share, _spread(outputs / model.log_std.exp()))
    choices = list(model.spec.action_space.choices)
    centred = [part - part.mean(dim=1, keepdim=True) for part in torch.split(outputs, choices, dim=1)]
    return PolicyHealth(share, _spread(torch.cat(centred, dim=1)), _changed(outputs, torch.from_numpy(masks), choices))


def _spread(outputs: Tensor) -> float:
    return outputs.var(dim=0, correction=0).mean().sqrt().item()


def _changed(logits: Tensor, masks: Tensor, choices: list[int]) -> float:
    """Return the share of rows, logits float32[B, n], whose likeliest actions change with the logits of another row."""
    other, changed = logits.roll(len(logits) // 2, dims=0), torch.zeros(len(logits), dtype=torch.bool)
    for own, others, allowed in zip(
        *(torch.split(each, choices, dim=1) for each in (logits, other, masks)), strict=True
    ):
        best = [values.masked_fill(~allowed, -torch.inf).argmax(dim=1) for values in (own, others)]
        changed |= best[0] != best[1]
    return changed.float().mean().item()
