"""Transformers of small sizes, none of whose parameters is trivial."""

from helpers.memory_models import memory_model

from longstride.policies.families.transformer.family import TRANSFORMER
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace, Discrete


def transformer_spec(
    observations: int = 6,
    space: ActionSpace | None = None,
    widths: tuple[int, int] = (16, 24),
    layers: int = 2,
    activation: str = "tanh",
    features: int = 0,
    attention: tuple[int, int, int] = (5, 2, 2),
) -> PolicySpec:
    """Return a spec with widths of actor and critic; by default it sees 5 observations and has one choice of five."""
    actor, critic = ((width,) * layers for width in widths)
    kind = activation, TRANSFORMER, features
    return PolicySpec(observations, space or Discrete(5), actor, critic, *kind, *attention, observation_limit=2.5)


def transformer_for(simulator: Simulator, seed: int = 0, **sizes) -> ActorCritic:
    """Return a model for a simulator."""
    of = simulator.observation_size, simulator.action_space
    return memory_model(transformer_spec(*of, features=simulator.action_feature_size, **sizes), seed)
