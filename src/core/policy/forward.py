"""The actor on the CPU: its forward pass, compiled by Numba; :mod:`core.policy.sampling` draws from what it returns.

All weights lie in one flat float32 array (see :mod:`core.policy.layout`). Weight matrices are stored input-major,
``W[inputs, outputs]``, so that one observation is a sum of matrix rows: rows whose input is zero (one-hot
observations, half of a ReLU layer) are never read, and the others are taken four at a time so that the output
row is read and written a quarter as often.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

from core.policy.layout import OBSERVATION_CLIP

_ROWS = 4


@njit(nogil=True, fastmath={"contract", "reassoc", "nsz"})
def add_rows(weights, offset, inputs, n_inputs, n_outputs, outputs, nonzero):  # type: ignore[no-untyped-def]
    """Add ``inputs @ W`` to outputs, skipping rows whose input is zero.

    Args:
        weights: float32[*], the flat array that holds W from ``offset`` on, row by row.
        offset: index of W[0, 0].
        inputs: float32[>= n_inputs].
        n_inputs: rows of W.
        n_outputs: columns of W.
        outputs: float32[>= n_outputs], changed in place.
        nonzero: int64[>= n_inputs + 1], scratch.
    """
    count = 0
    for i in range(n_inputs):
        nonzero[count] = i
        count += inputs[i] != 0.0
    blocks = count // _ROWS
    for b in range(blocks):
        k = b * _ROWS
        i0, i1, i2, i3 = nonzero[k], nonzero[k + 1], nonzero[k + 2], nonzero[k + 3]
        x0, x1, x2, x3 = inputs[i0], inputs[i1], inputs[i2], inputs[i3]
        r0 = weights[offset + i0 * n_outputs : offset + (i0 + 1) * n_outputs]
        r1 = weights[offset + i1 * n_outputs : offset + (i1 + 1) * n_outputs]
        r2 = weights[offset + i2 * n_outputs : offset + (i2 + 1) * n_outputs]
        r3 = weights[offset + i3 * n_outputs : offset + (i3 + 1) * n_outputs]
        for j in range(n_outputs):
            outputs[j] += x0 * r0[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j]
    for k in range(blocks * _ROWS, count):
        x = inputs[nonzero[k]]
        row = weights[offset + nonzero[k] * n_outputs : offset + (nonzero[k] + 1) * n_outputs]
        for j in range(n_outputs):
            outputs[j] += x * row[j]


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
        sizes: observation size, hidden sizes ..., outputs of the action space.
        activation: ``"relu"`` or ``"tanh"``.

    Returns:
        ``forward(weights, observation, workspace) -> outputs``: weights float32[*] in the flat layout; observation
        float32[sizes[0]], not normalised; workspace from :func:`workspace`; outputs float32[sizes[-1]], a view of
        the workspace that the next call overwrites.
    """
    activate = {"relu": relu, "tanh": tanh}[activation]
    n_observation, n_outputs, n_layers = sizes[0], sizes[-1], len(sizes) - 1
    layer_sizes = np.array(sizes, np.int64)
    clip = np.float32(OBSERVATION_CLIP)

    @njit(nogil=True)
    def forward(weights, observation, workspace):  # type: ignore[no-untyped-def]
        values, nonzero = workspace
        for i in range(n_observation):
            x = (observation[i] - weights[i]) * weights[n_observation + i]
            values[0, i] = min(max(x, -clip), clip)
        offset = 2 * n_observation
        for layer in range(n_layers):
            n_in, n_out = layer_sizes[layer], layer_sizes[layer + 1]
            x, y = values[layer % 2], values[(layer + 1) % 2]
            bias = offset + n_in * n_out
            for j in range(n_out):  # a slice assignment would take Numba seconds more to compile
                y[j] = weights[bias + j]
            add_rows(weights, offset, x, n_in, n_out, y, nonzero)
            if layer < n_layers - 1:
                activate(y, n_out)
            offset = bias + n_out
        return values[n_layers % 2, :n_outputs]

    return forward


def workspace(sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scratch arrays of one caller of ``forward``: two rows of values and a list of indices."""
    widest = max(sizes)
    return np.zeros((2, widest), np.float32), np.zeros(widest + 1, np.int64)
