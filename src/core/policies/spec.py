"""What a policy is: its family, sizes and action space, without its parameters."""

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from core.simulators.simulator import Simulator
from core.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

Family = Literal["mlp"]
"""``mlp``: multilayer perceptrons for actor and critic, without memory."""


@dataclass(frozen=True)
class PolicySpec:
    """Architecture of an actor and a critic. Equal specs have equal parameter layouts.

    Hidden layers are given by their units; action features are the figures about each action that the actor weighs
    beside its network.
    """

    observation_size: int
    action_space: ActionSpace
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: Literal["relu", "tanh"]
    action_features: int = 0
    family: Family = "mlp"

    @property
    def state_size(self) -> int:
        """Number of float32 values that a stream carries from one step to the next; 0 for a policy without memory."""
        return 0

    @cached_property
    def actor_sizes(self) -> tuple[int, ...]:
        """Widths of the actor's layers: observation, hidden layers, outputs of the action space."""
        return (self.observation_size, *self.actor_hidden, self.action_space.outputs)

    @cached_property
    def critic_sizes(self) -> tuple[int, ...]:
        """Widths of the critic's layers: observation, hidden layers, 1."""
        return (self.observation_size, *self.critic_hidden, 1)

    @property
    def is_gaussian(self) -> bool:
        """Whether actions are real numbers, drawn from a Gaussian with learned standard deviations."""
        return isinstance(self.action_space, Box)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which :meth:`from_json` makes an equal spec."""
        return {**asdict(self), "action_space": _space_to_json(self.action_space)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PolicySpec":
        """Return the spec that :meth:`to_json` described.

        Raises:
            KeyError, TypeError, ValueError: the values describe none.
        """
        hidden = {name: tuple(map(int, values[name])) for name in ("actor_hidden", "critic_hidden")}
        return cls(**{**values, **hidden, "action_space": _space_from_json(values["action_space"])})


def spec_for(
    simulator: Simulator, actor_hidden: tuple[int, ...], critic_hidden: tuple[int, ...], activation: Any
) -> PolicySpec:
    """Return the spec of a policy with these hidden layers that plays a simulator."""
    observations, space = simulator.observation_size, simulator.action_space
    return PolicySpec(observations, space, actor_hidden, critic_hidden, activation, simulator.action_feature_size)


def _space_to_json(space: ActionSpace) -> dict[str, Any]:
    """Return a space as JSON values; an infinite bound is None."""
    if isinstance(space, Discrete):
        return {"discrete": space.n}
    if isinstance(space, MultiDiscrete):
        return {"multi_discrete": list(space.sizes)}
    low, high = ([x if math.isfinite(x) else None for x in bounds] for bounds in (space.low, space.high))
    return {"box": {"low": low, "high": high, "squashed": space.squashed}}


def _space_from_json(values: dict[str, Any]) -> ActionSpace:
    [(kind, value)] = values.items()
    if kind == "discrete":
        return Discrete(value)
    if kind == "multi_discrete":
        return MultiDiscrete(value)
    low = [-math.inf if x is None else x for x in value["low"]]
    return Box(low, [math.inf if x is None else x for x in value["high"]], value["squashed"])
