"""Small policies that score lists of actions, none of whose parameters is trivial, and their rollouts."""

from functools import cache

import numpy as np
import torch
from helpers.toy_runs import SEED
from oracles.listed_shop import ListedShop

from longstride.policies.families.pointer.family import POINTER
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.simulators.spaces import Discrete


def pointer_spec(observations=5, figures=4, actor=(16, 16), activation="relu", actions=9) -> PolicySpec:
    sizes = observations, Discrete(actions), actor, (24,)
    return PolicySpec(*sizes, activation, POINTER, figures, observation_limit=2.5)


def pointer_model(spec: PolicySpec, seed: int = 0) -> ActorCritic:
    """Return a model whose scores, values and scales are far from trivial."""
    model, generator = ActorCritic(spec), torch.Generator().manual_seed(seed)
    initialise(model, "orthogonal", generator)
    with torch.no_grad():
        for name, tensor in model.tensors.items():
            if name.endswith("bias"):
                tensor.copy_(0.2 * torch.randn(tensor.shape, generator=generator))
            elif name.endswith("_mean") and name != "value_mean":
                tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
            elif name.endswith("_scale"):
                tensor.uniform_(0.5, 2.0, generator=generator)
        for name in ("actor.score", "actor.feature_weights"):
            tensor = model.tensors[name]
            tensor.copy_(torch.randn(tensor.shape, generator=generator) / len(tensor) ** 0.5)
        weight, _ = model.layers("critic")[-1]
        weight.copy_(torch.randn(weight.shape, generator=generator) / len(weight) ** 0.5)
    return model


def some_lists(spec: PolicySpec, counts, seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return observations and lists of so many descriptions each; some numbers are clipped, some are zero."""
    rng = np.random.default_rng(seed)
    observations = rng.normal(0, 2, (len(counts), spec.observation_size)).astype(np.float32)
    lists = [rng.normal(0, 2, (count, spec.action_features)).astype(np.float32) for count in counts]
    observations[::3] *= np.float32(50.0)
    for each in lists[::2]:
        each[:, ::2] = 0.0
    return observations, lists


def shop_spec(van: int = 3, expected: float | None = None) -> PolicySpec:
    shop = ListedShop(van)
    if expected is not None:
        shop.expected_actions = expected
    return spec_for(shop, (16, 16), (24,), "relu", POINTER)


def shop_model(seed: int = 0) -> ActorCritic:
    return pointer_model(shop_spec(), seed)


@cache
def _shop_loop():
    return FixedLengthCollector(ListedShop(), shop_spec(), RolloutPlan(SEED, 1, 1)).loop


def steps_collector(instances: int, steps: int, expected: float | None = None, **plan) -> FixedLengthCollector:
    """Return a collector of so many steps of the shop."""
    collector = FixedLengthCollector(
        ListedShop(), shop_spec(expected=expected), RolloutPlan(SEED, instances, steps, **plan)
    )
    collector.loop = _shop_loop()
    return collector


def episodes_collector(instances: int, expected: float | None = None, **plan) -> EpisodeCollector:
    """Return a collector of whole episodes of the shop."""
    collector = EpisodeCollector(ListedShop(), shop_spec(expected=expected), RolloutPlan(SEED, instances, **plan))
    collector._loop = _shop_loop()
    return collector
