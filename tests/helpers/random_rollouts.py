"""Samples of no simulator: random numbers for every action space, around the policy that is to learn from them."""

from dataclasses import replace

import numpy as np
import torch
from helpers.specs import mlp_spec

from longstride.learning.algorithms.interface import Samples
from longstride.policies.networks import ActorCritic, initialise
from longstride.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

SPACES: dict[str, ActionSpace] = {
    "discrete": Discrete(5),
    "choices": MultiDiscrete([3, 2, 4]),
    "gaussian": Box([-1.5, -np.inf], [1.5, np.inf]),
    "squashed": Box([-1.5, -2.0], [1.5, 1.0], squashed=True),
}
OBSERVATIONS = 6


def random_model(space: str, activation: str = "tanh", features: int = 0, seed: int = 0) -> ActorCritic:
    """Return a model none of whose parameters is trivial, nor is its normalisation."""
    outputs = SPACES[space].outputs
    sizes = (OBSERVATIONS, 16, 24, outputs), (OBSERVATIONS, 20, 1)
    spec = mlp_spec(*sizes, activation, space=SPACES[space], action_features=features)
    model = ActorCritic(replace(spec, observation_limit=2.5))
    generator = torch.Generator().manual_seed(seed)
    initialise(model, "orthogonal", generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        model.tensors["observation_mean"].copy_(0.3 * torch.randn(OBSERVATIONS, generator=generator))
        model.tensors["observation_scale"].uniform_(0.5, 2.0, generator=generator)
    return model


@torch.no_grad()
def random_rollout(model: ActorCritic, samples: int, seed: int = 1) -> Samples:
    """Return samples whose ratios lie on both sides of the clip range, some observations beyond the clip."""
    generator, space = torch.Generator().manual_seed(seed), model.spec.action_space

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    if isinstance(space, Box):
        actions, masks = normal(samples, space.outputs), torch.ones(samples, 0, dtype=torch.bool)
    else:
        columns = [torch.randint(0, n, (samples,), generator=generator) for n in space.choices]
        masks = torch.rand(samples, space.outputs, generator=generator) < 0.7
        begins = np.cumsum([0, *space.choices])
        for begin, column in zip(begins, columns, strict=False):
            masks[torch.arange(samples), int(begin) + column] = True
        actions = columns[0] if isinstance(space, Discrete) else torch.stack(columns, 1)
    observations = 3.0 * normal(samples, model.spec.observation_size)
    observations[::7, 0] = 100.0
    features = normal(samples, space.outputs, model.spec.action_features)
    logits = model.logits(model.normalise(observations), features)
    log_probs = model.distribution(logits, model.log_std, masks, actions)[0] + 0.3 * normal(samples)
    rest = normal(samples), normal(samples), normal(samples)
    return Samples(observations, actions, log_probs, masks, features, *rest)
