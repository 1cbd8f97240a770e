"""Multilayer perceptrons for other programs; the network of :mod:`longstride.policies.networks` for one step."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from longstride.policies.spec import PolicySpec

_C_ACTIVATION = {"relu": "y[i] < 0.0f ? 0.0f : y[i]", "tanh": "policy_tanh(y[i])"}
NUMPY_ACTIVATION = {"relu": "np.maximum(x, 0.0)", "tanh": "np.tanh(x)"}


def torch_step(spec: PolicySpec, tensors: Mapping[str, Tensor], x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and the state, which has no values; see ``FamilyExport``."""
    last = len(spec.actor_hidden)
    for i in range(last):
        x = activated(spec, linear(tensors, i, x))
    return linear(tensors, last, x), state


def linear(tensors: Mapping[str, Tensor], layer: int, x: Tensor) -> Tensor:
    """Return the product of a layer of the actor."""
    return torch.addmm(tensors[f"actor.{layer}.bias"], x, tensors[f"actor.{layer}.weight"])


def activated(spec: PolicySpec, x: Tensor) -> Tensor:
    """Return the outputs of a hidden layer for its products."""
    return torch.relu(x) if spec.activation == "relu" else torch.tanh(x)


def c_source(spec: PolicySpec) -> str:
    """Return the network in C; see ``FamilyExport``."""
    layers, width = spec.matrices["actor"], max(spec.actor_hidden, default=1)
    lines, source = [], "x"
    for i, (inputs, outputs) in enumerate(layers[:-1]):
        target = "ab"[i % 2]
        lines += c_layer(i, source, inputs, outputs, target)
        lines.append(f"    policy_activate({target}, {outputs});")
        source = target
    inputs, outputs = layers[-1]
    lines += c_layer(len(layers) - 1, source, inputs, outputs, "outputs")
    scratch = [f"    float {name}[{width}];" for name in "ab"[: len(layers) - 1]]
    body = "\n".join([*scratch, "    (void)state; /* no memory */", *lines])
    network = f"static void policy_network(const float *x, float *state, float *outputs)\n{{\n{body}\n}}"
    return f"{c_activation(spec)}\n\n{network}" if spec.actor_hidden else network


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


def numpy_source(spec: PolicySpec) -> str:
    """Return the network in NumPy; see ``FamilyExport``."""
    last = len(spec.actor_hidden)
    return f"""def network(p, x, state):
    for i in range({last}):
        x = x @ p[f"actor.{{i}}.weight"] + p[f"actor.{{i}}.bias"]
        x = {NUMPY_ACTIVATION[spec.activation]}
    return x @ p["actor.{last}.weight"] + p["actor.{last}.bias"], state
"""


def description(spec: PolicySpec) -> dict[str, Any]:
    """Return what the contract says about the network; see ``FamilyExport``."""
    return {
        "family": "mlp",
        "activation": spec.activation,
        "layers": [list(shape) for shape in spec.matrices["actor"]],
        "formulas": [
            "hidden layer i: x = activation(x @ actor.i.weight + actor.i.bias)",
            f"outputs = x @ actor.{len(spec.actor_hidden)}.weight + actor.{len(spec.actor_hidden)}.bias",
        ],
    }
