"""A causal transformer for other programs: one step of ``network.py``, with its state."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.policies.export.c_text import array_text
from longstride.policies.families.export_layers import NUMPY_ACTIVATION, activated, c_activation, c_layer, linear
from longstride.policies.families.torch_family import FamilyExport
from longstride.policies.families.transformer.norm import NORM_EPSILON
from longstride.policies.families.transformer.rotary import rotations
from longstride.policies.spec import PolicySpec


def torch_step(spec: PolicySpec, tensors: Mapping[str, Tensor], x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and the next state; see ``FamilyExport``."""
    window, width, heads = spec.context_length, spec.actor_hidden[0], spec.attention_heads
    size, age = 2 * window * width, state[:, -1:]
    tables = (torch.from_numpy(table.astype(np.float32)) for table in _tables(spec))
    turn = [table[torch.remainder(age[:, 0], 2 * window).long()].unsqueeze(1) for table in tables]
    column = torch.arange(window, dtype=torch.float32)
    present, seen = column == torch.remainder(age, window), column <= age
    x, states = linear(tensors, 0, x), []
    for block in range(len(spec.actor_hidden)):
        first, ring = 4 * block + 1, state[:, block * size : (block + 1) * size]
        product = linear(tensors, first, _norm(x)).reshape(-1, 3, heads, width // heads)
        query, key, value = (product[:, i] for i in range(3))
        keys = ring[:, : size // 2].reshape(-1, heads, width // heads, window)
        values = ring[:, size // 2 :].reshape(-1, heads, window, width // heads)
        keys = torch.where(present[:, None, None], _turned(key, turn).unsqueeze(3), keys)
        values = torch.where(present[:, None, :, None], value.unsqueeze(2), values)
        scores = (_turned(query, turn).unsqueeze(3) * keys).sum(2) / math.sqrt(width // heads)
        weights = torch.softmax(torch.where(seen[:, None], scores, -1e30), dim=2)
        x = x + linear(tensors, first + 1, (weights.unsqueeze(3) * values).sum(2).flatten(1))
        x = x + linear(tensors, first + 3, activated(spec, linear(tensors, first + 2, _norm(x))))
        states += [keys.flatten(1), values.flatten(1)]
    after = torch.where(age + 1.0 < 4.0 * window, age + 1.0, 2.0 * window)
    return linear(tensors, 4 * len(spec.actor_hidden) + 1, _norm(x)), torch.cat([*states, after], dim=1)


def _tables(spec: PolicySpec) -> tuple[np.ndarray, np.ndarray]:
    return rotations(spec.context_length, spec.actor_hidden[0] // spec.attention_heads)


def _norm(x: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).mean(dim=1, keepdim=True) + NORM_EPSILON)


def _turned(x: Tensor, turn: list[Tensor]) -> Tensor:
    """Return float32[B, heads, size] turned by cosines and sines, float32[B, 1, size / 2]."""
    a, b = x.chunk(2, dim=2)
    return torch.cat([a * turn[0] - b * turn[1], a * turn[1] + b * turn[0]], dim=2)


def c_source(spec: PolicySpec) -> str:
    """Return the network in C; see ``FamilyExport``."""
    layers, width, window = spec.matrices["actor"], spec.actor_hidden[0], spec.context_length
    units, last = spec.feed_forward_factor * width, len(layers) - 1
    lines = [f"    float residual[{width}];", f"    float values[{width}];"]
    lines += [f"    float products[{max(3 * width, units)}];", f"    int age = (int)state[{spec.state_size - 1}];", ""]
    lines += c_layer(0, "x", *layers[0], "residual")
    for block in range(len(spec.actor_hidden)):
        first, ring = 4 * block + 1, f"state + {block * 2 * window * width}"
        lines.append("    policy_normalise(residual, values);")
        lines += c_layer(first, "values", *layers[first], "products")
        lines.append(f"    policy_attend(products, {ring}, age, values);")
        lines += [*c_layer(first + 1, "values", *layers[first + 1], "products"), "    policy_add(products, residual);"]
        lines.append("    policy_normalise(residual, values);")
        lines += [*c_layer(first + 2, "values", *layers[first + 2], "products")]
        lines.append(f"    policy_activate(products, {units});")
        lines += [*c_layer(first + 3, "products", *layers[first + 3], "values"), "    policy_add(values, residual);"]
    lines += ["    policy_normalise(residual, values);", *c_layer(last, "values", *layers[last], "outputs")]
    lines += ["    age++;", f"    state[{spec.state_size - 1}] = (float)(age < {4 * window} ? age : {2 * window});"]
    body = "\n".join(lines)
    network = f"static void policy_network(const float *x, float *state, float *outputs)\n{{\n{body}\n}}"
    tables = [
        array_text(f"policy_{name}", table.astype(np.float32).ravel(), "of the turns of queries and keys")
        for name, table in zip(("cosines", "sines"), _tables(spec), strict=True)
    ]
    helpers = _C_HELPERS.replace("WIDTH", str(width)).replace("WINDOW", str(window))
    helpers = helpers.replace("HEADS", str(spec.attention_heads)).replace("SIZE", str(width // spec.attention_heads))
    helpers = helpers.replace("SCALE", f"{1.0 / math.sqrt(width // spec.attention_heads):.9g}f")
    return "\n\n".join([*tables, c_activation(spec), helpers.replace("EPSILON", f"{NORM_EPSILON:g}f"), network])


_C_HELPERS = """\
/* Newton's method from an estimate by the exponent; doubles, so that the last step is exact for float. */
static float policy_root(float x)
{
    union {
        float value;
        unsigned bits;
    } estimate;
    double root;
    int i;

    estimate.value = x;
    estimate.bits = (estimate.bits >> 1) + 0x1fc00000u;
    root = estimate.value;
    for (i = 0; i < 4; i++)
        root = 0.5 * (root + x / root);
    return (float)root;
}

/* The exponential for x <= 0 to two units in the last place, by the polynomial of Cephes; below -87 that of -87. */
static float policy_exp(float x)
{
    union {
        float value;
        unsigned bits;
    } power;
    float r, p;
    int n;

    x = x < -87.0f ? -87.0f : x;
    n = (int)(x * 1.44269504088896341f - 0.5f);
    r = x - (float)n * 0.693359375f + (float)n * 2.12194440e-4f;
    p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = r * p + 8.3334519073e-3f;
    p = r * p + 4.1665795894e-2f;
    p = r * p + 1.6666665459e-1f;
    p = r * p + 5.0000001201e-1f;
    power.bits = (unsigned)(n + 127) << 23;
    return (r * r * p + r + 1.0f) * power.value;
}

static void policy_normalise(const float *x, float *y)
{
    float total = 0.0f, root;
    int i;

    for (i = 0; i < WIDTH; i++)
        total += x[i] * x[i];
    root = policy_root(total / WIDTH.0f + EPSILON);
    for (i = 0; i < WIDTH; i++)
        y[i] = x[i] / root;
}

static void policy_add(const float *x, float *y)
{
    int i;

    for (i = 0; i < WIDTH; i++)
        y[i] += x[i];
}

/* Turns a query or key of a head by its position; value i goes with value i + half. */
static void policy_turn(float *x, int position)
{
    const float *cosines = policy_cosines + position * (SIZE / 2);
    const float *sines = policy_sines + position * (SIZE / 2);
    int i;

    for (i = 0; i < SIZE / 2; i++) {
        float a = x[i], b = x[i + SIZE / 2];

        x[i] = a * cosines[i] - b * sines[i];
        x[i + SIZE / 2] = a * sines[i] + b * cosines[i];
    }
}

/* Keys and values of this step replace the oldest in the ring; writes what the heads find there. */
static void policy_attend(float *products, float *ring, int age, float *found)
{
    float scores[WINDOW];
    int slot = age % WINDOW, kept = age + 1 < WINDOW ? age + 1 : WINDOW;
    int head, i, t;

    for (head = 0; head < HEADS; head++) {
        float *query = products + head * SIZE, *key = query + WIDTH, *value = key + WIDTH;
        float *keys = ring + head * SIZE * WINDOW, *values = keys + WIDTH * WINDOW;
        float largest, total = 0.0f;

        policy_turn(query, age % (2 * WINDOW));
        policy_turn(key, age % (2 * WINDOW));
        for (t = 0; t < kept; t++)
            scores[t] = 0.0f;
        for (i = 0; i < SIZE; i++) {
            keys[i * WINDOW + slot] = key[i];
            values[slot * SIZE + i] = value[i];
            for (t = 0; t < kept; t++)
                scores[t] += query[i] * SCALE * keys[i * WINDOW + t];
            found[head * SIZE + i] = 0.0f;
        }
        largest = scores[0];
        for (t = 1; t < kept; t++)
            largest = scores[t] > largest ? scores[t] : largest;
        for (t = 0; t < kept; t++) {
            scores[t] = policy_exp(scores[t] - largest);
            total += scores[t];
        }
        for (t = 0; t < kept; t++)
            for (i = 0; i < SIZE; i++)
                found[head * SIZE + i] += scores[t] / total * values[t * SIZE + i];
    }
}"""


def numpy_source(spec: PolicySpec) -> str:
    """Return the network in NumPy; see ``FamilyExport``."""
    window, width, heads = spec.context_length, spec.actor_hidden[0], spec.attention_heads
    blocks, size = len(spec.actor_hidden), width // heads
    return f"""def product(p, layer, x):
    return x @ p[f"actor.{{layer}}.weight"] + p[f"actor.{{layer}}.bias"]


def activated(x):
    return {NUMPY_ACTIVATION[spec.activation]}


def norm(x):
    return x / np.sqrt(np.mean(x * x) + {NORM_EPSILON:g})


def turned(x, position):
    multiples = np.maximum(np.rint({window / 2} ** np.linspace(1.0, 0.0, {size // 2})), 1.0)
    angles = np.pi / {window} * (position * multiples % {2 * window})
    a, b = np.split(x, 2, axis=1)
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], axis=1)


def network(p, x, state):
    state, age = state.copy(), int(state[-1])
    x, slot, seen = product(p, 0, x), age % {window}, min(age + 1, {window})
    for block in range({blocks}):
        layer, ring = 4 * block + 1, state[block * {2 * window * width} : (block + 1) * {2 * window * width}]
        keys = ring[: {window * width}].reshape({heads}, {size}, {window})
        values = ring[{window * width} :].reshape({heads}, {window}, {size})
        query, key, value = product(p, layer, norm(x)).reshape(3, {heads}, {size})
        keys[:, :, slot], values[:, slot] = turned(key, age), value
        scores = np.einsum("hs,hst->ht", turned(query, age), keys[:, :, :seen]) / {size} ** 0.5
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        x = x + product(p, layer + 1, np.einsum("ht,hts->hs", weights, values[:, :seen]).ravel())
        units = product(p, layer + 2, norm(x))
        x = x + product(p, layer + 3, activated(units))
    state[-1] = age + 1 if age + 1 < {4 * window} else {2 * window}
    return product(p, {4 * blocks + 1}, norm(x)), state
"""


def description(spec: PolicySpec) -> dict[str, Any]:
    """Return what the contract says about the network; see ``FamilyExport``."""
    last, window = 4 * len(spec.actor_hidden) + 1, spec.context_length
    return {
        "family": "transformer",
        "activation": spec.activation,
        "layers": [list(shape) for shape in spec.matrices["actor"]],
        "context_length": window,
        "attention_heads": spec.attention_heads,
        "formulas": [
            "product i of x: x @ actor.i.weight + actor.i.bias; norm(x) = x / sqrt(mean(x^2) + epsilon)",
            f"epsilon = {NORM_EPSILON:g}; x = product 0 of the normalised observation",
            "block b = 0, 1, ...: query, key, value = equal parts of product 4 b + 1 of norm(x), each heads times size",
            "in step t, value j of a head's query and key is turned with value j + size / 2, by the angle",
            "t m_j pi / window with m_j = max(1, round((window / 2)^e)), e from 1 to 0 in equal steps over the pairs",
            f"a query sees the last {window} steps: weights = softmax(query . key / sqrt(size)), found = sum of values",
            "x = x + product 4 b + 2 of found; x = x + product 4 b + 4 of activation(product 4 b + 3 of norm(x))",
            f"outputs = product {last} of norm(x)",
            "state: of each block the turned keys [heads, size, window], the values [heads, window, size]; then t",
            f"step t is in column t mod {window}, and {4 * window} goes back to {2 * window}; all 0 at the beginning",
        ],
    }


TRANSFORMER_EXPORT = FamilyExport(torch_step, c_source, numpy_source, description)
