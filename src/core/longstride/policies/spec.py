"""What a policy is: its family, sizes and action space, without its parameters."""

import math
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from longstride.errors import UserError
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

Family = Literal["mlp", "mingru", "transformer", "pointer"]
"""``mlp``: multilayer perceptrons for actor and critic, without memory. ``mingru``: a layer that reads the observation,
then minimal gated recurrent units, which remember (:mod:`longstride.policies.mingru`). ``transformer``: such a layer,
then blocks of attention to the last observations and of a perceptron (:mod:`longstride.policies.transformer`).
``pointer``: multilayer perceptrons that read a summary, and one small network that scores each feasible action
(:mod:`longstride.policies.pointer`)."""

CHUNK = 128
"""Steps, one after another, that a policy with memory learns from together."""


NORM_EPSILON = 1e-6
"""What is added to the mean square of a transformer's values, by whose root they are divided."""


@dataclass(frozen=True)
class PolicySpec:
    """Architecture of an actor and a critic. Equal specs have equal parameter layouts.

    Hidden layers are given by their units, those of ``mingru`` by the units of its layers with memory, those of
    ``transformer`` by the width of its blocks; action features are the figures about each action that the actor weighs
    beside its network. The last three are for ``transformer``: the observations that it sees, the present one among
    them, the heads of a block, and the hidden units of a block's perceptron as a multiple of its width.
    """

    observation_size: int
    action_space: ActionSpace
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: Literal["relu", "tanh"]
    action_features: int = 0
    family: Family = "mlp"
    context_length: int = 0
    attention_heads: int = 0
    feed_forward_factor: int = 0
    expected_actions: float = 0.0  # feasible actions of a usual decision, where they are scored; for plans alone

    @property
    def scores_actions(self) -> bool:
        """Whether each feasible action is scored by its description, so that no parameter depends on their number."""
        return self.family == "pointer"

    @property
    def score_units(self) -> int:
        """Units of the hidden layers of the network that scores an action."""
        return max(self.actor_hidden[-1] // 2, 8)

    @property
    def outputs(self) -> int:
        """Outputs of the actor's layers: those of the action space, or what the scores of actions are computed from."""
        return self.score_units if self.scores_actions else self.action_space.outputs

    @property
    def mask_size(self) -> int:
        """Values of a mask: of all choices; none where a list of the feasible actions stands for it."""
        return 0 if self.scores_actions else sum(self.action_space.choices)

    @property
    def has_memory(self) -> bool:
        """Whether an action depends on the observations before it in the episode."""
        return self.family in ("mingru", "transformer")

    @property
    def chunk(self) -> int:
        """Number of steps, one after another, that are a sample: 1 for a policy without memory."""
        return CHUNK if self.has_memory else 1

    @property
    def state_size(self) -> int:
        """Number of float32 values that a stream carries from one step to the next; 0 for a policy without memory."""
        return self._state_size(self.actor_hidden)

    @property
    def critic_state_size(self) -> int:
        """The same of the critic, which remembers for itself."""
        return self._state_size(self.critic_hidden)

    def _state_size(self, hidden: tuple[int, ...]) -> int:
        """Return the state size of a network: of a transformer keys and values in its context, and the age."""
        if self.family == "transformer":
            return 2 * self.context_length * sum(hidden) + 1
        return sum(hidden) if self.has_memory else 0

    @property
    def context(self) -> int:
        """Number of steps before a chunk that are computed again with it: all that its first step depends on.

        It is 0 where states are kept before every chunk: without attention, and where that takes less than the steps.
        """
        reach = max(len(self.actor_hidden), len(self.critic_hidden)) * (self.context_length - 1)
        return reach if self.family == "transformer" and reach <= CHUNK else 0

    @property
    def rows_per_sample(self) -> float:
        """Number of rows that an update computes for each sample: context is computed again with every chunk."""
        return 1.0 + self.context / self.chunk

    def kept_states(self, steps: int) -> int:
        """Return the number of states that a trajectory of so many steps keeps: before each chunk, or the first."""
        return min(steps, 1) if self.context else -(-steps // self.chunk)

    @cached_property
    def actor_sizes(self) -> tuple[int, ...]:
        """Widths of the actor's layers: observation, hidden layers, outputs of the action space."""
        return (self.observation_size, *self._hidden(self.actor_hidden), self.outputs)

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

        A layer with memory has three columns for each of its units. A block has four matrices: queries, keys and
        values; what the heads have found; and the two of its perceptron.
        """
        found = {}
        for part, sizes in (("actor", self.actor_sizes), ("critic", self.critic_sizes)):
            pairs = list(pairwise(sizes))
            if self.has_memory:
                pairs[1:-1] = [(inputs, 3 * units) for inputs, units in pairs[1:-1]]
            if self.family == "transformer":
                pairs[1:-1] = [matrix for width, _ in pairs[1:-1] for matrix in self.block(width)]
            found[part] = pairs
        return found

    def block(self, width: int) -> tuple[tuple[int, int], ...]:
        """Return rows and columns of the matrices of a transformer's block."""
        hidden = self.feed_forward_factor * width
        return (width, 3 * width), (width, width), (width, hidden), (hidden, width)

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
        spec = cls(**{**values, **hidden, "action_space": _space_from_json(values["action_space"])})
        _require_scalars(spec)
        return spec


def _require_scalars(spec: PolicySpec) -> None:
    """Check the types of a spec's own values.

    Raises:
        TypeError: a size is no integer from 0 on, or another value is no text or number.
    """
    for each in fields(spec):
        value = getattr(spec, each.name)
        if each.name in ("actor_hidden", "critic_hidden", "action_space"):
            continue
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
        if not (whole if each.type in (int, "int") else isinstance(value, str | int | float)):
            raise TypeError(f"{each.name} is {value!r:.50}")


def spec_for(
    simulator: Simulator,
    actor_hidden: tuple[int, ...],
    critic_hidden: tuple[int, ...],
    activation: Any,
    family: Family = "mlp",
    attention: tuple[int, int, int] = (0, 0, 0),
) -> PolicySpec:
    """Return the spec of a policy with these hidden layers that plays a simulator.

    Of a transformer, ``attention`` are context length, heads and the multiple of the width for its perceptrons.

    Raises:
        UserError: the policy scores actions by their descriptions, and the simulator describes none.
    """
    observations, space = simulator.observation_size, simulator.action_space
    features, expected = simulator.action_feature_size, 0.0
    if family == "pointer":
        observations, features, expected = (
            simulator.summary_size,
            simulator.description_size,
            simulator.expected_actions,
        )
        if not (features and simulator.compiled):
            raise UserError(
                "POLICY_NETWORK = 'pointer' scores actions by their descriptions, but "
                f"{type(simulator).__name__} has no describe_actions; set it to 'mlp', or write that function "
                "(docs/reference/simulator-contract.md)."
            )
    return PolicySpec(
        observations,
        space,
        actor_hidden,
        critic_hidden,
        activation,
        features,
        family,
        *attention,
        expected_actions=expected,
    )


def spec_on(spec: PolicySpec, simulator: Simulator) -> PolicySpec:
    """Return the spec of a trained policy on a simulator that may have other actions, where it can play it."""
    if not spec.scores_actions:
        return spec
    return replace(spec, action_space=simulator.action_space, expected_actions=simulator.expected_actions)


def _space_to_json(space: ActionSpace) -> dict[str, Any]:
    """Return a space as JSON values; an infinite bound is None."""
    if isinstance(space, Discrete):
        return {"discrete": space.n}
    if isinstance(space, MultiDiscrete):
        return {"multi_discrete": list(space.sizes)}
    low, high = ([x if math.isfinite(x) else None for x in bounds] for bounds in (space.low, space.high))
    return {"box": {"low": low, "high": high, "squashed": space.squashed, "scale": space.scale and list(space.scale)}}


def _space_from_json(values: dict[str, Any]) -> ActionSpace:
    [(kind, value)] = values.items()
    if kind == "discrete":
        return Discrete(value)
    if kind == "multi_discrete":
        return MultiDiscrete(value)
    low = [-math.inf if x is None else x for x in value["low"]]
    high = [math.inf if x is None else x for x in value["high"]]
    if "scale" not in value and not value["squashed"]:  # numbers were the draws themselves
        box = Box(low, high)
        if box.centre.any() or set(box.scales) != {1.0}:
            raise UserError(
                "An earlier version of Longstride, which did not scale real-valued actions, trained this policy: "
                "train again, or use that one."
            )
    return Box(low, high, value["squashed"], value.get("scale"))
