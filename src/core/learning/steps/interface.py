"""What an update asks of a stepper, whichever way it computes, and what the steppers share."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from core.hardware.types import Execution, Precision
from core.learning.algorithms.ppo import Batch
from core.learning.oom_recovery import OomRetry
from core.policies.networks import ActorCritic

T = TypeVar("T")
Chunk = tuple[Tensor, Tensor]

ADAM_EPSILON = 1e-5
"""As in the reference implementations of PPO (Huang et al., "The 37 implementation details", 2022)."""


@dataclass(frozen=True)
class StepSettings:
    """What a step needs to know.

    Attributes:
        clip_range: PPO's epsilon.
        entropy_coefficient: weight of the entropy bonus.
        value_coefficient: weight of the value loss.
        max_grad_norm: the gradients of actor and of critic are each clipped to this norm.
        microbatch: most samples in one forward pass (memory, not learning), until memory runs out.
        precision: of the matrix products, until they are not finite.
        threads: microbatches worked on at once, on the CPU. Their gradients are added up in a fixed order, so the
            result does not depend on it; torch itself should use one thread.
        value_clip_range: of the critic, in units of the value normalisation; 0 for no clipping.
        executions: how steps run; of several the one that the first update finds fastest.
        checkpointing: whether torch's backward pass computes the activations of a network again, for memory.
    """

    clip_range: float
    entropy_coefficient: float
    value_coefficient: float
    max_grad_norm: float
    microbatch: int
    precision: Precision
    threads: int = 1
    value_clip_range: float = 0.0
    executions: tuple[Execution, ...] = ("eager",)
    checkpointing: bool = False

    def with_coefficients(
        self, clip_range: float, value_clip_range: float, entropy_coefficient: float
    ) -> "StepSettings":
        """Return these settings with other values of what has a schedule."""
        return replace(
            self,
            clip_range=clip_range,
            value_clip_range=value_clip_range,
            entropy_coefficient=entropy_coefficient,
        )


class Stepper(Protocol):
    """Runs minibatch steps on one model.

    Attributes:
        model: changed by :meth:`step`.
        settings: of the coming steps.
        device: of the model.
        memory: what happens when memory runs out; it holds the microbatch.
        precision: of the matrix products now.
        scaler: of FP16's gradients; disabled in every other format.
    """

    model: ActorCritic
    settings: StepSettings
    device: torch.device
    memory: OomRetry
    precision: Precision
    scaler: torch.amp.GradScaler

    def step(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite.

        Args:
            rollout: all samples of the rollout on the device.
            indices: int64[S], the samples of this minibatch.
            weights: float32[S], their weights, which add up to 1.

        Returns:
            float32[8], the fields of ``LossTerms`` for this minibatch before the step,
            and 1 if it was skipped, else 0; still on the device.
        """

    def map_chunks(self, function: Callable[[Chunk], T], *columns: Tensor) -> Iterable[T]:
        """Apply a function to the microbatches of some columns; results come in order, on the CPU from threads."""

    def compile(self) -> None:
        """Compile what the steps need, or load it, without changing anything."""

    def use_precision(self, precision: Precision) -> None:
        """Compute the coming steps in another format."""

    def set_learning_rates(self, actor: float, critic: float) -> None:
        """Set the learning rates of the coming steps."""

    def set_coefficients(self, clip_range: float, value_clip_range: float, entropy_coefficient: float) -> None:
        """Set those coefficients of the coming steps' loss that have a schedule."""

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by name, the same names for every stepper; empty before the first step."""

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what :meth:`optimizer_tensors` of any stepper returned; other names are ignored."""


def pool_of(threads: int) -> ThreadPoolExecutor | None:
    """Return a pool where there is more than one thread to use."""
    return ThreadPoolExecutor(threads) if threads > 1 else None


def map_chunks(
    pool: ThreadPoolExecutor | None, microbatch: int, function: Callable[[Chunk], T], *columns: Tensor
) -> Iterable[T]:
    """Apply a function to the microbatches of some columns; results come in order."""
    parts: list[tuple[Tensor, ...]] = [torch.split(column, microbatch) for column in columns]
    chunks = zip(*parts, strict=True)
    return _in_threads(pool, function, chunks) if pool else map(function, chunks)


def _in_threads(pool: ThreadPoolExecutor, function: Callable[[Chunk], T], chunks: Iterable[Chunk]) -> Iterator[T]:
    """Yield the results in order. After a failure nothing is running any more that would hold memory."""
    futures = deque(pool.submit(function, chunk) for chunk in chunks)
    try:
        while futures:
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
