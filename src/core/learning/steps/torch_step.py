"""One minibatch step by torch: forward, loss, backward in microbatches; clip; optimiser."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from core.hardware.types import Precision
from core.learning.algorithms.interface import Algorithm, Loss, PolicyOutputs, Samples
from core.learning.oom_recovery import OomRetry
from core.learning.schedule import Coefficients
from core.learning.steps.interface import RATIO_ERROR, TOTAL, UpdateSettings
from core.learning.torch_settings import autocast, grad_scaler
from core.policies.networks import ActorCritic

LossFunction = Callable[[Samples, Tensor], Loss]
"""``(samples, weights) -> loss``, weights float32[B]."""


class TorchStepper:
    """Runs minibatch steps on one model operation by operation (a :class:`core.learning.steps.interface.Stepper`).

    A step reads nothing that changes but tensors at fixed addresses, and the host reads none of them, so that
    :mod:`core.learning.steps.cuda_graph` can capture it. ``zeros`` are the coefficients of the loss that are 0, as
    numbers that a captured step holds.
    """

    def __init__(self, model: ActorCritic, algorithm: Algorithm, settings: UpdateSettings) -> None:
        self.model, self.algorithm, self.settings = model, algorithm, settings
        self.device = model.flat.device
        parts = ("actor", "critic") if algorithm.needs_critic else ("actor",)
        self._parts = {part: model.part_parameters(part) for part in parts}
        self._parameters = [parameter for part in self._parts.values() for parameter in part]
        adam = {part: settings.adam[part] for part in parts}
        groups = [
            {"params": self._parts[part], "lr": self._scalar(rate), "eps": epsilon}
            for part, (rate, epsilon) in adam.items()
        ]
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=True)
        self.memory = OomRetry(settings.microbatch, self.device, settings.threads)
        self._scalars = {name: self._scalar(number) for name, number in algorithm.coefficients._asdict().items()}
        self._columns = (TOTAL, *algorithm.terms)
        self._is_maximum = torch.tensor([name == RATIO_ERROR for name in self._columns], device=self.device)
        self._other_loss: LossFunction | None = None
        self.set_coefficients(Coefficients(1.0, algorithm.coefficients))
        self.use_precision(settings.precision)

    def _scalar(self, number: float) -> Tensor:
        return torch.tensor(number, dtype=torch.float32, device=self.device)

    def compile(self) -> None:
        """Do nothing: torch has its kernels."""

    def use_precision(self, precision: Precision) -> None:
        """Compute the next steps in another number format."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)

    def use_loss(self, loss: LossFunction | None) -> None:
        """Compute the loss of the next steps by another function that equals :meth:`loss`."""
        self._other_loss = loss

    def set_coefficients(self, coefficients: Coefficients) -> None:
        """Set learning rates and coefficients of the loss for the next steps."""
        for group, part in zip(self.optimizer.param_groups, self._parts, strict=True):
            group["lr"].fill_(self.settings.adam[part][0] * coefficients.learning_rate_factor)
        numbers = coefficients.loss._asdict()
        for name, number in numbers.items():
            self._scalars[name].fill_(number)
        self.zeros = {name: 0.0 for name, number in numbers.items() if number == 0.0}
        self._coefficients = coefficients.loss._replace(**{**self._scalars, **self.zeros})

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by name; empty before the first step."""
        return {
            f"optimizer.{i}.{name}": value
            for i, parameter in enumerate(self._parameters)
            for name, value in self.optimizer.state[parameter].items()
        }

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what :meth:`optimizer_tensors` of any stepper returned; other names are ignored."""
        for i, parameter in enumerate(self._parameters):
            prefix, held = f"optimizer.{i}.", self.optimizer.state.pop(parameter, {})
            state = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            if state and held.keys() == state.keys():  # in place, where a captured step reads them
                self.optimizer.state[parameter] = {name: held[name].copy_(t) for name, t in state.items()}
            elif state:
                self.optimizer.state[parameter] = {name: t.clone().to(self.device) for name, t in state.items()}

    def step(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite; return its report."""
        run = self.memory.run
        return self._apply(*run("gradients", len(indices), lambda: self.gradients(rollout, indices, weights)))

    def actor_gradient(self, rollout: Samples, indices: Tensor) -> Tensor:
        """Return the actor's gradient of the mean loss of some samples."""
        weights = torch.full((len(indices),), 1.0 / len(indices), device=self.device)
        gradients, _ = self.memory.run("gradients", len(indices), lambda: self.gradients(rollout, indices, weights))
        actor = torch.cat([gradient.ravel() for gradient in gradients[: len(self._parts["actor"])]])
        return actor / self.scaler.get_scale()

    def step_without_retry(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Do what :meth:`step` does, but pass on the error when memory runs out."""
        return self._apply(*self.gradients(rollout, indices, weights))

    def gradients(self, rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the gradients of a minibatch (scaled in FP16), and float32[1 + terms], its total loss and loss terms.

        It changes nothing, so that it can be tried again. Arguments are those of :meth:`step`.
        """
        report = torch.zeros(len(self._columns), device=self.device)
        sums: list[Tensor] = []
        parts = self.memory.map_microbatches(lambda chunk: self._gradients(rollout, *chunk), indices, weights)
        for gradients, part in parts:
            sums = [a.add_(b) for a, b in zip(sums, gradients, strict=True)] if sums else list(gradients)
            report = torch.where(self._is_maximum, torch.maximum(report, part), report + part)
        return sums, report

    def _gradients(self, rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the gradients of one microbatch and its report."""
        loss = (self._other_loss or self.loss)(rollout.at(indices), weights)
        gradients = torch.autograd.grad(self.scaler.scale(loss.total), self._parameters)
        return gradients, torch.stack([figure.detach() for figure in (loss.total, *loss.terms)])

    def _apply(self, gradients: list[Tensor], report: Tensor) -> Tensor:
        """Clip the gradients and step; return the report with 1 where the step was skipped.

        The host never waits to learn whether: the optimiser's kernel reads ``found_inf`` where it runs, as it does for
        a gradient scaler (torch/amp/grad_scaler.py), and leaves parameters and state alone where that is 1. A norm is
        finite only if all that it sums up is.
        """
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        self.scaler.unscale_(self.optimizer)
        norms = [torch.nn.utils.clip_grad_norm_(part, self.settings.max_grad_norm) for part in self._parts.values()]
        finite = torch.isfinite(torch.stack([*norms, report[self._columns.index(TOTAL)]])).all()
        skipped = torch.logical_not(finite).float()
        self.optimizer.found_inf = skipped  # type: ignore[attr-defined]
        self.optimizer.step()
        self.scaler.update()
        return torch.cat([report, skipped.reshape(1)])

    def loss(self, samples: Samples, weights: Tensor) -> Loss:
        """Return the loss of some samples with weights float32[B]."""
        normalised = self.model.normalise(samples.observations)
        with autocast(self.device, self.precision):
            logits = self._evaluate(self.model.logits, normalised, samples.features)
            critic = self.algorithm.needs_critic
            values = self._evaluate(self.model.values, normalised) if critic else normalised.new_empty(0)
        evaluated = self.model.distribution(logits, self.model.log_std, samples.masks, samples.actions)
        # Tensors, and not numbers: torch's compiler would compile anew for each of their values.
        return self.algorithm.loss(PolicyOutputs(logits, *evaluated, values), samples, weights, self._coefficients)

    def _evaluate(self, network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return a network's outputs; with checkpointing, the backward pass computes its activations again."""
        if not self.settings.checkpointing:
            return network(*inputs)
        outputs: Tensor = checkpoint(network, *inputs, use_reentrant=False, preserve_rng_state=False)
        return outputs
