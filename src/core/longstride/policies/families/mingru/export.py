"""Minimal gated recurrent units for other programs: one step of :mod:`longstride.policies.families.mingru.network`."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from longstride.policies.families.export_layers import NUMPY_ACTIVATION, activated, c_activation, c_layer, linear
from longstride.policies.families.torch_family import FamilyExport
from longstride.policies.spec import PolicySpec


def torch_step(spec: PolicySpec, tensors: Mapping[str, Tensor], x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and the next state; see ``FamilyExport``."""
    x = activated(spec, linear(tensors, 0, x))
    states: list[Tensor] = []
    for i, before in enumerate(torch.split(state, list(spec.actor_hidden), dim=1)):
        q, u, p = linear(tensors, i + 1, x).chunk(3, dim=1)
        new, gate = torch.sigmoid(q), torch.sigmoid(p)
        after = (1.0 - new) * before + new * torch.where(u >= 0.0, u + 0.5, torch.sigmoid(u))
        x = gate * after + (1.0 - gate) * x
        states.append(after)
    return linear(tensors, len(states) + 1, x), torch.cat(states, dim=1)


def c_source(spec: PolicySpec) -> str:
    """Return the network in C; see ``FamilyExport``."""
    layers = spec.matrices["actor"]
    width, last = spec.actor_hidden[0], len(layers) - 1
    lines = [f"    float values[{width}];", f"    float products[3 * {width}];", ""]
    lines += [*c_layer(0, "x", *layers[0], "values"), f"    policy_activate(values, {width});"]
    for i in range(1, last):
        lines += c_layer(i, "values", *layers[i], "products")
        lines.append(f"    policy_remember(products, state + {(i - 1) * width}, values);")
    lines += c_layer(last, "values", *layers[last], "outputs")
    network = "static void policy_network(const float *x, float *state, float *outputs)\n{\n" + "\n".join(lines) + "\n}"
    return f"{c_activation(spec)}\n\n{_C_REMEMBER.replace('WIDTH', str(width))}\n\n{network}"


_C_REMEMBER = """\
static float policy_sigmoid(float x)
{
    return 0.5f + 0.5f * policy_tanh(0.5f * x);
}

/* One step of a layer with memory: products q, u and p of WIDTH each; its states and its inputs are replaced. */
static void policy_remember(const float *products, float *state, float *values)
{
    int i;

    for (i = 0; i < WIDTH; i++) {
        float added = policy_sigmoid(products[i]);
        float u = products[WIDTH + i];
        float gate = policy_sigmoid(products[2 * WIDTH + i]);
        float candidate = u >= 0.0f ? u + 0.5f : policy_sigmoid(u);

        state[i] = (1.0f - added) * state[i] + added * candidate;
        values[i] = gate * state[i] + (1.0f - gate) * values[i];
    }
}"""


def numpy_source(spec: PolicySpec) -> str:
    """Return the network in NumPy; see ``FamilyExport``."""
    last, width = len(spec.actor_hidden) + 1, spec.actor_hidden[0]
    return f"""def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def network(p, x, state):
    x, state = x @ p["actor.0.weight"] + p["actor.0.bias"], state.copy()
    x = {NUMPY_ACTIVATION[spec.activation]}
    for i in range(1, {last}):
        q, u, g = np.split(x @ p[f"actor.{{i}}.weight"] + p[f"actor.{{i}}.bias"], 3)
        h = state[(i - 1) * {width} : i * {width}]
        h[:] = (1.0 - sigmoid(q)) * h + sigmoid(q) * np.where(u >= 0.0, u + 0.5, sigmoid(u))
        x = sigmoid(g) * h + (1.0 - sigmoid(g)) * x
    return x @ p["actor.{last}.weight"] + p["actor.{last}.bias"], state
"""


def description(spec: PolicySpec) -> dict[str, Any]:
    """Return what the contract says about the network; see ``FamilyExport``."""
    last = len(spec.actor_hidden) + 1
    return {
        "family": "mingru",
        "activation": spec.activation,
        "layers": [list(shape) for shape in spec.matrices["actor"]],
        "formulas": [
            "first layer: x = activation(x @ actor.0.weight + actor.0.bias)",
            f"layers i = 1 to {last - 1} with memory: q, u, p = equal parts of x @ actor.i.weight + actor.i.bias",
            "z = sigmoid(q); c = u + 0.5 where u >= 0, sigmoid(u) elsewhere; h = (1 - z) h + z c",
            "x = sigmoid(p) h + (1 - sigmoid(p)) x",
            "state: the h of all layers one after another, zeros when an episode begins",
            f"outputs = x @ actor.{last}.weight + actor.{last}.bias",
        ],
    }


MINGRU_EXPORT = FamilyExport(torch_step, c_source, numpy_source, description)
