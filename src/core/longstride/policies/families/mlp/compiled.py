"""The compiled step of a multilayer perceptron."""

from numba import njit

from longstride.policies.compiled.network import Network
from longstride.policies.compiled.products import activation_of, build_add_product, build_load, whole_groups
from longstride.policies.compiled.sparse_matvec import unsigned
from longstride.policies.spec import PolicySpec


def build_mlp(spec: PolicySpec) -> Network:
    """Compile multilayer perceptrons; the layers of an instance take turns in two halves of the workspace."""
    sizes, activate = spec.actor_sizes, activation_of(spec)
    n_observation, width, n_outputs, n_layers = sizes[0], sizes[1], sizes[-1], len(sizes) - 1
    add_hidden, add_last = build_add_product(width), build_add_product(n_outputs)
    stride = whole_groups(max(sizes))

    @njit(nogil=True)
    def advance(params, states, members, workspace, count):  # type: ignore[no-untyped-def]
        offset, n_in, half = 2 * n_observation, n_observation, len(workspace) // 2
        for layer in range(n_layers - 1):
            x, y = half * (layer % 2), half * ((layer + 1) % 2)
            bias = offset + n_in * width
            for r in range(count):
                begin, first = unsigned(y + r * stride), unsigned(bias)
                for j in range(unsigned(width)):  # a slice assignment would take Numba seconds more to compile
                    workspace[begin + j] = params[first + j]
            add_hidden(params, offset, workspace, x, n_in, y, count, stride)
            for r in range(count):
                activate(workspace, y + r * stride, width)
            offset, n_in = bias + width, width
        x, y = half * ((n_layers - 1) % 2), half * (n_layers % 2)
        bias = offset + n_in * n_outputs
        for r in range(count):
            begin = y + r * stride
            for j in range(n_outputs):
                workspace[begin + j] = params[bias + j]
        add_last(params, offset, workspace, x, n_in, y, count, stride)

    @njit(nogil=True)
    def outputs(workspace, place):  # type: ignore[no-untyped-def]
        begin = len(workspace) // 2 * (n_layers % 2) + place * stride
        return workspace[begin : begin + n_outputs]

    return Network(build_load(spec, stride), advance, outputs, 2 * stride)
