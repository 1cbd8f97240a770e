"""The actor's forward pass on the CPU, compiled by Numba; :mod:`core.policies.compiled.sampling` draws actions.

All parameters lie in one flat float32 array (see :mod:`core.policies.parameter_layout`). Matrices are input-major,
``W[inputs, outputs]``, so that the product of one observation is a sum of matrix rows. Rows whose input is zero
(one-hot observations, half of a ReLU layer) are never read.

Several instances can be passed through a layer together, 64 rows of its matrix at a time: the first instance brings
them into the core's first cache for the others. The sums of an instance are the same, to the bit, as if it were alone.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from core.errors import UserError
from core.policies.compiled.sparse_matvec import INPUTS, add_rows, unsigned, widths
from core.policies.parameter_layout import OBSERVATION_CLIP
from core.policies.spec import PolicySpec
from core.simulators.simulator import Function

_CACHE_LINE = 16
"""Float32 values of a cache line."""


class Network(NamedTuple):
    """The compiled actor for several instances that share a workspace; each has a place there, counted from 0.

    Attributes:
        load: ``load(params, observation, state, workspace, place)`` writes the inputs of an instance to its place:
            params float32[*] in the flat layout, observation float32[O], not normalised, state float32[state_size].
        advance: ``advance(params, workspace, count)`` computes the outputs of the first ``count`` places.
        outputs: ``outputs(state, workspace, place) -> float32[*]``, a view of the workspace that the next instance at
            this place overwrites; the new state is written to ``state``.
    """

    load: Function
    advance: Function
    outputs: Function


class ActorArrays(NamedTuple):
    """Flat parameters, state (zero when an episode begins) and scratch of one instance; float32[*] each."""

    params: np.ndarray
    state: np.ndarray
    workspace: np.ndarray


def new_actor_arrays(params: np.ndarray, spec: PolicySpec) -> ActorArrays:
    """Return the arrays for one episode."""
    return ActorArrays(params, new_policy_states(spec, 1)[0], workspace(spec))


@cache
def build_add_product(n_outputs: int) -> Callable[..., Any]:
    """Compile ``outputs += inputs @ W`` for W of so many columns and any number of rows of inputs.

    Returns:
        ``add_product(params, offset, values, x, n_inputs, y, rows, stride)``: params float32[*] holds W from
        ``offset`` on, row by row; values float32[*] holds inputs from ``x`` on and outputs, changed in place, from
        ``y`` on, a row of either every ``stride`` values, of a size that :func:`stride_of` gives.
    """
    reaches_beyond = int(sum(widths(n_outputs)) > n_outputs)

    @njit(nogil=True, fastmath={"contract"})
    def add_product(params, offset, values, x, n_inputs, y, rows, stride):  # type: ignore[no-untyped-def]
        n = n_inputs - reaches_beyond  # behind the last row there may be no memory to read
        for i in range(0, n, INPUTS):
            wanted = -1 if n - i >= INPUTS else (1 << (n - i)) - 1
            for r in range(rows):
                first, begin = offset + i * n_outputs, r * stride
                add_rows(params, first, values, x + begin + i, wanted, values, y + begin, n_outputs)
        if reaches_beyond:
            for r in range(rows):
                value = values[x + r * stride + n]
                if value != 0.0:
                    for j in range(n_outputs):
                        values[y + r * stride + j] += value * params[offset + n * n_outputs + j]

    return add_product


@njit(nogil=True)
def relu(values, begin, n):  # type: ignore[no-untyped-def]
    """Replace n values from ``begin`` on by max(value, 0); NaN stays NaN."""
    begin = unsigned(begin)
    for j in range(unsigned(n)):
        if values[begin + j] < 0.0:
            values[begin + j] = 0.0


@njit(nogil=True, fastmath={"contract"}, error_model="numpy")  # a check for division by 0 would prevent vectorising
def tanh(values, begin, n):  # type: ignore[no-untyped-def]
    """Replace n values from ``begin`` on by their hyperbolic tangent, to 4 units in the last place.

    The rational approximation (odd, degree 13 over 6, argument clamped to +-7.905) is the one of Eigen and XLA; it is
    branch-free, so the compiler vectorises it, which a library call per value would prevent.
    """
    begin = unsigned(begin)
    for j in range(unsigned(n)):
        x = min(max(values[begin + j], np.float32(-7.90531110763549805)), np.float32(7.90531110763549805))
        s = x * x
        p = s * np.float32(-2.76076847742355e-16) + np.float32(2.00018790482477e-13)
        p = s * p + np.float32(-8.60467152213735e-11)
        p = s * p + np.float32(5.12229709037114e-08)
        p = s * p + np.float32(1.48572235717979e-05)
        p = s * p + np.float32(6.37261928875436e-04)
        p = s * p + np.float32(4.89352455891786e-03)
        q = s * np.float32(1.19825839466702e-06) + np.float32(1.18534705686654e-04)
        q = s * q + np.float32(2.26843463243900e-03)
        q = s * q + np.float32(4.89352518554385e-03)
        values[begin + j] = x * p / q


@cache
def build_forward(spec: PolicySpec) -> Callable[..., Any]:
    """Compile the actor for one instance.

    Returns:
        ``forward(params, observation, state, workspace) -> outputs``, with the arrays of :class:`Network`; workspace
        from :func:`workspace`. Parameters from :func:`align_params` are read fastest.

    Raises:
        UserError: hidden layers differ in width.
    """
    load, advance, outputs = build_network(spec)

    @njit(nogil=True)
    def forward(params, observation, state, workspace):  # type: ignore[no-untyped-def]
        load(params, observation, state, workspace, 0)
        advance(params, workspace, 1)
        return outputs(state, workspace, 0)

    return forward


@cache
def build_network(spec: PolicySpec) -> Network:
    """Compile the actor for several instances; arguments and errors are those of :func:`build_forward`."""
    if len(set(spec.actor_hidden)) > 1:
        raise UserError(
            f"The compiled actor needs hidden layers of one width, not {spec.actor_sizes}; make them equal."
        )
    return _build_mingru(spec) if spec.has_memory else _build_mlp(spec)


def _build_mlp(spec: PolicySpec) -> Network:
    """Compile multilayer perceptrons; the layers of an instance take turns in two halves of the workspace."""
    sizes, activate = spec.actor_sizes, _activation(spec)
    n_observation, width, n_outputs, n_layers = sizes[0], sizes[1], sizes[-1], len(sizes) - 1
    add_hidden, add_last = build_add_product(width), build_add_product(n_outputs)
    clip, stride = np.float32(OBSERVATION_CLIP), stride_of(spec)

    @njit(nogil=True)
    def load(params, observation, state, workspace, place):  # type: ignore[no-untyped-def]
        begin = unsigned(place * stride)
        for i in range(unsigned(n_observation)):
            x = (observation[i] - params[i]) * params[unsigned(n_observation) + i]
            workspace[begin + i] = min(max(x, -clip), clip)

    @njit(nogil=True)
    def advance(params, workspace, count):  # type: ignore[no-untyped-def]
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
    def outputs(state, workspace, place):  # type: ignore[no-untyped-def]
        begin = len(workspace) // 2 * (n_layers % 2) + place * stride
        return workspace[begin : begin + n_outputs]

    return Network(load, advance, outputs)


def _build_mingru(spec: PolicySpec) -> Network:
    """Compile minimal gated recurrent units, as :mod:`core.policies.mingru` defines them.

    The workspace has a block for each instance: inputs of a layer, its outputs, the three products of a layer with
    memory or the outputs of the network, and the states of all layers.
    """
    n_observation, width, n_outputs = spec.observation_size, spec.actor_hidden[0], spec.action_space.outputs
    n_layers, state_size, activate = len(spec.actor_hidden), spec.state_size, _activation(spec)
    clip, stride = np.float32(OBSERVATION_CLIP), stride_of(spec)
    add_first, add_gates, add_last = (_build_layer(n, stride) for n in (width, 3 * width, n_outputs))
    hidden = _whole_groups(max(n_observation, width))
    products = hidden + _whole_groups(width)
    states = products + _whole_groups(max(3 * width, n_outputs))

    @njit(nogil=True)
    def load(params, observation, state, workspace, place):  # type: ignore[no-untyped-def]
        begin = unsigned(place * stride)
        for i in range(unsigned(n_observation)):
            x = (observation[i] - params[i]) * params[unsigned(n_observation) + i]
            workspace[begin + i] = min(max(x, -clip), clip)
        for i in range(unsigned(state_size)):
            workspace[begin + states + i] = state[i]

    @njit(nogil=True)
    def advance(params, workspace, count):  # type: ignore[no-untyped-def]
        offset = 2 * n_observation
        offset = add_first(params, offset, workspace, 0, n_observation, hidden, count)
        for r in range(count):
            activate(workspace, hidden + r * stride, width)
        for layer in range(n_layers):
            offset = add_gates(params, offset, workspace, hidden, width, products, count)
            for r in range(count):
                begin = r * stride
                update(workspace, begin + products, begin, begin + hidden, begin + states + layer * width, width)
        add_last(params, offset, workspace, hidden, width, products, count)

    @njit(nogil=True)
    def outputs(state, workspace, place):  # type: ignore[no-untyped-def]
        begin = place * stride
        for i in range(unsigned(state_size)):
            state[i] = workspace[begin + states + i]
        return workspace[begin + products : begin + products + n_outputs]

    return Network(load, advance, outputs)


def _build_layer(n_outputs: int, stride: int) -> Function:
    """Compile ``add_layer(params, offset, workspace, x, n_inputs, y, count) -> offset`` of the next layer.

    It writes bias and product of a layer of so many outputs for some instances; arguments are those of
    :func:`build_add_product`.
    """
    add = build_add_product(n_outputs)

    @njit(nogil=True)
    def add_layer(params, offset, workspace, x, n_inputs, y, count):  # type: ignore[no-untyped-def]
        for r in range(count):
            begin, first = unsigned(y + r * stride), unsigned(offset + n_inputs * n_outputs)
            for j in range(unsigned(n_outputs)):
                workspace[begin + j] = params[first + j]
        add(params, offset, workspace, x, n_inputs, y, count, stride)
        return offset + (n_inputs + 1) * n_outputs

    return add_layer


@njit(nogil=True, fastmath={"contract"})
def update(values, products, scratch, x, state, n):  # type: ignore[no-untyped-def]
    """Update n states of a layer with memory and replace its n inputs by its outputs.

    All are places in float32[*] ``values``: products q, u and p of n each, which are lost, n of scratch, inputs ``x``
    and states. A sigmoid of v is (1 + tanh(v / 2)) / 2.
    """
    products, scratch, x, state = unsigned(products), unsigned(scratch), unsigned(x), unsigned(state)
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
        h = (np.float32(1.0) - new) * values[state + j] + new * candidate
        values[state + j] = h
        values[x + j] = gate * h + (np.float32(1.0) - gate) * values[x + j]


def _activation(spec: PolicySpec) -> Function:
    activate: Function = {"relu": relu, "tanh": tanh}[spec.activation]
    return activate


def _whole_groups(values: int) -> int:
    return -(-values // INPUTS) * INPUTS


def stride_of(spec: PolicySpec) -> int:
    """Return how many values of the workspace a layer of one instance takes: whole groups of inputs.

    With memory it is all that the instance takes.
    """
    if not spec.has_memory:
        return _whole_groups(max(spec.actor_sizes))
    width, outputs = spec.actor_hidden[0], spec.action_space.outputs
    sizes = max(spec.observation_size, width), width, max(3 * width, outputs), spec.state_size
    return sum(map(_whole_groups, sizes))


def workspace(spec: PolicySpec, instances: int = 1) -> np.ndarray:
    """Return float32[*], the actor's scratch: inputs and outputs of a layer for each instance."""
    return _aligned((1 if spec.has_memory else 2) * instances * stride_of(spec))


def new_policy_states(spec: PolicySpec, instances: int) -> np.ndarray:
    """Return float32[instances, state_size], the states with which episodes begin: zeros."""
    return np.zeros((instances, spec.state_size), np.float32)


def align_params(params: np.ndarray, spec: PolicySpec) -> np.ndarray:
    """Return a copy of the actor's flat parameters in which the first matrix begins with a cache line.

    With layers of a multiple of 16 units, every row of the hidden layers then fills whole cache lines. Each load of
    the forward pass takes one line instead of two. The results are the same.
    """
    copy = _aligned(len(params), 2 * spec.observation_size)
    copy[:] = params
    return copy


def _aligned(size: int, element: int = 0) -> np.ndarray:
    """Return float32[size], zero, in which one element begins a cache line."""
    room = np.zeros(size + _CACHE_LINE, np.float32)
    begin = (-(room.ctypes.data // 4) - element) % _CACHE_LINE
    return room[begin : begin + size]
