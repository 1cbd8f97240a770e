"""Two figures of an actor that show trouble before the reward does: dead units, and how much observations matter."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.policies.networks import ActorCritic

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
    """

    dead_units: float
    observation_effect: float | None


def some_rows(observations: Sequence[np.ndarray], ranks: Ranks = ALONE) -> np.ndarray:
    """Return float32[B, O], about 1,024 rows of all ranks' observations, float32[T_i, O] of each trajectory here."""
    rows = sum(ranks.gather(sum(map(len, observations))))
    return np.concatenate(ranks.gather(np.concatenate([each[:: max(rows // _ROWS, 1)] for each in observations])))


@torch.no_grad()
def policy_health(model: ActorCritic, observations: np.ndarray) -> PolicyHealth:
    """Return the figures of the actor of a model on the CPU on float32[B, O] observations."""
    x = model.normalise(torch.from_numpy(observations))
    weight, bias = model.layers("actor")[-1]
    hidden = model.hidden_outputs("actor", x)
    dead = [((outputs - outputs[:1]).abs() < 1e-6).all(dim=0) for outputs in hidden]
    share = torch.cat(dead).float().mean().item() if dead else 0.0
    if model.spec.action_features > 0:
        return PolicyHealth(share, None)
    outputs = torch.addmm(bias, hidden[-1] if hidden else x, weight)
    if model.spec.is_gaussian:
        outputs = outputs / model.log_std.exp()
    else:
        parts = torch.split(outputs, list(model.spec.action_space.choices), dim=1)
        outputs = torch.cat([part - part.mean(dim=1, keepdim=True) for part in parts], dim=1)
    return PolicyHealth(share, outputs.var(dim=0, correction=0).mean().sqrt().item())
