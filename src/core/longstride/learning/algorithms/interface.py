"""What an update asks of an algorithm, and the data that passes between them."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total
from longstride.learning.batch.mean_outcomes import NextOutcomes
from longstride.learning.listed.lists import Lists
from longstride.learning.memory.chunks import Chunks
from longstride.policies.candidates import ActionList
from longstride.policies.memory import Memory
from longstride.policies.spec import CHUNK
from longstride.rollout.trajectory import Trajectory


class RolloutBatch(NamedTuple):
    """The rollout that an update learns from; trajectory i has T_i steps.

    Discounts and lambdas of the critic's targets are float64[T_i] of each, from each step to the next. Where several
    processes learn together, each from its trajectories, ``total`` returns the sum of float64[n] over all of them.

    ``present_log_probs`` returns float32[T_i] of each, log-probabilities of its actions under the policy that is about
    to be improved. They cost a forward pass. With ROLLOUT_LAG they differ from those of the policy that collected it.

    ``outcomes`` are further ones of the steps of each trajectory, if any were drawn. Rewards are then means over all
    outcomes of a step. Those that :meth:`Algorithm.targets` is given make up for the mean of the next values, too, for
    advantages only unless outcomes are ``for_critic`` alone.
    """

    trajectories: Sequence[Trajectory]
    discounts: Sequence[np.ndarray]
    value_lambdas: Sequence[np.ndarray]
    total: Total | None = None
    present_log_probs: Callable[[], Sequence[np.ndarray]] = tuple
    outcomes: Sequence[NextOutcomes | None] = ()
    for_critic: bool = False

    def split(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Return [T_i] of each trajectory, for [N] numbers of all steps."""
        return np.split(numbers, np.cumsum([t.steps for t in self.trajectories])[:-1])

    @property
    def steps(self) -> int:
        """Number of steps of all trajectories."""
        return sum(t.steps for t in self.trajectories)


class Samples(NamedTuple):
    """Samples on the device of the model, of B steps: those of a rollout, or those of a minibatch.

    A sample is a step, or for a policy with memory a chunk of steps. The first columns have a row for each step.

    Attributes:
        observations: float32[B, O], observations as the simulator wrote them.
        actions: int64[B], int64[B, choices] or float32[B, numbers], actions as a trajectory keeps them; of a policy
            that scores actions int64[B], the places of the chosen ones in their lists.
        log_probs: float32[B], log-probabilities under the policy that collected the rollout.
        masks: bool[B, values of all choices], allowed values.
        features: float32[B, values of all choices, k], action features.
        advantages: float32[B], advantages, standardised over the rollout.
        returns: float32[B], targets of the critic, in units of the value normalisation.
        values: float32[B], values before the update, in the same units.
        chunks: the chunks of a policy with memory; None without one.
        lists: the lists of feasible actions of a policy that scores them; None for others.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    masks: Tensor
    features: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    chunks: Chunks | None = None
    lists: Lists | None = None

    def at(self, indices: Tensor) -> "Samples":
        """Return the samples at int64[S] indices."""
        chunks = None if self.chunks is None else self.chunks.at(indices)
        steps = indices if chunks is None else chunks.rows.flatten()
        lists = None if self.lists is None else self.lists.at(steps)
        columns = {name: column.index_select(0, steps) for name, column in self.columns.items()}
        return Samples(**columns, chunks=chunks, lists=lists)

    def map(self, function: Callable[[Tensor], Any]) -> "Samples":
        """Return the samples with a function applied to each tensor."""
        columns = {name: function(column) for name, column in self.columns.items()}
        chunks = None if self.chunks is None else Chunks(*map(function, self.chunks))
        return Samples(
            **columns, chunks=chunks, lists=None if self.lists is None else Lists(*map(function, self.lists))
        )

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name: float32[B, ...] and so on, as described above."""
        return {name: column for name, column in self._asdict().items() if name not in ("chunks", "lists")}

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        return [*self.columns.values(), *(self.chunks or ()), *(self.lists or ())]

    def spread(self, weights: Tensor) -> Tensor:
        """Return float32[B], the weight of each step of a minibatch, for float32[S], that of each sample."""
        return weights if self.chunks is None else self.chunks.spread(weights)

    def shares(self, indices: Tensor) -> Tensor:
        """Return float32[S], the share of each sample at some indices in the mean over all of their steps."""
        if self.chunks is not None:
            return self.chunks.shares(indices)
        return torch.full((len(indices),), 1.0 / len(indices), device=indices.device)

    @property
    def size(self) -> int:
        """Number of samples of a rollout."""
        return len(self.observations) if self.chunks is None else len(self.chunks.rows)

    @property
    def chunk(self) -> int:
        """Most steps of a sample that count."""
        return 1 if self.chunks is None else min(self.chunks.rows.shape[1], CHUNK)

    @property
    def actor_memory(self) -> Memory | None:
        """What the actor knows beside the observations of a minibatch; None without memory."""
        return None if self.chunks is None else Memory(self.chunks.states, self.chunks.begins)

    @property
    def critic_memory(self) -> Memory | None:
        """What the critic knows."""
        return None if self.chunks is None else Memory(self.chunks.critic_states, self.chunks.begins)

    @property
    def described(self) -> Tensor | ActionList:
        """What an actor reads of the actions of a minibatch: their features, or the lists of feasible ones."""
        return self.features if self.lists is None else self.lists.actions

    @property
    def choices(self) -> tuple[Tensor, Tensor]:
        """What a distribution needs of a minibatch: masks and actions, or the list of each action and the chosen."""
        if self.lists is None:
            return self.masks, self.actions
        return self.lists.rows, self.lists.begins + self.actions


class PolicyOutputs(NamedTuple):
    """What a policy computes for B samples.

    Attributes:
        actor: float32[B, outputs], unmasked logits, or a Gaussian policy's means.
        log_probs: float32[B], of the samples' actions.
        entropies: float32[B], of the action distributions.
        values: float32[B], in units of the value normalisation; float32[0] without a critic.
    """

    actor: Tensor
    log_probs: Tensor
    entropies: Tensor
    values: Tensor


class Targets(NamedTuple):
    """What an algorithm makes of a rollout's N steps.

    Attributes:
        advantages: float32[N], advantages of about unit size.
        returns: float32[N], targets of the critic, in units of the reward.
        learned_from: bool[N], which steps the epochs use; None for all.
        figures: further figures for the record, by name.
    """

    advantages: np.ndarray
    returns: np.ndarray
    learned_from: np.ndarray | None = None
    figures: Mapping[str, float] = MappingProxyType({})


class Loss(NamedTuple):
    """What is minimised, a float32 scalar, and a NamedTuple of further ones for the record.

    The terms of a minibatch are the sums of its microbatches' terms, except ``ratio_error``, the largest of theirs.
    """

    total: Tensor
    terms: Any


class Algorithm(Protocol):
    """A reinforcement-learning algorithm: pure functions, and numbers that never change.

    Its loss depends on a NamedTuple of coefficients. In a run each of them is a float32 scalar on the device, so that a
    schedule can change it under a captured step; one of 0 is the number 0.0, so that its term can be left out.
    """

    @property
    def needs_critic(self) -> bool:
        """Whether a critic is learned and values the observations."""

    @property
    def group_size(self) -> int:
        """Number of trajectories, one after the other in a rollout, that depend on each other; 1 where none do."""

    @property
    def learns_from_all(self) -> bool:
        """Whether the epochs use all steps of every rollout, so that minibatches can be drawn before the targets."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss terms, as metrics.jsonl has them; ``approx_kl`` and ``ratio_error`` are among them."""

    @property
    def coefficients(self) -> Any:
        """NamedTuple of floats, coefficients of the loss at the start of a run."""

    def targets(
        self, rollout: RolloutBatch, values: Sequence[np.ndarray], next_values: Sequence[np.ndarray]
    ) -> Targets:
        """Return advantages and the critic's targets.

        For each trajectory values are float32[T_i], V(s_t), zeros without a critic; next values are V(s_{t+1}).
        """

    def loss(self, outputs: PolicyOutputs, samples: Samples, weights: Tensor, coefficients: Any) -> Loss:
        """Return the loss of B samples, with coefficients as described above.

        Weights are float32[B], the share of each in its minibatch, 0 for padding. They add up to 1 over a whole
        minibatch, so that the gradients of its microbatches add up to its gradient.
        """
