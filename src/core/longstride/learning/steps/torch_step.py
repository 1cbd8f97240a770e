"""One minibatch step by torch: forward, loss, backward in microbatches; clip; optimiser."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from longstride.hardware.types import Precision
from longstride.learning.algorithms.interface import Algorithm, Loss, PolicyOutputs, Samples
from longstride.learning.distributed.add_minibatch import add_minibatch, room_for
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.oom_recovery import OomRetry
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.clipped_adam import ClippedAdam
from longstride.learning.steps.interface import RATIO_ERROR, SKIPPED, TOTAL, UpdateSettings, report_columns
from longstride.learning.steps.loss_slopes import one_choice
from longstride.learning.steps.loss_slopes.choose import Kernels, kernels_on
from longstride.learning.steps.loss_slopes.one_choice import StepLoss
from longstride.learning.steps.mlp_gradient import MlpGradient
from longstride.learning.steps.step_parameters import StepParameters
from longstride.learning.torch_settings import grad_scaler
from longstride.policies.networks import ActorCritic
from longstride.policies.parameter_layout import LOG_STD

LossFunction = Callable[[Samples, Tensor, Mapping[str, Tensor]], Loss]
"""``(samples, weights, parameters by name) -> loss``, weights float32[B]."""


class TorchStepper:
    """Runs minibatch steps on one model operation by operation: a ``Stepper`` of ``interface.py``.

    A step reads nothing that changes but tensors at fixed addresses, and the host reads none of them, so that
    :mod:`longstride.learning.steps.cuda_graph` can capture it. ``zeros`` are the coefficients of the loss that are 0,
    as numbers that a captured step holds. ``kernels`` are what loss and gather compute with.
    """

    def __init__(
        self,
        model: ActorCritic,
        algorithm: Algorithm,
        settings: UpdateSettings,
        ranks: Ranks = ALONE,
        new_optimizer: Callable[..., ClippedAdam] = ClippedAdam,
    ) -> None:
        self.model, self.algorithm, self.settings, self.ranks = model, algorithm, settings, ranks
        self.device = model.flat.device
        parts = ("actor", "critic") if algorithm.needs_critic else ("actor",)
        self._slices = {part: model.layout.slice_of(part) for part in parts}
        self._names = [name for part in parts for name in model.layout.names(part)]
        flat = model.flat.detach()
        held = {part: flat[where] for part, where in self._slices.items()}
        self.optimizer = new_optimizer(held, settings.adam, settings.max_grad_norm)
        self._scalars = {name: self._scalar(number) for name, number in algorithm.coefficients._asdict().items()}
        self._columns, self._zero = report_columns(algorithm), self._scalar(0.0)
        self._is_maximum = torch.tensor([name == RATIO_ERROR for name in self._columns], device=self.device)
        self.set_coefficients(Coefficients(1.0, algorithm.coefficients))
        self.use_precision(settings.precision)
        self.memory = OomRetry(settings.microbatch, self.device, settings.threads)
        self._other_loss: LossFunction | None = None
        self.kernels = Kernels()
        self.has_slopes = model.on_card and one_choice.fits(model.spec, algorithm)
        by_hand = self.has_slopes and model.has_plain_layers and not settings.checkpointing
        self._by_hand = MlpGradient(model, parts) if by_hand else None

    def _scalar(self, number: float) -> Tensor:
        return torch.tensor(number, dtype=torch.float32, device=self.device)

    def compile(self) -> str:
        """Compile kernels of a step where there are some; return a sentence if they do not work."""
        if not self.has_slopes:
            return ""
        self.kernels, problem = kernels_on(self.device)
        return problem

    def use_precision(self, precision: Precision) -> None:
        """Compute the next steps in another number format."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)
        self._read = StepParameters(self.model, self._names, precision)

    def use_loss(self, loss: LossFunction | None) -> None:
        """Compute the loss of the next steps by another function that equals :meth:`loss`."""
        self._other_loss = loss

    def set_coefficients(self, coefficients: Coefficients) -> None:
        """Set learning rates and coefficients of the loss for the next steps."""
        rates = {part: rate * coefficients.learning_rate_factor for part, (rate, _) in self.settings.adam.items()}
        self.optimizer.set_rates(rates)
        numbers = coefficients.loss._asdict()
        for name, number in numbers.items():
            self._scalars[name].fill_(number)
        self.zeros = {name: 0.0 for name, number in numbers.items() if number == 0.0}
        self._coefficients = coefficients.loss._replace(**{**self._scalars, **self.zeros})

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser on the host by name; empty before the first step."""
        states = {part: {n: t.cpu() for n, t in self.optimizer.state(part).items()} for part in self._slices}
        if states["actor"]["step"].item() == 0.0:
            return {}
        return {f"optimizer.{i}.{name}": view for i, name, view in self._moments(states)}

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what :meth:`optimizer_tensors` of any stepper returned, in place; without any it starts afresh."""
        for i, name, view in self._moments({part: self.optimizer.state(part) for part in self._slices}):
            if "optimizer.0.step" in tensors:
                view.copy_(tensors[f"optimizer.{i}.{name}"])
            else:
                view.zero_()

    def _moments(self, states: Mapping[str, Mapping[str, Tensor]]) -> Iterator[tuple[int, str, Tensor]]:
        """Yield number of the parameter, name, and its view of the parts' states, for each parameter and name."""
        layout = self.model.layout
        for i, parameter in enumerate(self._names):
            part = parameter.split(".")[0]
            for name, flat in states[part].items():
                begin, shape = layout.offsets[parameter] - self._slices[part].start, layout.shapes[parameter]
                yield i, name, flat if flat.dim() == 0 else self._own(flat[begin : begin + prod(shape)], parameter)

    def _own(self, flat: Tensor, parameter: str) -> Tensor:
        """Return the part of a parameter's moments that belongs to the policy itself."""
        return self.model.own_part(flat.view(self.model.layout.shapes[parameter]), parameter)

    def copy_optimizer(self) -> list[Tensor]:
        """Return a copy of the optimiser's state for :meth:`restore_optimizer`."""
        return [tensor.clone() for tensor in self._state()]

    def restore_optimizer(self, copy: list[Tensor]) -> None:
        """Restore a copy in place."""
        for tensor, copied in zip(self._state(), copy, strict=True):
            tensor.copy_(copied)

    def _state(self) -> list[Tensor]:
        return [tensor for part in self._slices for tensor in self.optimizer.state(part).values()]

    def step(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite; return its report."""
        return self.apply(*self._with_retry(rollout, indices, weights))

    def actor_gradient(self, rollout: Samples, indices: Tensor) -> Tensor:
        """Return the actor's gradient of the mean loss of some samples."""
        weights = rollout.shares(indices)
        gradient, _ = self._with_retry(rollout, indices, weights)
        return gradient[self._slices["actor"]] / self.scaler.get_scale()

    def _with_retry(self, rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return what :meth:`gradients` does; where memory runs out, the microbatch halves."""
        steps = len(indices) * rollout.chunk
        return self.memory.run("gradients", steps, lambda: self.gradients(rollout, indices, weights))

    def step_without_retry(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Do what :meth:`step` does, but pass on the error when memory runs out."""
        return self.apply(*self.gradients(rollout, indices, weights))

    def gradients(self, rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of a minibatch and its report, in which nothing is skipped yet.

        The gradient, scaled in FP16, is float32 in the layout of the model; places without a parameter,
        and room for the exchange between ranks at the end, hold any number.
        It changes nothing, so that it can be tried again. Arguments are those of :meth:`step`.
        """
        self.refresh()
        found: tuple[Tensor, Tensor] | None = None
        parts = self.memory.map_microbatches(
            lambda part: self.microbatch_gradient(rollout, *part), indices, weights, unit=rollout.chunk
        )
        for part in parts:
            found = part if found is None else self.added(found, part)
        assert found is not None
        return found

    def refresh(self) -> None:
        """Let the next microbatches read the parameters as they are now."""
        self._read.refresh()

    def added(self, found: tuple[Tensor, Tensor], part: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return gradient and report of some microbatches and of one more; the first gradient is changed."""
        (gradient, report), (flat, other) = found, part
        gradient.add_(flat)
        return gradient, torch.where(self._is_maximum, torch.maximum(report, other), report + other)

    def microbatch_gradient(self, rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of one microbatch and its report; see :meth:`gradients`."""
        if self._by_hand is None or self._other_loss is not None:
            loss = self.loss_of(rollout, indices, weights)
            return self.report_of(loss, self.gradients_of(loss))
        gather = partial(self.kernels.gather, rollout.observations, indices)
        loss_of = partial(self._slopes_of, rollout, weights, rows=indices)
        room = room_for(self.ranks, len(self._columns))
        flat, loss = self._by_hand.gradient(self._read, gather, loss_of, self.scaler, room)
        return flat, self._figures_of(loss)

    def loss_of(self, rollout: Samples, indices: Tensor, weights: Tensor) -> StepLoss:
        """Return the loss of one microbatch."""
        # No name holds the gathered samples: most of them are free before the backward pass.
        if self.has_slopes and self._other_loss is None:
            return self._loss_with_slopes(*_gathered(rollout, indices, weights))
        return StepLoss(*(self._other_loss or self.loss)(*_gathered(rollout, indices, weights), self.leaves))

    @property
    def leaves(self) -> Mapping[str, Tensor]:
        """What the loss is differentiated by, by name."""
        return self._read.leaves

    def gradients_of(self, loss: StepLoss) -> tuple[Tensor, ...]:
        """Return the gradient of a loss by each of :attr:`leaves`, scaled in FP16."""
        leaves = [self.leaves[name] for name in self._names]
        if not loss.slopes:
            return torch.autograd.grad(self.scaler.scale(loss.total), leaves)
        slopes: Any = self.scaler.scale(loss.slopes)
        return torch.autograd.grad(loss.outputs, leaves, slopes)

    def report_of(self, loss: StepLoss, gradients: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return a loss and its gradient as :meth:`gradients` does."""
        flat = self._read.flat(gradients, room_for(self.ranks, len(self._columns)))
        return flat, self._figures_of(loss)

    def _figures_of(self, loss: StepLoss) -> Tensor:
        """Return the report of a microbatch, float32[columns]: the total loss, its terms, and 0."""
        if loss.report is not None:
            return loss.report
        return torch.stack([*(figure.detach() for figure in (loss.total, *loss.terms)), self._zero])

    def apply(self, gradient: Tensor, report: Tensor) -> Tensor:
        """Clip the gradient and step; return the report, in which a step that is skipped is so now."""
        parts = {part: gradient[where] for part, where in self._slices.items()}
        if self.ranks.size > 1:
            end = max(where.stop for where in self._slices.values())
            report = add_minibatch(self.ranks, gradient, end, report, self._is_maximum)
        loss, skipped = (report[self._columns.index(name)] for name in (TOTAL, SKIPPED))
        self.optimizer.step(parts, loss, self.scaler, skipped, self.kernels.adam)
        return report

    def loss(self, samples: Samples, weights: Tensor, tensors: Mapping[str, Tensor] | None = None) -> Loss:
        """Return the loss of some samples with weights float32[B], by the model's parameters or those given."""
        held = self.model.tensors if tensors is None else tensors
        logits, values = self._outputs(samples, held)
        log_std = held.get(LOG_STD, self.model.log_std)
        evaluated = self.model.distribution(logits, log_std, *samples.choices)
        # Tensors, and not numbers: torch's compiler would compile anew for each of their values.
        return self.algorithm.loss(PolicyOutputs(logits, *evaluated, values), samples, weights, self._coefficients)

    def _loss_with_slopes(self, samples: Samples, weights: Tensor) -> StepLoss:
        """Return the loss of some samples, and its derivatives by the networks' outputs."""
        logits, values = self._outputs(samples, self.leaves)
        return self._slopes_of(samples, weights, logits, values)

    def _slopes_of(self, samples: Samples, weights: Tensor, logits: Tensor, values: Tensor, **others: Any) -> StepLoss:
        """Return the same for such outputs; the others are further arguments of the function."""
        return one_choice.loss_with_slopes(
            logits, values, samples, weights, self._coefficients, self.kernels.figures, **others
        )

    def _outputs(self, samples: Samples, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the actor's outputs and values, float32[0] without a critic."""
        normalised = self.model.normalised(samples.observations)
        logits = self._evaluate(self.model.logits, normalised, samples.described, tensors, samples.actor_memory)
        if not self.algorithm.needs_critic:
            return logits, normalised.new_empty(0)
        return logits, self._evaluate(self.model.values, normalised, tensors, samples.critic_memory)

    def _evaluate(self, network: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return a network's outputs; with checkpointing, the backward pass computes its activations again."""
        if not self.settings.checkpointing:
            return network(*inputs)
        outputs: Tensor = checkpoint(network, *inputs, use_reentrant=False, preserve_rng_state=False)
        return outputs


def _gathered(rollout: Samples, indices: Tensor, weights: Tensor) -> tuple[Samples, Tensor]:
    """Return the samples of a minibatch and float32[B], the weight of each of their steps."""
    samples = rollout.at(indices)
    return samples, samples.spread(weights)
