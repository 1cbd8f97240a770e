"""What an update asks of a stepper, whichever way it computes, and what the steppers share."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from longstride.hardware.types import Execution, Precision
from longstride.learning.algorithms.interface import Algorithm, Samples
from longstride.learning.distributed.ranks import Ranks
from longstride.learning.oom_recovery import OomRetry
from longstride.learning.schedule import Coefficients
from longstride.policies.networks import ActorCritic

ADAM_EPSILON = 1e-5
"""Epsilon of the reference implementations of PPO (Huang et al., "The 37 implementation details", 2022)."""

TOTAL, RATIO_ERROR, SKIPPED = "total", "ratio_error", "skipped"
"""Columns of a step's report: the total loss, the loss term that is a maximum, and 1 where the step was skipped."""


@dataclass(frozen=True)
class UpdateSettings:
    """What an update and its steps need to know beside the algorithm.

    Attributes:
        max_grad_norm: largest norm of the actor's gradient, and of the critic's; a longer one is clipped.
        microbatch: most samples in one forward pass (memory, not learning), until memory runs out.
        precision: number format of the matrix products, until they are not finite.
        target_kl: the epochs end when an epoch's mean approximate KL divergence exceeds 1.5 times this; 0 for never.
        kl_coefficient: reward that a decision loses for each unit of its log-ratio to the run's first policy.
        measure_noise: whether each update begins with a measurement of the actor's gradient noise.
        threads: microbatches computed at once, on the CPU. Their gradients are added up in a fixed order, so the result
            does not depend on it; torch itself should use one thread.
        executions: how steps run; of several, the one that the first update finds fastest.
        run_steps: optimiser steps of the whole run, about; 0 where nobody knows.
        checkpointing: whether torch's backward pass computes the activations of a network again, for memory.
    """

    epochs: int
    batch_size: int
    learning_rate_actor: float
    learning_rate_critic: float
    max_grad_norm: float
    microbatch: int
    precision: Precision
    adam_epsilon_actor: float = ADAM_EPSILON
    target_kl: float = 0.0
    kl_coefficient: float = 0.0
    measure_noise: bool = False
    threads: int = 1
    executions: tuple[Execution, ...] = ("eager",)
    run_steps: int = 0
    checkpointing: bool = False

    @property
    def adam(self) -> dict[str, tuple[float, float]]:
        """Learning rate and epsilon of Adam (Kingma and Ba, 2015) for ``"actor"`` and ``"critic"``."""
        actor, critic = (self.learning_rate_actor, self.adam_epsilon_actor), (self.learning_rate_critic, ADAM_EPSILON)
        return {"actor": actor, "critic": critic}


class Stepper(Protocol):
    """Runs minibatch steps on one model.

    Attributes:
        model: model that :meth:`step` changes.
        memory: microbatches, and the remedy when memory runs out.
        precision: number format of the matrix products now.
        scaler: scaler of FP16's gradients; disabled in every other format.
        ranks: processes that learn from parts of the same minibatches.
    """

    model: ActorCritic
    algorithm: Algorithm
    settings: UpdateSettings
    device: torch.device
    memory: OomRetry
    precision: Precision
    scaler: torch.amp.GradScaler
    ranks: Ranks

    def step(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step on some samples of the rollout, or none where loss or gradient is not finite.

        Indices are int64[S], weights float32[S], the share of each in the minibatch. It returns the report of the
        minibatch before the step, float32[columns], still on the device; see :func:`by_name`.
        """

    def actor_gradient(self, rollout: Samples, indices: Tensor) -> Tensor:
        """Return float32[actor's parameters], the gradient of the mean loss of samples at int64[S] indices.

        Other ranks have no part in it. Nothing changes; the order of the parameters is that of the model.
        """

    def compile(self) -> str:
        """Compile what the steps need, or load it, without changing anything; return a sentence about a failure."""

    def use_precision(self, precision: Precision) -> None:
        """Compute the next steps in another number format."""

    def set_coefficients(self, coefficients: Coefficients) -> None:
        """Set learning rates and coefficients of the loss for the next steps."""

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by name, the same names for every stepper; empty before the first step."""

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what :meth:`optimizer_tensors` of any stepper returned; other names are ignored."""

    def copy_optimizer(self) -> Any:
        """Return a copy of the optimiser's state, for :meth:`restore_optimizer` of the same stepper."""

    def restore_optimizer(self, copy: Any) -> None:
        """Restore a copy in place."""


def report_columns(algorithm: Algorithm) -> tuple[str, ...]:
    """Return the names of a step report's columns: the total, the algorithm's loss terms, whether it was skipped."""
    return (TOTAL, *algorithm.terms, SKIPPED)


def by_name(algorithm: Algorithm, reports: Tensor) -> dict[str, Tensor]:
    """Return the columns of step reports, float32[..., columns], by their names."""
    return dict(zip(report_columns(algorithm), reports.unbind(-1), strict=True))


class StepperState(NamedTuple):
    """Copies of a model's parameters and of the optimiser's state."""

    flat: Tensor
    optimizer: Any


def snapshot(stepper: Stepper) -> StepperState:
    """Return copies for :func:`restore`."""
    return StepperState(stepper.model.flat.detach().clone(), stepper.copy_optimizer())


def restore(stepper: Stepper, state: StepperState) -> None:
    """Restore parameters and optimiser state in place."""
    with torch.no_grad():
        stepper.model.flat.copy_(state.flat)
    stepper.restore_optimizer(state.optimizer)
