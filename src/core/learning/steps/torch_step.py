"""One minibatch step by torch: forward, loss, backward in microbatches; clip; optimiser."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from core.hardware.types import Precision
from core.learning.algorithms.ppo import Batch, LossTerms, ppo_loss
from core.learning.oom_recovery import OomRetry
from core.learning.precision import autocast, grad_scaler
from core.learning.steps.interface import ADAM_EPSILON, Chunk, StepSettings, T, map_chunks, pool_of
from core.policies.networks import ActorCritic


class Scheduled(NamedTuple):
    """Coefficients of the loss that have a schedule, float32 scalars where a captured step reads them."""

    clip_range: Tensor
    value_clip_range: Tensor
    entropy_coefficient: Tensor


class TorchStepper:
    """Runs minibatch steps on one model operation by operation (a :class:`core.learning.steps.interface.Stepper`).

    A step reads nothing that changes but tensors at fixed addresses, and the host reads none of them, so that
    :mod:`core.learning.steps.cuda_graph` can capture it.

    Args:
        model: changed by :meth:`step`.
        settings: of the first steps; :meth:`set_coefficients` changes those that have a schedule.
        learning_rate_actor: of Adam (Kingma and Ba, 2015), initially.
        learning_rate_critic: the same for the critic.
        epsilon_actor: epsilon of the actor's Adam.
    """

    def __init__(
        self,
        model: ActorCritic,
        settings: StepSettings,
        learning_rate_actor: float,
        learning_rate_critic: float,
        epsilon_actor: float = ADAM_EPSILON,
    ) -> None:
        self.model, self.settings = model, settings
        self.device = model.flat.device
        self._pool = pool_of(settings.threads)
        self._parts = [model.part_parameters("actor"), model.part_parameters("critic")]
        self._parameters = [parameter for part in self._parts for parameter in part]
        rates = (self._scalar(learning_rate_actor), epsilon_actor), (self._scalar(learning_rate_critic), ADAM_EPSILON)
        groups = [{"params": p, "lr": r, "eps": e} for p, (r, e) in zip(self._parts, rates, strict=True)]
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=True)
        self.memory = OomRetry(settings.microbatch, self.device)
        self._scheduled = Scheduled(*(self._scalar(getattr(settings, name)) for name in Scheduled._fields))
        self._value_coefficient, self._clips_values = settings.value_coefficient, settings.value_clip_range > 0.0
        self._other_loss: Callable[[Batch], LossTerms] | None = None
        self.use_precision(settings.precision)

    def _scalar(self, number: float) -> Tensor:
        return torch.tensor(number, dtype=torch.float32, device=self.device)

    def compile(self) -> None:
        """Do nothing: torch has its kernels."""

    def use_precision(self, precision: Precision) -> None:
        """Compute the coming steps in another format."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)

    def use_loss(self, loss: Callable[[Batch], LossTerms] | None) -> None:
        """Compute loss and gradient of the coming steps by another function that equals :meth:`loss`."""
        self._other_loss = loss

    def set_learning_rates(self, actor: float, critic: float) -> None:
        """Set the learning rates of the coming steps."""
        for group, rate in zip(self.optimizer.param_groups, (actor, critic), strict=True):
            group["lr"].fill_(rate)

    def set_coefficients(self, clip_range: float, value_clip_range: float, entropy_coefficient: float) -> None:
        """Set those coefficients of the coming steps' loss that have a schedule."""
        self.settings = self.settings.with_coefficients(clip_range, value_clip_range, entropy_coefficient)
        self._clips_values = value_clip_range > 0.0
        for scalar, number in zip(self._scheduled, (clip_range, value_clip_range, entropy_coefficient), strict=True):
            scalar.fill_(number)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by name; empty before the first step."""
        return {
            f"optimizer.{i}.{name}": value
            for i, parameter in enumerate(self._parameters)
            for name, value in self.optimizer.state[parameter].items()
        }

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what :meth:`optimizer_tensors` returned in place of the state; other names are ignored."""
        for i, parameter in enumerate(self._parameters):
            prefix, held = f"optimizer.{i}.", self.optimizer.state.pop(parameter, {})
            state = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            if state and held.keys() == state.keys():  # where they lie, a captured step finds them
                self.optimizer.state[parameter] = {name: held[name].copy_(t) for name, t in state.items()}
            elif state:
                self.optimizer.state[parameter] = {name: t.clone().to(self.device) for name, t in state.items()}

    def step(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite."""
        totals, terms = self.memory.run("gradients", len(indices), lambda: self.gradients(rollout, indices, weights))
        return self._apply(totals, terms)

    def step_as_it_is(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Do what :meth:`step` does, but leave it to the caller what happens where memory runs out."""
        return self._apply(*self.gradients(rollout, indices, weights))

    def map_chunks(self, function: Callable[[Chunk], T], *columns: Tensor) -> Iterable[T]:
        """Apply a function to the microbatches of some columns; results come in order, on the CPU from threads."""
        return map_chunks(self._pool, self.memory.microbatch, function, *columns)

    def gradients(self, rollout: Batch, indices: Tensor, weights: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the (scaled) gradients of a minibatch and its loss terms; changes nothing, so it can be repeated."""
        report = torch.zeros(len(LossTerms._fields), device=self.device)
        totals: list[Tensor] = []
        for gradients, terms in self.map_chunks(lambda chunk: self._gradients(rollout, chunk), indices, weights):
            totals = [a.add_(b) for a, b in zip(totals, gradients, strict=True)] if totals else list(gradients)
            largest = torch.maximum(report[-1], terms[-1])  # the ratio error is a maximum, the others are sums
            report += terms
            report[-1] = largest
        return totals, report

    def _apply(self, gradients: list[Tensor], terms: Tensor) -> Tensor:
        """Clip the gradients and step; return float32[8], the loss terms and 1 where the step was skipped.

        The host never waits to learn whether: the optimiser's kernel reads ``found_inf`` where it runs, as it does for
        a gradient scaler (torch/amp/grad_scaler.py), and leaves weights and state alone where that is 1. A norm is
        finite only if all that it sums up is.
        """
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        self.scaler.unscale_(self.optimizer)
        norms = [torch.nn.utils.clip_grad_norm_(part, self.settings.max_grad_norm) for part in self._parts]
        finite = torch.isfinite(torch.stack([*norms, terms[0]])).all()
        skipped = torch.logical_not(finite).float()
        self.optimizer.found_inf = skipped  # type: ignore[attr-defined]
        self.optimizer.step()
        self.scaler.update()
        return torch.cat([terms, skipped.reshape(1)])

    def _gradients(self, rollout: Batch, chunk: Chunk) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the gradients of one microbatch and its loss terms."""
        loss = self._other_loss or self.loss
        terms = loss(gather(rollout, *chunk))
        gradients = torch.autograd.grad(self.scaler.scale(terms.total), self._parameters)
        return gradients, torch.stack([term.detach() for term in terms])

    def loss(self, batch: Batch) -> LossTerms:
        """Return the loss terms of some samples."""
        normalised, call = (
            self.model.normalise(batch.observations),
            _checkpointed if self.settings.checkpointing else _plain,
        )
        with autocast(self.device, self.precision):
            logits = call(self.model.logits, normalised, batch.features)
            values = call(self.model.values, normalised)
        log_probs, entropies = self.model.distribution(logits, self.model.log_std, batch.masks, batch.actions)
        now = self._scheduled  # and not the settings: torch's compiler would compile anew for each of their numbers
        value_clip_range = now.value_clip_range if self._clips_values else 0.0
        coefficients = (now.clip_range, now.entropy_coefficient, self._value_coefficient, value_clip_range)
        return ppo_loss(log_probs, entropies, values, batch, *coefficients)


def _plain(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Return what a network says."""
    return network(*inputs)


def _checkpointed(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Return what a network says; the backward pass computes its activations again.

    Gradient checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016), a network at a time.
    """
    said: Tensor = checkpoint(network, *inputs, use_reentrant=False, preserve_rng_state=False)
    return said


def gather(rollout: Batch, indices: Tensor, weights: Tensor) -> Batch:
    """Return the samples at some indices, with these weights."""
    return Batch._make((*(column.index_select(0, indices) for column in rollout[:-1]), weights))
