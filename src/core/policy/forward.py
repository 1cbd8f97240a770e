"""The actor on the CPU: its forward pass, compiled by Numba; :mod:`core.policy.sampling` draws from what it returns.

All weights lie in one flat float32 array (see :mod:`core.policy.layout`). Weight matrices are stored input-major,
``W[inputs, outputs]``, so that one observation is a sum of matrix rows: rows whose input is zero (one-hot
observations, half of a ReLU layer) are never read, and the others are taken four at a time so that the output
row is read and written a quarter as often.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from core.errors import UserError
from core.policy.layout import OBSERVATION_CLIP

_ROWS = 4

_CACHE_LINE = 16
"""Float32 values in one."""


@cache
def build_add_rows(n_outputs: int) -> Callable[..., Any]:
    """Compile ``outputs += inputs @ W`` for one width of W: the loops over a row are then unrolled and have no rest.

    Args:
        n_outputs: columns of W.

    Returns:
        ``add_rows(weights, offset, inputs, n_inputs, outputs, nonzero)``, which skips rows whose input is zero: weights
        float32[*], the flat array that holds W from ``offset`` on, row by row; inputs float32[>= n_inputs]; outputs
        float32[>= n_outputs], changed in place; nonzero int64[>= n_inputs + 1], scratch.
    """

    @njit(nogil=True, fastmath={"contract", "reassoc", "nsz"})
    def add_rows(weights, offset, inputs, n_inputs, outputs, nonzero):  # type: ignore[no-untyped-def]
        count = 0
        for i in range(n_inputs):
            nonzero[count] = i
            count += inputs[i] != 0.0
        blocks = count // _ROWS
        for b in range(blocks):
            k = b * _ROWS
            i0, i1, i2, i3 = nonzero[k], nonzero[k + 1], nonzero[k + 2], nonzero[k + 3]
            x0, x1, x2, x3 = inputs[i0], inputs[i1], inputs[i2], inputs[i3]
            r0, r1 = np.uint64(offset + i0 * n_outputs), np.uint64(offset + i1 * n_outputs)
            r2, r3 = np.uint64(offset + i2 * n_outputs), np.uint64(offset + i3 * n_outputs)
            for column in range(np.uint64(n_outputs)):  # unsigned: nothing to wrap around
                j = np.uint64(column)  # the same for Numba; uncompiled, NumPy 1 makes a float of uint64 + int
                outputs[j] += x0 * weights[r0 + j] + x1 * weights[r1 + j] + x2 * weights[r2 + j] + x3 * weights[r3 + j]
        for k in range(blocks * _ROWS, count):
            x = inputs[nonzero[k]]
            row = weights[offset + nonzero[k] * n_outputs : offset + (nonzero[k] + 1) * n_outputs]
            for column in range(n_outputs):
                outputs[column] += x * row[column]

    return add_rows


@njit(nogil=True)
def relu(values, n):  # type: ignore[no-untyped-def]
    """Replace the first n values by max(value, 0); NaN stays NaN."""
    for j in range(n):
        if values[j] < 0.0:
            values[j] = 0.0


@njit(nogil=True, fastmath={"contract"}, error_model="numpy")  # a check for division by 0 would prevent vectorising
def tanh(values, n):  # type: ignore[no-untyped-def]
    """Replace the first n values by their hyperbolic tangent, to 4 units in the last place.

    The rational approximation (odd, degree 13 over 6, argument clamped to +-7.905) is the one of Eigen and XLA; it is
    branch-free, so the compiler vectorises it, which a library call per value would prevent.
    """
    for j in range(n):
        x = min(max(values[j], np.float32(-7.90531110763549805)), np.float32(7.90531110763549805))
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
        values[j] = x * p / q


def build_forward(sizes: Sequence[int], activation: str) -> Callable[..., Any]:
    """Compile the actor for one list of layer sizes.

    Args:
        sizes: observation size, hidden sizes ... (all equal), outputs of the action space.
        activation: ``"relu"`` or ``"tanh"``.

    Returns:
        ``forward(weights, observation, workspace) -> outputs``: weights float32[*] in the flat layout; observation
        float32[sizes[0]], not normalised; workspace from :func:`workspace`; outputs float32[sizes[-1]], a view of
        the workspace that the next call overwrites. Weights from :func:`aligned_weights` are read fastest.

    Raises:
        UserError: hidden layers differ in width.
    """
    if len(set(sizes[1:-1])) > 1:
        raise UserError(f"The compiled actor needs hidden layers of one width, not {tuple(sizes)}; make them equal.")
    activate = {"relu": relu, "tanh": tanh}[activation]
    n_observation, width, n_outputs, n_layers = sizes[0], sizes[1], sizes[-1], len(sizes) - 1
    add_hidden, add_last = build_add_rows(width), build_add_rows(n_outputs)
    clip = np.float32(OBSERVATION_CLIP)

    @njit(nogil=True)
    def forward(weights, observation, workspace):  # type: ignore[no-untyped-def]
        values, nonzero = workspace
        for i in range(n_observation):
            x = (observation[i] - weights[i]) * weights[n_observation + i]
            values[0, i] = min(max(x, -clip), clip)
        offset, n_in = 2 * n_observation, n_observation
        for layer in range(n_layers - 1):
            x, y = values[layer % 2], values[(layer + 1) % 2]
            bias = offset + n_in * width
            for j in range(width):  # a slice assignment would take Numba seconds more to compile
                y[j] = weights[bias + j]
            add_hidden(weights, offset, x, n_in, y, nonzero)
            activate(y, width)
            offset, n_in = bias + width, width
        x, y = values[(n_layers - 1) % 2], values[n_layers % 2]
        bias = offset + n_in * n_outputs
        for j in range(n_outputs):
            y[j] = weights[bias + j]
        add_last(weights, offset, x, n_in, y, nonzero)
        return y[:n_outputs]

    return forward


def workspace(sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scratch arrays of one caller of ``forward``: two rows of values and a list of indices."""
    widest = -(-max(sizes) // _CACHE_LINE) * _CACHE_LINE
    return _aligned(2 * widest).reshape(2, widest), np.zeros(widest + 1, np.int64)


def aligned_weights(weights: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return a copy of an actor's flat weights that begins where its first matrix begins with a cache line.

    With layers of a multiple of 16 units every row of the hidden layers then fills whole cache lines, and each load of
    the forward pass takes one instead of two. The results are the same.

    Args:
        weights: float32[*], in the flat layout.
        sizes: layer sizes of the actor.
    """
    copy = _aligned(len(weights), 2 * sizes[0])
    copy[:] = weights
    return copy


def _aligned(size: int, element: int = 0) -> np.ndarray:
    """Return float32[size], zero, one of whose elements begins a cache line."""
    room = np.zeros(size + _CACHE_LINE, np.float32)
    begin = (-(room.ctypes.data // 4) - element) % _CACHE_LINE
    return room[begin : begin + size]
