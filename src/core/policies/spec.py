"""What a policy is: its family, sizes and action space, without its parameters."""

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from core.simulators.simulator import Simulator
from core.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

Family = Literal["mlp", "mingru"]
"""``mlp``: multilayer perceptrons for actor and critic, without memory. ``mingru``: a layer that reads the observation,
then minimal gated recurrent units, which remember (:mod:`core.policies.mingru`)."""

CHUNK = 128
"""Steps, one after another, that a policy with memory learns from together."""


@dataclass(frozen=True)
class PolicySpec:
    """Architecture of an actor and a critic. Equal specs have equal parameter layouts.

    Hidden layers are given by their units, those of ``mingru`` by the units of its layers with memory; action features
    are the figures about each action that the actor weighs beside its network.
    """

    observation_size: int
    action_space: ActionSpace
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: Literal["relu", "tanh"]
    action_features: int = 0
    family: Family = "mlp"

    @property
    def has_memory(self) -> bool:
        """Whether an action depends on the observations before it in the episode."""
        return self.family == "mingru"

    @property
    def chunk(self) -> int:
        """Number of steps, one after another, that are a sample: 1 for a policy without memory."""
        return CHUNK if self.has_memory else 1

    @property
    def state_size(self) -> int:
        """Number of float32 values that a stream carries from one step to the next; 0 for a policy without memory."""
        return sum(self.actor_hidden) if self.has_memory else 0

    @property
    def critic_state_size(self) -> int:
        """The same of the critic, which remembers for itself."""
        return sum(self.critic_hidden) if self.has_memory else 0

    @cached_property
    def actor_sizes(self) -> tuple[int, ...]:
        """Widths of the actor's layers: observation, hidden layers, outputs of the action space."""
        return (self.observation_size, *self._hidden(self.actor_hidden), self.action_space.outputs)

    @cached_property
    def critic_sizes(self) -> tuple[int, ...]:
        """Widths of the critic's layers: observation, hidden layers, 1."""
        return (self.observation_size, *self._hidden(self.critic_hidden), 1)

    def _hidden(self, hidden: tuple[int, ...]) -> tuple[int, ...]:
        """Return the widths of a network's hidden layers: with memory, one that reads the observation comes first."""
        return hidden[:1] + hidden if self.has_memory else hidden

    @cached_property
    def matrices(self) -> dict[str, list[tuple[int, int]]]:
        """Rows and columns of the weight matrices of ``"actor"`` and ``"critic"``.

        A layer with memory has three columns for each of its units.
        """
        found = {}
        for part, sizes in (("actor", self.actor_sizes), ("critic", self.critic_sizes)):
            pairs = list(pairwise(sizes))
            if self.has_memory:
                pairs[1:-1] = [(inputs, 3 * units) for inputs, units in pairs[1:-1]]
            found[part] = pairs
        return found

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
    simulator: Simulator,
    actor_hidden: tuple[int, ...],
    critic_hidden: tuple[int, ...],
    activation: Any,
    family: Family = "mlp",
) -> PolicySpec:
    """Return the spec of a policy with these hidden layers that plays a simulator."""
    observations, space = simulator.observation_size, simulator.action_space
    features = simulator.action_feature_size
    return PolicySpec(observations, space, actor_hidden, critic_hidden, activation, features, family)


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
