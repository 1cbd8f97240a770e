"""Forward and backward pass of multilayer perceptrons, without autograd.

ReLU is part of its product, which has no derivative in autograd, and gradients are written where they belong. The pairs
that cannot be, of gradients in half precision and their places in float32, are left to one copy for all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.steps.loss_slopes.one_choice import StepLoss
from longstride.learning.steps.step_parameters import StepParameters
from longstride.policies.networks import ActorCritic
from longstride.policies.parameter_layout import FEATURE_WEIGHTS

Layer = tuple[Tensor, Tensor]
"""Weight, float[inputs, outputs], and bias; or places of their gradients."""


class Activation(NamedTuple):
    """A layer's product with an activation, and the derivative by the product from the one by the activated outputs."""

    product: Callable[[Tensor, Tensor, Tensor], Tensor]  # of bias, inputs, weight
    slopes: Callable[[Tensor, Tensor], Tensor]  # of derivatives and outputs


def _tanh_product(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return torch.addmm(bias, x, weight).tanh_()


def _relu_slopes(slopes: Tensor, outputs: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(slopes, outputs, 0.0)  # type: ignore[no-any-return]


ACTIVATIONS = {
    "relu": Activation(torch._addmm_activation, _relu_slopes),
    "tanh": Activation(_tanh_product, torch.ops.aten.tanh_backward),
}


class Pass(NamedTuple):
    """A network's forward pass.

    Attributes:
        inputs: float[B, inputs] of each layer, in the number format of its weights.
        hidden: float[B, units], the activated outputs of the last hidden layer, in its format.
        outputs: float32[B, outputs].
    """

    inputs: list[Tensor]
    hidden: Tensor
    outputs: Tensor


def forward(layers: Sequence[Layer], x: Tensor, activation: Activation) -> Pass:
    """Return the forward pass of a network from float[B, O], in the number format of the first layer's weights."""
    inputs = [x]
    *hidden, (weight, bias) = layers
    for each in hidden:
        x = activation.product(each[1], x, each[0])
        inputs.append(x)
    inputs[-1] = x.to(weight.dtype)
    return Pass(inputs, x, torch.addmm(bias, inputs[-1], weight))


def backward(
    done: Pass, layers: Sequence[Layer], slopes: Tensor, places: Sequence[Layer], activation: Activation
) -> list[tuple[Tensor, Tensor]]:
    """Write the gradients of a network by its layers to their places, float32, given those by its outputs.

    The inputs of the pass are given up one by one.

    Returns:
        Pairs of a place and the gradient that is still to be copied there.
    """
    late: list[tuple[Tensor, Tensor]] = []
    for number in reversed(range(len(layers))):
        (weight, _), (place, bias_place) = layers[number], places[number]
        inputs = done.inputs.pop()
        if slopes.dtype == place.dtype:
            torch.mm(inputs.T, slopes, out=place)
        else:
            late.append((place, torch.mm(inputs.T, slopes)))
        torch.sum(slopes, 0, dtype=bias_place.dtype, out=bias_place)
        if number:
            outputs = done.hidden if number == len(layers) - 1 else inputs
            slopes = activation.slopes(torch.mm(slopes, weight.T).to(outputs.dtype), outputs)
    return late


Gathered = tuple[Samples, Callable[[Tensor, Tensor], StepLoss]]
"""Samples, and the function that returns their loss and its derivatives for logits and values, float32[0] without a
critic."""


class MlpGradient:
    """Computes gradients of actor and critic from the derivatives by their outputs."""

    def __init__(self, model: ActorCritic, parts: Sequence[str]) -> None:
        self._model, self._parts, self._activation = model, parts, ACTIVATIONS[model.spec.activation]

    @torch.no_grad()
    def gradient(
        self, read: StepParameters, gather: Callable[[], Gathered], scaler: torch.amp.GradScaler, room: int
    ) -> tuple[Tensor, StepLoss]:
        """Return the gradient of samples, flat as :meth:`StepParameters.flat` has it, and the loss.

        No name holds the samples once their loss is known, nor what a network's backward pass has used.
        """
        model, layers = self._model, {part: self._model.layers(part, read.leaves) for part in self._parts}
        samples, loss_of = gather()
        features, passes = samples.features, self._passes(samples, layers)
        logits, *values = (each.outputs for each in passes.values())
        logits = model.weigh_features(logits, features, read.leaves)
        loss = loss_of(logits, values[0].squeeze(-1) if values else logits.new_empty(0))
        del samples, loss_of, logits, values
        flat, late = read.new_flat(room), list[tuple[Tensor, Tensor]]()
        slopes: Any = scaler.scale(loss.slopes)
        loss = loss._replace(outputs=(), slopes=())
        places = {name: model.layout.view(flat, name) for part in self._parts for name in model.layout.names(part)}
        if model.spec.action_features:
            torch.sum(slopes[0].unsqueeze(-1) * features, (0, 1), out=places[FEATURE_WEIGHTS])
        del features
        for part, by_outputs in zip(self._parts, slopes, strict=True):
            of_rows = by_outputs.view(len(by_outputs), -1)
            late += backward(passes.pop(part), layers[part], of_rows, model.layers(part, places), self._activation)
        if late:
            torch._foreach_copy_([place for place, _ in late], [gradient for _, gradient in late])
        return flat, loss

    def _passes(self, samples: Samples, layers: Mapping[str, Sequence[Layer]]) -> dict[str, Pass]:
        """Return the forward passes; networks that read the same number format share its observations."""
        normalised = self._model.normalise(samples.observations)
        formats = {dtype: normalised.to(dtype) for dtype in {first[0].dtype for first, *_ in layers.values()}}
        return {part: forward(each, formats[each[0][0].dtype], self._activation) for part, each in layers.items()}
