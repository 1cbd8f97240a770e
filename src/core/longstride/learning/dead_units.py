"""New weights for hidden units that are 0 whatever is observed, so that a network does not lose them for good.

As in Sokar et al., "The dormant neuron phenomenon in deep reinforcement learning" (arXiv 2302.12902), such a unit gets
new weights from its inputs and none to the next layer, so that the outputs of the network stay as they are.
"""

from collections.abc import Sequence

import numpy as np
import torch

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.policy_health import some_rows
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory


@torch.no_grad()
def revive_dead_units(
    model: ActorCritic, trajectories: Sequence[Trajectory], rng: np.random.Generator, ranks: Ranks = ALONE
) -> None:
    """Draw new weights for the dead units of a model on the CPU, by some observations of all ranks' trajectories.

    Only units with ReLU die for good. A network with memory is left alone, because its units depend on the past, too,
    and one that scores lists of actions, because its layers read more than observations.
    """
    if model.spec.activation != "relu" or model.spec.family.joint_steps:
        return
    x = model.normalise(torch.from_numpy(some_rows([t.observations[: t.steps] for t in trajectories], ranks)))
    for part in ("actor", "critic"):
        layers, hidden = model.layers(part), model.hidden_outputs(part, x)
        for (weight, bias), (following, _), outputs in zip(layers[:-1], layers[1:], hidden, strict=True):
            dead = (outputs == 0.0).all(dim=0)
            weight[:, dead] = torch.from_numpy(_directions(len(weight), len(bias), int(dead.sum()), rng))
            bias[dead] = 0.0
            following[dead] = 0.0


def _directions(inputs: int, units: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return float32[inputs, count], weights as long as those of an orthogonal start with a gain of sqrt 2."""
    drawn = rng.standard_normal((inputs, count))
    length = np.sqrt(2.0 * min(1.0, inputs / units))
    return np.asarray(length * drawn / np.linalg.norm(drawn, axis=0), np.float32)
