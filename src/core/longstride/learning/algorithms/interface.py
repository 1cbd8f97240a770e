"""What an update asks of an algorithm, and the data that passes between them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total
from longstride.learning.listed.samples import ListedSamples
from longstride.learning.memory.chunks import ChunkedSamples
from longstride.rollout.trajectory import Trajectory


class RolloutBatch(NamedTuple):
    """The rollout that an update learns from; trajectory i has T_i steps.

    Discounts and lambdas of the critic's targets are float64[T_i] of each, from each step to the next. Where several
    processes learn together, each from its trajectories, ``total`` returns the sum of float64[n] over all of them.
    """

    trajectories: Sequence[Trajectory]
    discounts: Sequence[np.ndarray]
    value_lambdas: Sequence[np.ndarray]
    total: Total | None = None

    @property
    def steps(self) -> int:
        """Number of steps of all trajectories."""
        return sum(t.steps for t in self.trajectories)


class Samples(NamedTuple):
    """B samples on the device of the model: those of a rollout, or those of a minibatch.

    Attributes:
        observations: float32[B, O], observations as the simulator wrote them.
        actions: int64[B], int64[B, choices] or float32[B, numbers], actions as a trajectory keeps them.
        log_probs: float32[B], log-probabilities under the policy that collected the rollout.
        masks: bool[B, values of all choices], allowed values.
        features: float32[B, values of all choices, k], action features.
        states: float32[B, state_size], states of a policy with memory before each step.
        advantages: float32[B], advantages, standardised over the rollout.
        returns: float32[B], targets of the critic, in units of the value normalisation.
        values: float32[B], values before the update, in the same units.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    masks: Tensor
    features: Tensor
    states: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor

    def at(self, indices: Tensor) -> "Samples":
        """Return the samples at int64[S] indices."""
        return Samples(*(column.index_select(0, indices) for column in self))

    def spread(self, weights: Tensor) -> Tensor:
        """Return the weight of each step of a minibatch: a sample is a step."""
        return weights

    def shares(self, indices: Tensor) -> Tensor:
        """Return float32[S], the share of each sample at some indices in their mean."""
        return torch.full((len(indices),), 1.0 / len(indices), device=indices.device)

    @property
    def chunk(self) -> int:
        """Number of steps of a sample."""
        return 1

    @property
    def actor_memory(self) -> None:
        """Nothing: each observation stands for itself."""

    @property
    def critic_memory(self) -> None:
        """Nothing."""


AnySamples = Samples | ChunkedSamples | ListedSamples
"""Samples of a policy without or with memory, or of one that scores lists of actions.

All have the columns that a loss reads, with a row for each step."""


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
    def dependent(self) -> int:
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

    def loss(self, outputs: PolicyOutputs, samples: AnySamples, weights: Tensor, coefficients: Any) -> Loss:
        """Return the loss of B samples, with coefficients as described above.

        Weights are float32[B], the share of each in its minibatch, 0 for padding. They add up to 1 over a whole
        minibatch, so that the gradients of its microbatches add up to its gradient.
        """
