"""A network on rows of samples: normalisation, forward pass, backward pass. Kernels on flat float32 arrays.

A layer of ``n_in`` inputs and ``n_out`` outputs lies in the flat array as in
:mod:`core.policies.parameter_layout`: the matrix ``W[n_in, n_out]``, then the bias.
Activations of ``rows`` samples lie in one array too, layer after layer, each
``[rows, n_out]`` without a gap, so that every matrix product is of contiguous blocks and nothing is allocated.
"""

import numpy as np
from numba import njit

from core.jit_cache.cache import cached
from core.policies.compiled.forward import relu, tanh
from core.policies.parameter_layout import OBSERVATION_CLIP

_CLIP = np.float32(OBSERVATION_CLIP)


@cached
@njit(nogil=True)
def gather(observations, indices, flat, x):  # type: ignore[no-untyped-def]
    """Write the normalised observations at some indices; NaN stays NaN.

    Args:
        observations: float32[N, O].
        indices: int64[rows].
        flat: float32[*], which begins with mean and scale.
        x: float32[>= rows * O], changed in place.
    """
    n = observations.shape[1]
    for row in range(len(indices)):
        source = observations[indices[row]]
        target = x[row * n : (row + 1) * n]
        for i in range(n):
            value = (source[i] - flat[i]) * flat[n + i]
            value = -_CLIP if value < -_CLIP else value
            target[i] = _CLIP if value > _CLIP else value


@cached
@njit(nogil=True)
def forward(flat, offset, sizes, x, rows, uses_tanh, activations):  # type: ignore[no-untyped-def]
    """Compute all layers; the last one, which has no activation function, ends the activations.

    Args:
        flat: float32[*], which holds the first layer from ``offset`` on.
        offset: int.
        sizes: int64[layers + 1], inputs, hidden sizes ..., outputs.
        x: float32[>= rows * sizes[0]].
        rows: samples.
        uses_tanh: tanh between the layers, otherwise relu.
        activations: float32[>= rows * sum(sizes[1:])], changed in place.
    """
    source, start, last = x[: rows * sizes[0]].reshape((rows, sizes[0])), 0, len(sizes) - 2
    for layer in range(last + 1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        values = activations[start : start + rows * n_out]
        target = values.reshape((rows, n_out))
        np.dot(source, flat[offset : offset + n_in * n_out].reshape((n_in, n_out)), target)
        offset += n_in * n_out
        bias = flat[offset : offset + n_out]
        for row in range(rows):
            sums = target[row]
            for j in range(n_out):
                sums[j] += bias[j]
        if layer < last and uses_tanh:
            tanh(values, 0, rows * n_out)
        elif layer < last:
            relu(values, 0, rows * n_out)
        offset, start, source = offset + n_out, start + rows * n_out, target


@cached
@njit(nogil=True)
def backward(flat, offset, sizes, x, rows, uses_tanh, activations, deltas, gradient):  # type: ignore[no-untyped-def]
    """Compute the gradient of a sum over the samples from its derivatives by the network's outputs.

    Args:
        flat: float32[*], as for :func:`forward`.
        offset: int, the same.
        sizes: int64[layers + 1], the same.
        x: float32, the same.
        rows: samples.
        uses_tanh: the same.
        activations: float32, from :func:`forward`; its last layer has been overwritten by the derivatives.
        deltas: float32[2, >= rows * widest hidden layer], scratch.
        gradient: float32, of the shape of ``flat``; the layers' part is overwritten.
    """
    last = len(sizes) - 2
    start, end = rows * sizes[1:-1].sum(), offset
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
        below = x[: rows * n_in] if layer == 0 else activations[start - rows * n_in : start]
        np.dot(below.reshape((rows, n_in)).T, delta, gradient[matrix:bias].reshape((n_in, n_out)))
        if layer > 0:
            passed = deltas[layer % 2, : rows * n_in]
            np.dot(delta, flat[matrix:bias].reshape((n_in, n_out)).T, passed.reshape((rows, n_in)))
            _times_slope(passed, below, uses_tanh)
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
