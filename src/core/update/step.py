"""One minibatch step: forward, loss, backward in microbatches; clip; optimiser."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from core.hardware.plan import Execution, Precision
from core.policy.networks import ActorCritic
from core.update.loss import Batch, LossTerms, ppo_loss
from core.update.precision import autocast, grad_scaler
from core.update.recovery import MemoryLadder

T = TypeVar("T")
Chunk = tuple[Tensor, Tensor]

_EPSILON = 1e-5
"""Of Adam, as in the reference implementations of PPO (Huang et al., "The 37 implementation details", 2022)."""


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
        execution: whether torch or compiled kernels (:mod:`core.update.compiled`) do the work.
    """

    clip_range: float
    entropy_coefficient: float
    value_coefficient: float
    max_grad_norm: float
    microbatch: int
    precision: Precision
    threads: int = 1
    value_clip_range: float = 0.0
    execution: Execution = "eager"


class Stepper:
    """Runs minibatch steps on one model.

    Args:
        model: changed by :meth:`step`.
        settings: of the first steps; :meth:`set_coefficients` changes those that have a schedule.
        learning_rate_actor: of Adam (Kingma and Ba, 2015), initially.
        learning_rate_critic: the same for the critic.
        epsilon_actor: epsilon of the actor's Adam.

    Attributes:
        memory: what happens when memory runs out; it holds the microbatch.
        precision: of the matrix products now.
    """

    def __init__(
        self,
        model: ActorCritic,
        settings: StepSettings,
        learning_rate_actor: float,
        learning_rate_critic: float,
        epsilon_actor: float = _EPSILON,
    ) -> None:
        self.model, self.settings = model, settings
        self.device = model.flat.device
        self._pool = ThreadPoolExecutor(settings.threads) if settings.threads > 1 else None
        self._parts = [model.part_parameters("actor"), model.part_parameters("critic")]
        self._parameters = [parameter for part in self._parts for parameter in part]
        rates = (learning_rate_actor, epsilon_actor), (learning_rate_critic, _EPSILON)
        groups = [{"params": p, "lr": r, "eps": e} for p, (r, e) in zip(self._parts, rates, strict=True)]
        self.optimizer = self._new_optimizer(groups)
        self.memory = MemoryLadder(settings.microbatch, self.device)
        self.use_precision(settings.precision)

    def _new_optimizer(self, groups: list[dict[str, Any]]) -> Any:
        """Return what steps, and holds the learning rates of its groups of parameters."""
        return torch.optim.Adam(groups, fused=True)

    def compile(self) -> None:
        """Compile what the steps need; nothing, unless kernels of our own do the work."""

    def use_precision(self, precision: Precision) -> None:
        """Compute the coming steps in another format."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)

    def set_learning_rates(self, actor: float, critic: float) -> None:
        """Set the learning rates of the coming steps."""
        for group, rate in zip(self.optimizer.param_groups, (actor, critic), strict=True):
            group["lr"] = rate

    def set_coefficients(self, clip_range: float, value_clip_range: float, entropy_coefficient: float) -> None:
        """Set those coefficients of the coming steps' loss that have a schedule."""
        self.settings = replace(
            self.settings,
            clip_range=clip_range,
            value_clip_range=value_clip_range,
            entropy_coefficient=entropy_coefficient,
        )

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by name; empty before the first step."""
        return {
            f"optimizer.{i}.{name}": value
            for i, parameter in enumerate(self._parameters)
            for name, value in self.optimizer.state[parameter].items()
        }

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what :meth:`optimizer_tensors` returned in place of the state; other names are ignored."""
        self.optimizer.state.clear()
        for i, parameter in enumerate(self._parameters):
            prefix = f"optimizer.{i}."
            state = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            if state:
                self.optimizer.state[parameter] = {name: t.clone().to(self.device) for name, t in state.items()}

    def step(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite.

        Args:
            rollout: all samples of the rollout on the device.
            indices: int64[S], the samples of this minibatch.
            weights: float32[S], their weights, which add up to 1.

        Returns:
            float32[8], the fields of :class:`LossTerms` for this minibatch before the step, and 1 if it was skipped,
            else 0; still on the device.
        """
        totals, terms = self.memory.run("gradients", len(indices), lambda: self._accumulate(rollout, indices, weights))
        return torch.cat([terms, self._apply(totals, terms[0]).reshape(1)])

    def map_chunks(self, function: Callable[[Chunk], T], *columns: Tensor) -> Iterable[T]:
        """Apply a function to the microbatches of some columns; results come in order, on the CPU from threads."""
        parts: list[tuple[Tensor, ...]] = [torch.split(column, self.memory.microbatch) for column in columns]
        chunks = zip(*parts, strict=True)
        return _in_threads(self._pool, function, chunks) if self._pool else map(function, chunks)

    def _accumulate(self, rollout: Batch, indices: Tensor, weights: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the (scaled) gradients of a minibatch and its loss terms; changes nothing, so it can be repeated."""
        report = torch.zeros(len(LossTerms._fields), device=self.device)
        totals: list[Tensor] = []
        for gradients, terms in self.map_chunks(lambda chunk: self._gradients(rollout, chunk), indices, weights):
            totals = [a.add_(b) for a, b in zip(totals, gradients, strict=True)] if totals else list(gradients)
            largest = torch.maximum(report[-1], terms[-1])  # the ratio error is a maximum, the others are sums
            report += terms
            report[-1] = largest
        return totals, report

    def _apply(self, gradients: list[Tensor], loss: Tensor) -> Tensor:
        """Clip the gradients and step; return a float32 scalar, 1 where the step was skipped.

        The host never waits to learn whether: the optimiser's kernel reads ``found_inf`` where it runs, as it does for
        a gradient scaler (torch/amp/grad_scaler.py), and leaves weights and state alone where that is 1. A norm is
        finite only if all that it sums up is.
        """
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        self.scaler.unscale_(self.optimizer)
        norms = [torch.nn.utils.clip_grad_norm_(part, self.settings.max_grad_norm) for part in self._parts]
        finite = torch.isfinite(torch.stack([*norms, loss])).all()
        skipped = torch.logical_not(finite).float()
        self.optimizer.found_inf = skipped
        self.optimizer.step()
        self.scaler.update()
        return skipped

    def _gradients(self, rollout: Batch, chunk: Chunk) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the gradients of one microbatch and its loss terms."""
        terms = self.loss(gather(rollout, *chunk))
        gradients = torch.autograd.grad(self.scaler.scale(terms.total), self._parameters)
        return gradients, torch.stack([term.detach() for term in terms])

    def loss(self, batch: Batch) -> LossTerms:
        """Return the loss terms of some samples."""
        normalised = self.model.normalise(batch.observations)
        with autocast(self.device, self.precision):
            logits = self.model.logits(normalised, batch.features)
            values = self.model.values(normalised)
        log_probs, entropies = self.model.distribution(logits, self.model.log_std, batch.masks, batch.actions)
        s = self.settings
        coefficients = (s.clip_range, s.entropy_coefficient, s.value_coefficient, s.value_clip_range)
        return ppo_loss(log_probs, entropies, values, batch, *coefficients)


def gather(rollout: Batch, indices: Tensor, weights: Tensor) -> Batch:
    """Return the samples at some indices, with these weights."""
    return Batch._make((*(column.index_select(0, indices) for column in rollout[:-1]), weights))


def _in_threads(pool: ThreadPoolExecutor, function: Callable[[Chunk], T], chunks: Iterable[Chunk]) -> Iterator[T]:
    """Yield the results in order. After a failure nothing is running any more that would hold memory."""
    futures = [pool.submit(function, chunk) for chunk in chunks]
    try:
        while futures:
            yield futures.pop(0).result()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
