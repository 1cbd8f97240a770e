"""What torch code needs of a family: its hidden layers, their first parameters, and its export."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.policies.memory import Memory, Steps
from longstride.policies.spec import PolicySpec

Layer = tuple[Tensor, Tensor]
"""Weight, float[inputs, outputs], and bias of a product."""


class HiddenInputs(NamedTuple):
    """What the hidden layers of a network compute from.

    Attributes:
        spec: architecture.
        x: float[B, O], normalised observations; with memory those of C chunks of K steps, one chunk after another.
        layers: the products in the order of ``spec.matrices``, without that of the outputs.
        activation: the activation of the spec.
        memory: states before the chunks, and where episodes begin; None for a family without memory.
        after: steps after which states are asked for; None for no states.
        hidden: list to which the outputs of each hidden layer are appended, those that the head reads last.
    """

    spec: PolicySpec
    x: Tensor
    layers: Sequence[Layer]
    activation: Callable[[Tensor], Tensor]
    memory: Memory | None = None
    after: Steps | None = None
    hidden: list[Tensor] | None = None


class FirstLayer(NamedTuple):
    """A hidden layer behind the first one, whose initial parameters are drawn; its bias is 0.

    Attributes:
        layer: weight and bias.
        number: its place among all products of the network.
        products: number of all products, that of the outputs included.
        draw: fills a matrix.
        generator: for further draws.
    """

    layer: Layer
    number: int
    products: int
    draw: Callable[[Tensor], None]
    generator: torch.Generator


class FamilyExport(NamedTuple):
    """The network of a family, from a normalised observation and a state to outputs and the next state.

    Attributes:
        torch_step: ``torch_step(spec, tensors, x, state) -> (outputs, next_state)`` for ONNX: tensors by their names in
            the parameter layout, x float32[B, O], state float32[B, state_size], outputs float32[B, outputs].
        c_source: text of ``static void policy_network(const float *x, float *state, float *outputs)`` in C99, which
            replaces the state; it may call ``policy_linear`` and ``policy_tanh`` (``c_text.py``).
        numpy_source: text of ``def network(p, x, state): return outputs, next_state`` for one observation, with p the
            tensors by name.
        description: JSON values for the contract: sizes, and the formulas in words.
    """

    torch_step: Callable[[PolicySpec, Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]
    c_source: Callable[[PolicySpec], str]
    numpy_source: Callable[[PolicySpec], str]
    description: Callable[[PolicySpec], dict[str, Any]]


class InPlace(NamedTuple):
    """A step of many streams that writes their next states over the given ones, in float32 or BF16.

    Attributes:
        step: returns the outputs of the last hidden layer, float[B, units], for chunks of one step.
        pack: ``pack(spec, states, dtype)`` returns float32[N, S] states as the step keeps them, in a number format.
        unpack: the way back, to the bit for states that were packed and unpacked before.
        width: ``width(spec, dtype)`` returns the numbers of a packed state.
        bf16_problem: returns why no kernel reads packed states in BF16, a phrase; empty if some do.
    """

    step: Callable[[HiddenInputs], Tensor]
    pack: Callable[[PolicySpec, Tensor, torch.dtype], Tensor]
    unpack: Callable[[PolicySpec, Tensor], Tensor]
    width: Callable[[PolicySpec, torch.dtype], int]
    bf16_problem: Callable[[PolicySpec], str]


def _draw(layer: FirstLayer) -> None:
    """Draw the matrix as a whole."""
    layer.draw(layer.layer[0])


@dataclass(frozen=True)
class TorchFamily:
    """A family of networks in torch."""

    # outputs of the last hidden layer, float[B, units], and float[N, S], the states after the steps asked for
    hidden: Callable[[HiddenInputs], tuple[Tensor, Tensor]]
    initialise: Callable[[FirstLayer], None] = _draw  # draws a hidden layer behind the first one, without gradients
    export: FamilyExport | None = None  # None: it cannot be exported
    in_place: InPlace | None = None  # a faster way for single steps; None: new states are made and copied
    plain_layers: bool = False  # whether hidden layers are products with an activation, one after the other
    loops: bool = False  # whether it takes the steps of a chunk one after the other, each with operations of its own
