"""Multilayer perceptrons in torch."""

import torch
from torch import Tensor

from longstride.policies.families.mlp.export import MLP_EXPORT
from longstride.policies.families.torch_family import HiddenInputs, TorchFamily


def hidden(inputs: HiddenInputs) -> tuple[Tensor, Tensor]:
    """Return the outputs of the last hidden layer, and no states."""
    x = inputs.x
    for weight, bias in inputs.layers:
        x = inputs.activation(torch.addmm(bias, x.to(weight.dtype), weight))
        if inputs.hidden is not None:
            inputs.hidden.append(x)
    return x, x[:0]  # a view, where zeros would be a launch


MLP_IN_TORCH = TorchFamily(hidden, export=MLP_EXPORT, plain_layers=True)
