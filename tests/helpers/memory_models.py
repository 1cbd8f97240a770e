"""Policies with memory of small sizes, none of whose parameters is trivial."""

import numpy as np
import torch

from longstride.policies.compiled.forward import workspace
from longstride.policies.families.mingru.family import MINGRU
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace, Discrete


def memory_spec(
    observations: int = 6,
    space: ActionSpace | None = None,
    actor: tuple[int, ...] = (16, 16),
    critic: tuple[int, ...] = (24, 24),
    activation: str = "tanh",
    features: int = 0,
) -> PolicySpec:
    """Return a spec; one choice of five by default."""
    sizes = observations, space or Discrete(5), actor, critic
    return PolicySpec(*sizes, activation, MINGRU, features, observation_limit=2.5)


def memory_model(spec: PolicySpec, seed: int = 0) -> ActorCritic:
    """Return a model whose policy, values and normalisation are far from trivial."""
    model, generator = ActorCritic(spec), torch.Generator().manual_seed(seed)
    initialise(model, "orthogonal", generator)
    with torch.no_grad():
        for part in ("actor", "critic"):
            weight, bias = model.layers(part)[-1]
            weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[0] ** 0.5)
            bias.copy_(0.2 * torch.randn(bias.shape, generator=generator))
            for _, bias in model.layers(part)[:-1]:
                bias.add_(0.2 * torch.randn(bias.shape, generator=generator))
        model.tensors["observation_mean"].copy_(0.3 * torch.randn(spec.observation_size, generator=generator))
        model.tensors["observation_scale"].uniform_(0.5, 2.0, generator=generator)
        if spec.action_features:
            model.tensors["actor.feature_weights"].copy_(torch.randn(spec.action_features, generator=generator))
    return model


def memory_model_for(simulator: Simulator, seed: int = 0, **sizes) -> ActorCritic:
    """Return a model for a simulator."""
    features = simulator.action_feature_size
    spec = memory_spec(simulator.observation_size, simulator.action_space, features=features, **sizes)
    return memory_model(spec, seed)


def some_begins(steps: int, *places: int) -> np.ndarray:
    """Return bool[steps, 1], True at some places."""
    return np.isin(np.arange(steps), places).reshape(-1, 1)


def observed(spec: PolicySpec, steps: int, seed: int = 0, spread: float = 3) -> np.ndarray:
    """Return observations of which some are clipped and some are zero."""
    observations = np.random.default_rng(seed).normal(0, spread, (steps, spec.observation_size)).astype(np.float32)
    observations[::7] *= np.float32(100.0)
    observations[1::5, ::2] = 0.0
    return observations


def play_compiled(model, params, network, observations, begins, state) -> np.ndarray:
    """Return the outputs of a compiled network for steps one after another; the state becomes that after the last."""
    scratch, outputs = workspace(model.spec), []
    for observation, begin in zip(observations, begins[:, 0], strict=True):
        state[begin] = 0.0
        network.load(params, observation, scratch, 0)
        network.advance(params, state[None], np.zeros(1, np.int64), scratch, 1)
        outputs.append(network.outputs(scratch, 0).copy())
    return np.stack(outputs)
