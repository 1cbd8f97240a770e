"""The spec of a policy that plays a simulator."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from longstride.errors import UserError
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import Family, PolicySpec
from longstride.simulators.simulator import Simulator


def spec_for(
    simulator: Simulator,
    actor_hidden: tuple[int, ...],
    critic_hidden: tuple[int, ...],
    activation: Any,
    family: Family = MLP,
    settings: Mapping[str, int] = MappingProxyType({}),
) -> PolicySpec:
    """Return the spec of a policy with these hidden layers that plays a simulator.

    Settings are the values of those that the family names.

    Raises:
        UserError: the family cannot have such sizes, or it scores actions and the simulator describes none.
    """
    observations, space = simulator.observation_size, simulator.action_space
    features, expected = simulator.action_feature_size, 0.0
    if family.scores_actions:
        observations, features, expected = (
            simulator.summary_size,
            simulator.description_size,
            simulator.expected_actions,
        )
        if not (features and simulator.compiled):
            raise UserError(
                f"POLICY_NETWORK = '{family.name}' scores actions by their descriptions, but "
                f"{type(simulator).__name__} has no describe_actions; set it to '{MLP.name}', or write that "
                "function (docs/reference/simulator-contract.md)."
            )
    spec = PolicySpec(
        observations,
        space,
        actor_hidden,
        critic_hidden,
        activation,
        family,
        features,
        expected_actions=expected,
        **settings,
    )
    family.require(spec)
    return spec


def spec_on(spec: PolicySpec, simulator: Simulator) -> PolicySpec:
    """Return the spec of a trained policy on a simulator that may have other actions, where it can play it."""
    if not spec.scores_actions:
        return spec
    return replace(spec, action_space=simulator.action_space, expected_actions=simulator.expected_actions)
