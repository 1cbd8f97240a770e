"""Specs of small policies for the tests."""

from collections.abc import Sequence

import numpy as np
import torch

from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace, Discrete


def mlp_spec(
    actor: Sequence[int],
    critic: Sequence[int] = (),
    activation: str = "relu",
    space: ActionSpace | None = None,
    action_features: int = 0,
) -> PolicySpec:
    """Return a spec from the widths of all layers, outputs included; one choice among the outputs by default."""
    space = space or Discrete(actor[-1])
    return PolicySpec(actor[0], space, tuple(actor[1:-1]), tuple(critic[1:-1]), activation, MLP, action_features)


def actor_spec(simulator: Simulator, actor: Sequence[int], activation: str = "relu") -> PolicySpec:
    """Return a spec for a simulator from the widths of the actor's layers."""
    features = simulator.action_feature_size
    return mlp_spec(actor, activation=activation, space=simulator.action_space, action_features=features)


def params_that_prefer(spec: PolicySpec, logit: float) -> np.ndarray:
    """Return parameters of an actor with one hidden layer that always prefers the second action by a logit."""
    params = np.zeros(spec.layout.actor_size, np.float32)
    spec.layout.view(torch.from_numpy(params), "actor.1.bias")[1] = logit
    return params
