"""The compiled step of minimal gated recurrent units."""

import numpy as np
from numba import njit

from longstride.policies.compiled.network import Network
from longstride.policies.compiled.products import activation_of, build_layer, build_load, tanh, whole_groups
from longstride.policies.compiled.sparse_matvec import unsigned
from longstride.policies.spec import PolicySpec


def build_mingru(spec: PolicySpec) -> Network:
    """Compile minimal gated recurrent units, as :mod:`longstride.policies.families.mingru.network` defines them.

    The workspace has a block for each instance: inputs of a layer, its outputs, and the three products of a layer with
    memory or the outputs of the network.
    """
    n_observation, width, n_outputs = spec.observation_size, spec.actor_hidden[0], spec.action_space.outputs
    n_layers, activate = len(spec.actor_hidden), activation_of(spec)
    hidden = whole_groups(max(n_observation, width))
    products = hidden + whole_groups(width)
    stride = products + whole_groups(max(3 * width, n_outputs))
    add_first, add_gates, add_last = (build_layer(n, stride) for n in (width, 3 * width, n_outputs))

    @njit(nogil=True)
    def advance(params, states, members, workspace, count):  # type: ignore[no-untyped-def]
        offset = 2 * n_observation
        offset = add_first(params, offset, workspace, 0, n_observation, hidden, count)
        for r in range(count):
            activate(workspace, hidden + r * stride, width)
        for layer in range(n_layers):
            offset = add_gates(params, offset, workspace, hidden, width, products, count)
            for r in range(count):
                begin = r * stride
                update(workspace, begin + products, begin, begin + hidden, states[members[r]], layer * width, width)
        add_last(params, offset, workspace, hidden, width, products, count)

    @njit(nogil=True)
    def outputs(workspace, place):  # type: ignore[no-untyped-def]
        begin = place * stride + products
        return workspace[begin : begin + n_outputs]

    return Network(build_load(spec, stride), advance, outputs, stride)


@njit(nogil=True, fastmath={"contract"})
def update(values, products, scratch, x, states, first, n):  # type: ignore[no-untyped-def]
    """Update n states of a layer with memory, from ``first`` on, and replace its n inputs by its outputs.

    The others are places in float32[*] ``values``: products q, u and p of n each, which are lost, n of scratch, and
    inputs ``x``. A sigmoid of v is (1 + tanh(v / 2)) / 2.
    """
    products, scratch, x, first = unsigned(products), unsigned(scratch), unsigned(x), unsigned(first)
    half, n = np.float32(0.5), unsigned(n)
    for j in range(n):
        values[scratch + j] = values[products + n + j]
    for j in range(3 * n):
        values[products + j] *= half
    tanh(values, products, 3 * n)
    for j in range(n):
        new = half + half * values[products + j]
        u = values[scratch + j]
        candidate = u + half if u >= np.float32(0.0) else half + half * values[products + n + j]
        gate = half + half * values[products + 2 * n + j]
        h = (np.float32(1.0) - new) * states[first + j] + new * candidate
        states[first + j] = h
        values[x + j] = gate * h + (np.float32(1.0) - gate) * values[x + j]
