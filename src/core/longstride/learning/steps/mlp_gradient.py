"""Forward and backward pass of multilayer perceptrons, without autograd.

ReLU is part of its product, which has no derivative in autograd, and gradients are written where they belong. In half
precision those of hidden layers are one flat tensor, which is copied to its place in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from longstride.learning.steps.loss_slopes.one_choice import StepLoss
from longstride.learning.steps.step_parameters import StepParameters
from longstride.policies.networks import ActorCritic
from longstride.policies.parameter_layout import FEATURE_WEIGHTS

T = TypeVar("T")

Layer = tuple[Tensor, Tensor]
"""Weight, float[inputs, outputs], and bias; or places of their gradients."""


class Activation(NamedTuple):
    """A layer's product with an activation, and the derivative by the product from the one by the activated outputs."""

    product: Callable[..., Tensor]  # of bias, inputs, weight, into ``out``
    slopes: Callable[..., Tensor]  # of derivatives and outputs, in the number format of ``grad_input``


def _tanh_product(bias: Tensor, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    return torch.addmm(bias, x, weight, out=out).tanh_()


def _relu_slopes(slopes: Tensor, outputs: Tensor, grad_input: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(slopes, outputs, 0.0, grad_input=grad_input)  # type: ignore[no-any-return]


ACTIVATIONS = {
    "relu": Activation(torch._addmm_activation, _relu_slopes),
    "tanh": Activation(_tanh_product, torch.ops.aten.tanh_backward),
}


class Pass(NamedTuple):
    """A network's forward pass.

    Attributes:
        inputs: float[B, inputs] of each layer, in the number format of its weights.
        hidden: float[B, units], the activated outputs of each hidden layer, in their format; one tensor for all if they
            are equally wide. The backward pass writes the derivatives by them in their place.
        outputs: float32[B, outputs].
    """

    inputs: list[Tensor]
    hidden: Sequence[Tensor] | Tensor
    outputs: Tensor


def forward(layers: Sequence[Layer], x: Tensor, activation: Activation) -> Pass:
    """Return the forward pass of a network from float[B, O], in the number format of the first layer's weights."""
    inputs = [x]
    *below, (weight, bias) = layers
    widths, rows = [len(each[1]) for each in below], len(x)
    same = len(set(widths)) == 1
    hidden = x.new_empty(len(below), rows, widths[0]) if same else [x.new_empty(rows, width) for width in widths]
    for each, place in zip(below, hidden, strict=True):
        x = activation.product(each[1], x, each[0], out=place)
        inputs.append(x)
    inputs[-1] = x.to(weight.dtype)
    return Pass(inputs, hidden, torch.addmm(bias, inputs[-1], weight))


def backward(
    done: Pass,
    layers: Sequence[Layer],
    slopes: Tensor,
    places: Sequence[Layer],
    activation: Activation,
    ones: Mapping[torch.dtype, Tensor],
    biases: Tensor | None = None,
) -> None:
    """Write the gradients of a network by its layers to their places, given those by its outputs.

    Places have the number formats of their layers. The inputs of the pass are given up one by one. ``ones`` are
    float[1, B] in each format: gradients of biases are products with them, as a GPU adds up columns slowly. One product
    computes those of all hidden layers, if ``biases``, float[hidden layers, 1, units], are their places.
    """
    for number in reversed(range(len(layers))):
        (weight, _), (place, bias_place) = layers[number], places[number]
        inputs = done.inputs.pop()
        torch.mm(inputs.T, slopes, out=place)
        if slopes.shape[1] == 1:
            torch.sum(slopes, 0, out=bias_place)
        elif biases is None or number == len(layers) - 1:
            torch.mm(ones[slopes.dtype], slopes, out=bias_place.unsqueeze(0))
        if number:
            outputs = done.hidden[number - 1]
            slopes = activation.slopes(torch.mm(slopes, weight.T), outputs, grad_input=outputs)
    if biases is not None:
        assert isinstance(done.hidden, Tensor)
        torch.bmm(ones[slopes.dtype].expand(len(biases), 1, -1), done.hidden, out=biases)


class SideStream:
    """A second stream of a GPU; on the CPU there is none, and work beside other work is done before it."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def run(self, work: Callable[[], T]) -> T:
        """Launch work that begins once what was launched so far is done, and return what it returns."""
        if self._stream is None:
            return work()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            return work()

    def join(self) -> None:
        """Let what is launched next wait for that work.

        Until then, names must hold all tensors that the work reads and that were made outside of it: their memory is
        given out again as soon as no name does.
        """
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)


class MlpGradient:
    """Computes gradients of actor and critic from the derivatives by their outputs, on a GPU both at the same time."""

    def __init__(self, model: ActorCritic, parts: Sequence[str]) -> None:
        self._model, self._activation = model, ACTIVATIONS[model.spec.activation]
        (self._first, *self._others), self._beside = parts, SideStream(model.flat.device)
        self._ones: dict[tuple[int, torch.dtype], Tensor] = {}

    @torch.no_grad()
    def gradient(
        self,
        read: StepParameters,
        gather: Callable[[torch.dtype], Tensor],
        loss_of: Callable[..., StepLoss],
        scaler: torch.amp.GradScaler,
        room: int,
    ) -> tuple[Tensor, StepLoss]:
        """Return the gradient of samples, flat as :meth:`StepParameters.flat` has it, and the loss.

        ``gather`` returns their observations, normalised, in a number format; ``loss_of`` is
        :func:`~longstride.learning.steps.loss_slopes.one_choice.loss_with_slopes` of the samples.
        """
        layers = {part: self._model.layers(part, read.leaves) for part in (self._first, *self._others)}
        inputs = {dtype: gather(dtype) for dtype in {first[0].dtype for first, *_ in layers.values()}}

        def ahead(part: str) -> Pass:
            return forward(layers[part], self._model.seen_by(part, inputs[layers[part][0][0].dtype]), self._activation)

        passes = self._both(ahead)
        outputs, *values = (each.outputs for each in passes.values())
        rows, of_rows = len(outputs), values[0].squeeze(-1) if values else outputs.new_empty(0)
        flat, described = read.new_flat(room), read.leaves.get(FEATURE_WEIGHTS)
        place = None if described is None else self._model.layout.view(flat, FEATURE_WEIGHTS)
        loss = loss_of(outputs, of_rows, feature_weights=described, by_features=place)
        del outputs, values, of_rows
        slopes: Any = scaler.scale(loss.slopes)
        loss = loss._replace(outputs=(), slopes=())
        hidden = flat if read.dtype == flat.dtype else read.new_flat(0, read.dtype)
        if place is not None:
            *slopes, scaled = slopes
            if scaler.is_enabled():
                place.copy_(scaled)
        by_outputs = dict(zip(passes, (each.view(rows, -1) for each in slopes), strict=True))
        ones = {kind: self._ones_of(rows, kind) for kind in {flat.dtype, hidden.dtype}}

        def back(part: str) -> None:
            places = self._model.layers(part, self._places(part, flat, hidden))
            given = passes.pop(part), layers[part], by_outputs[part], places, self._activation, ones
            backward(*given, self._biases(places, hidden))
            if hidden is not flat:
                where = self._where_hidden(part)
                flat[where].copy_(hidden[where])

        self._both(back)
        return flat, loss

    def _ones_of(self, rows: int, dtype: torch.dtype) -> Tensor:
        """Return float[1, rows] of ones; they are made for few sizes and kept, as captured steps read them."""
        key = 1 << (rows - 1).bit_length(), dtype
        if key not in self._ones:
            self._ones[key] = torch.ones(1, key[0], dtype=dtype, device=self._model.flat.device)
        return self._ones[key][:, :rows]

    def _both(self, work: Callable[[str], T]) -> dict[str, T]:
        """Return what a function returns for each network."""
        if not self._others:
            return {self._first: work(self._first)}
        try:
            others = self._beside.run(lambda: {part: work(part) for part in self._others})
            found = {self._first: work(self._first), **others}
        except BaseException:
            with suppress(RuntimeError):  # memory that is given out again must not be written by what still runs
                self._beside.join()
            raise
        self._beside.join()
        return found

    def _places(self, part: str, flat: Tensor, hidden: Tensor) -> dict[str, Tensor]:
        """Return the places of a network's gradients by name."""
        layout, is_hidden = self._model.layout, self._model.is_hidden
        return {name: layout.view(hidden if is_hidden(name) else flat, name) for name in layout.names(part)}

    @staticmethod
    def _biases(places: Sequence[Layer], hidden: Tensor) -> Tensor | None:
        """Return the places of the gradients of a network's hidden biases in a flat tensor as one, if they are that."""
        biases = [bias for _, bias in places[:-1]]
        if len(biases) < 2 or len({len(bias) for bias in biases}) > 1:
            return None
        begin, following = (bias.storage_offset() for bias in biases[:2])  # between two are a weight and a bias
        return hidden.as_strided((len(biases), 1, len(biases[0])), (following - begin, len(biases[0]), 1), begin)

    def _where_hidden(self, part: str) -> slice:
        """Return where the hidden layers of a network lie, one after another."""
        names, offsets = self._model.layout.names(part), self._model.layout.offsets
        return slice(offsets[names[0]], next(offsets[name] for name in names if not self._model.is_hidden(name)))
