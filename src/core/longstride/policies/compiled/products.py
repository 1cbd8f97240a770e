"""Products and activations on the values of a workspace, float32[*]: what the compiled networks are made of.

All parameters lie in one flat float32 array (see :mod:`longstride.policies.parameter_layout`). Matrices are
input-major, ``W[inputs, outputs]``, so that the product of one observation is a sum of matrix rows. Rows whose input is
zero (one-hot observations, half of a ReLU layer) are never read.

Several instances can be passed through a layer together, 64 rows of its matrix at a time: the first instance brings
them into the core's first cache for the others. The sums of an instance are the same, to the bit, as if it were alone.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from longstride.policies.compiled.sparse_matvec import INPUTS, add_rows, unsigned, widths
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Function


@cache
def build_add_product(n_outputs: int) -> Callable[..., Any]:
    """Compile ``outputs += inputs @ W`` for W of so many columns and any number of rows of inputs.

    Returns:
        ``add_product(params, offset, values, x, n_inputs, y, rows, stride)``: params float32[*] holds W from
        ``offset`` on, row by row; values float32[*] holds inputs from ``x`` on and outputs, changed in place, from
        ``y`` on, a row of either every ``stride`` values, a whole number of :func:`whole_groups`.
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


def build_layer(n_outputs: int, stride: int) -> Function:
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


def build_load(spec: PolicySpec, stride: int) -> Function:
    """Compile ``load(params, observation, workspace, place)``, which writes normalised inputs to the first values.

    It is that of :class:`longstride.policies.compiled.network.Network`.
    """
    n_observation, clip = spec.observation_size, np.float32(spec.observation_limit)

    @njit(nogil=True)
    def load(params, observation, workspace, place):  # type: ignore[no-untyped-def]
        begin = unsigned(place * stride)
        for i in range(unsigned(n_observation)):
            x = (observation[i] - params[i]) * params[unsigned(n_observation) + i]
            workspace[begin + i] = min(max(x, -clip), clip)

    return load


def activation_of(spec: PolicySpec) -> Function:
    """Return the activation of a network's hidden layers: :func:`relu` or :func:`tanh`."""
    activate: Function = {"relu": relu, "tanh": tanh}[spec.activation]
    return activate


def whole_groups(values: int) -> int:
    """Return a number of values rounded up to whole groups of inputs, which are read together."""
    return -(-values // INPUTS) * INPUTS
