"""Products and activations for other programs, as the exports of all families write them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from longstride.policies.spec import PolicySpec

_C_ACTIVATION = {"relu": "y[i] < 0.0f ? 0.0f : y[i]", "tanh": "policy_tanh(y[i])"}
NUMPY_ACTIVATION = {"relu": "np.maximum(x, 0.0)", "tanh": "np.tanh(x)"}


def linear(tensors: Mapping[str, Tensor], layer: int, x: Tensor) -> Tensor:
    """Return the product of a layer of the actor."""
    return torch.addmm(tensors[f"actor.{layer}.bias"], x, tensors[f"actor.{layer}.weight"])


def activated(spec: PolicySpec, x: Tensor) -> Tensor:
    """Return the outputs of a hidden layer for its products."""
    return torch.relu(x) if spec.activation == "relu" else torch.tanh(x)


def c_activation(spec: PolicySpec) -> str:
    """Return ``policy_activate(y, n)`` in C, which applies the activation to n numbers."""
    return (
        "static void policy_activate(float *y, int n)\n{\n    int i;\n\n"
        f"    for (i = 0; i < n; i++)\n        y[i] = {_C_ACTIVATION[spec.activation]};\n}}"
    )


def c_layer(layer: int, x: str, inputs: int, outputs: int, y: str) -> list[str]:
    """Return the statement in C that writes the products of a layer of the actor."""
    name = f"policy_actor_{layer}"
    return [f"    policy_linear({name}_weight, {name}_bias, {x}, {inputs}, {outputs}, {y});"]
