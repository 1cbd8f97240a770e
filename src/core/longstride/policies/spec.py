"""What a policy is: its family, sizes and action space, without its parameters; and what a family is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from longstride.policies.compiled.network import Network
from longstride.policies.parameter_layout import USUAL_LIMIT, Matrices, ParameterLayout, parameter_shapes
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace, Box

CHUNK = 128
"""Steps, one after another, that a policy with memory learns from together."""

Rule = np.ndarray | None
"""Preferences of an untrained policy, float[n]; None where they are 0."""


@dataclass(frozen=True)
class Remembering:
    """How a family remembers, as functions of a spec and the hidden layers of one network.

    The first matrix of such a family reads the observation.
    """

    # number of float32 values that a network with these hidden layers carries from one step to the next
    state_size: Callable[["PolicySpec", tuple[int, ...]], int]
    # steps before a step on which it depends at most; 0 if on all of its episode
    reach: Callable[["PolicySpec"], int]


def _any_spec(spec: "PolicySpec") -> None:
    """Accept every spec."""


@dataclass(frozen=True, repr=False)
class Family:
    """A family of networks, for all code that must not import torch; ``families/torch_family.py`` is for the rest."""

    name: str  # of POLICY_NETWORK
    # matrices of a network with these hidden layers, without that of its outputs
    matrices: Callable[["PolicySpec", tuple[int, ...]], Matrices]
    # compiles the actor
    build_network: Callable[["PolicySpec"], Network]
    memory: Remembering | None = None  # None: an action depends on its observation alone
    scores_actions: bool = False  # whether each feasible action is scored by its description
    settings: tuple[str, ...] = ()  # further fields of the spec that the family takes, named like their settings
    require: Callable[["PolicySpec"], None] = _any_spec  # raises UserError if the family cannot have such sizes
    update_kernels: bool = False  # whether the compiled update is made for it

    def __repr__(self) -> str:
        return self.name

    @property
    def joint_steps(self) -> str:
        """Why nothing can be asked about a single step by itself, a phrase; empty if it can."""
        if self.scores_actions:
            return "scores lists of actions"
        return "learns from many steps together" if self.memory else ""

    def rules_of(self, simulator: Simulator) -> tuple[Rule, Rule]:
        """Return the rules of a simulator from which a policy may start: logits, and weights of what it is shown."""
        if self.scores_actions:
            return None, simulator.initial_description_weights
        return simulator.initial_logits, simulator.initial_feature_weights


@dataclass(frozen=True)
class PolicySpec:
    """Architecture of an actor and a critic. Equal specs have equal parameter layouts.

    Hidden layers are given by their units, those of a family with memory by the units of its layers with memory; action
    features are the figures about each action that the actor weighs beside its network. Context length (observations
    that a step sees, the present one among them), heads of a block, and hidden units of a block's perceptron as a
    multiple of its width are for families that name them in their ``settings``.
    """

    observation_size: int
    action_space: ActionSpace
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: Literal["relu", "tanh"]
    family: Family
    action_features: int = 0
    context_length: int = 0
    attention_heads: int = 0
    feed_forward_factor: int = 0
    expected_actions: float = 0.0  # feasible actions of a usual decision, where they are scored; for plans alone
    observation_limit: float = USUAL_LIMIT  # of the actor alone: normalised observations are clipped to +- this

    @property
    def scores_actions(self) -> bool:
        """Whether each feasible action is scored by its description, so that no parameter depends on their number."""
        return self.family.scores_actions

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
        return self.family.memory is not None

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
        """Return the state size of a network."""
        return self.family.memory.state_size(self, hidden) if self.family.memory else 0

    @property
    def context(self) -> int:
        """Number of steps before a chunk that are computed again with it: all that its first step depends on.

        It is 0 where states are kept before every chunk: if a step depends on its whole episode, and if that takes less
        than the steps.
        """
        reach = self.family.memory.reach(self) if self.family.memory else 0
        return reach if reach <= CHUNK else 0

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
    def matrices(self) -> dict[str, Matrices]:
        """Rows and columns of the weight matrices of ``"actor"`` and ``"critic"``, that of the outputs last."""
        return {
            part: [*self.family.matrices(self, hidden), (sizes[-2], sizes[-1])]
            for part, hidden, sizes in (
                ("actor", self.actor_hidden, self.actor_sizes),
                ("critic", self.critic_hidden, self.critic_sizes),
            )
        }

    @property
    def actor_parameters(self) -> int:
        """Number of weights and biases of the actor's layers."""
        return sum((inputs + 1) * outputs for inputs, outputs in self.matrices["actor"])

    @cached_property
    def layout(self) -> ParameterLayout:
        """Where each parameter lies in the flat array."""
        numbers = self.action_space.outputs if self.is_gaussian else 0
        score_units = self.score_units if self.scores_actions else 0
        shapes = parameter_shapes(self.observation_size, self.matrices, numbers, self.action_features, score_units)
        return ParameterLayout(shapes)

    @property
    def is_gaussian(self) -> bool:
        """Whether actions are real numbers, drawn from a Gaussian with learned standard deviations."""
        return isinstance(self.action_space, Box)

    @property
    def has_plain_logits(self) -> bool:
        """Whether actions are choices whose logits depend on the observation of their step alone."""
        return not self.is_gaussian and not self.family.joint_steps
