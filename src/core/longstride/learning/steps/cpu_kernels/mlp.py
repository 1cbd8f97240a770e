"""A network on rows of samples: normalisation, forward pass, backward pass. Kernels on flat float32 arrays.

A layer of ``n_in`` inputs and ``n_out`` outputs lies in the flat array as in
:mod:`longstride.policies.parameter_layout`: the matrix ``W[n_in, n_out]``, then the bias.
Activations of ``rows`` samples lie in one array too, layer after layer, each
``[rows, n_out]`` without a gap, so that every matrix product is of contiguous blocks and nothing is allocated.
"""

import ctypes
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import cython_blas

from longstride.jit_cache.cache import cached
from longstride.policies.compiled.products import relu, tanh

_BLAS_SETTERS = "scipy_openblas_set_num_threads", "openblas_set_num_threads", "MKL_Set_Num_Threads"
"""Of the BLAS in SciPy's wheels, of a system's OpenBLAS, of MKL."""


class Network(NamedTuple):
    """Layers in the flat parameters from an offset on: int64[layers + 1] widths, and tanh or relu between them."""

    offset: int
    sizes: np.ndarray
    tanh: bool


class Workspace(NamedTuple):
    """Arrays of one piece of a minibatch, made once: float32 but for the loss terms, float64[6].

    They hold the normalised observations [>= rows * inputs], activations of either network [>= rows * sum of the other
    widths], derivatives by hidden ones [2, >= rows * widest hidden layer], and the gradient, of the shape of the flat
    parameters and 0 for what is not learned.
    """

    x: np.ndarray
    activations: np.ndarray
    deltas: np.ndarray
    gradient: np.ndarray
    terms: np.ndarray


@cached
@njit(nogil=True)
def gather(observations, indices, flat, limit, x):  # type: ignore[no-untyped-def]
    """Write float32[rows * O], some of float32[N, O] observations, normalised and clipped; NaN stays NaN.

    Mean and scale of the observations come first in the flat parameters.
    """
    n = observations.shape[1]
    for row in range(len(indices)):
        source = observations[indices[row]]
        target = x[row * n : (row + 1) * n]
        for i in range(n):
            value = (source[i] - flat[i]) * flat[n + i]
            value = -limit if value < -limit else value
            target[i] = limit if value > limit else value


@cached
@njit(nogil=True)
def forward(flat, network, rows, workspace):  # type: ignore[no-untyped-def]
    """Compute all layers for the rows that :func:`gather` wrote; the outputs, not activated, end the activations."""
    sizes, offset, start, last = network.sizes, network.offset, 0, len(network.sizes) - 2
    source = workspace.x[: rows * sizes[0]].reshape((rows, sizes[0]))
    for layer in range(last + 1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        values = workspace.activations[start : start + rows * n_out]
        target = values.reshape((rows, n_out))
        np.dot(source, flat[offset : offset + n_in * n_out].reshape((n_in, n_out)), target)
        offset += n_in * n_out
        bias = flat[offset : offset + n_out]
        for row in range(rows):
            sums = target[row]
            for j in range(n_out):
                sums[j] += bias[j]
        if layer < last and network.tanh:
            tanh(values, 0, rows * n_out)
        elif layer < last:
            relu(values, 0, rows * n_out)
        offset, start, source = offset + n_out, start + rows * n_out, target


@cached
@njit(nogil=True)
def backward(flat, network, rows, workspace):  # type: ignore[no-untyped-def]
    """Compute the gradient of a sum over the rows from its derivatives by the network's outputs.

    The derivatives have taken the place of the outputs in the workspace; the layers' part of its gradient is
    overwritten.
    """
    sizes, activations, gradient = network.sizes, workspace.activations, workspace.gradient
    last = len(sizes) - 2
    start, end = rows * sizes[1:-1].sum(), network.offset
    for layer in range(last + 1):
        end += (sizes[layer] + 1) * sizes[layer + 1]
    delta = activations[start : start + rows * sizes[-1]].reshape((rows, sizes[-1]))
    for back in range(last + 1):
        layer = last - back
        n_in, n_out = sizes[layer], sizes[layer + 1]
        bias, matrix = end - n_out, end - n_out - n_in * n_out
        by_bias = gradient[bias:end]
        for j in range(n_out):  # a slice assignment would take Numba longer to compile
            by_bias[j] = 0.0
        for row in range(rows):
            by_output = delta[row]
            for j in range(n_out):
                by_bias[j] += by_output[j]
        below = workspace.x[: rows * n_in] if layer == 0 else activations[start - rows * n_in : start]
        np.dot(below.reshape((rows, n_in)).T, delta, gradient[matrix:bias].reshape((n_in, n_out)))
        if layer > 0:
            passed = workspace.deltas[layer % 2, : rows * n_in]
            np.dot(delta, flat[matrix:bias].reshape((n_in, n_out)).T, passed.reshape((rows, n_in)))
            _times_slope(passed, below, network.tanh)
            delta = passed.reshape((rows, n_in))
        start, end = start - rows * n_in, matrix


@njit(nogil=True)
def _times_slope(values, outputs, uses_tanh):  # type: ignore[no-untyped-def]
    """Multiply by the slope of the activation function, known from its outputs."""
    if uses_tanh:
        for i in range(len(values)):
            values[i] *= np.float32(1.0) - outputs[i] * outputs[i]
    else:
        for i in range(len(values)):
            values[i] = values[i] if outputs[i] > 0.0 else np.float32(0.0)


def hold_to_one_thread() -> bool:
    """Keep SciPy's BLAS from starting threads of its own beside the update's; return whether that could be done.

    It cannot where the BLAS has none of these functions or the system does not find the ones of a library's own
    libraries (Windows); there ``OPENBLAS_NUM_THREADS=1`` in the environment does the same.
    """
    library = ctypes.CDLL(cython_blas.__file__)
    for name in _BLAS_SETTERS:
        if hasattr(library, name):
            getattr(library, name)(1)
            return True
    return False
