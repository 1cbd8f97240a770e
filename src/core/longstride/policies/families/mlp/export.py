"""Multilayer perceptrons for other programs; one step of :mod:`longstride.policies.families.mlp.network`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from longstride.policies.families.export_layers import NUMPY_ACTIVATION, activated, c_activation, c_layer, linear
from longstride.policies.families.torch_family import FamilyExport
from longstride.policies.spec import PolicySpec


def torch_step(spec: PolicySpec, tensors: Mapping[str, Tensor], x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and the state, which has no values; see ``FamilyExport``."""
    last = len(spec.actor_hidden)
    for i in range(last):
        x = activated(spec, linear(tensors, i, x))
    return linear(tensors, last, x), state


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


MLP_EXPORT = FamilyExport(torch_step, c_source, numpy_source, description)
