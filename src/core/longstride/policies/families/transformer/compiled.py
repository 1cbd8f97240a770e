"""The compiled step of a causal transformer: one observation, with the keys and values of those before it in a ring."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.policies.compiled.network import Network
from longstride.policies.compiled.products import (
    activation_of,
    build_add_product,
    build_layer,
    build_load,
    whole_groups,
)
from longstride.policies.compiled.sparse_matvec import INPUTS, unsigned
from longstride.policies.families.transformer.norm import NORM_EPSILON
from longstride.policies.families.transformer.rotary import rotations
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Function


class _Places(NamedTuple):
    """Where the workspace of an instance holds what, and how many values it takes."""

    inputs: int  # of a product: the observation, normalised values, or what the heads read
    residual: int  # what the blocks add to
    products: int  # queries, keys and values; hidden units of a block; outputs
    scores: int  # of a head
    stride: int


def build_transformer(spec: PolicySpec) -> Network:
    """Compile a causal transformer, as ``network.py`` defines it and its state."""
    width, hidden = spec.actor_hidden[0], spec.feed_forward_factor * spec.actor_hidden[0]
    n_observation, n_layers, n_outputs = spec.observation_size, len(spec.actor_hidden), spec.action_space.outputs
    inputs, residual, products, _, stride = _places(spec)
    add_first, add_attention, add_up, add_last = (build_layer(n, stride) for n in (width, 3 * width, hidden, n_outputs))
    add_to_residual, attend, activate = _build_add_to_residual(width, stride), _build_attend(spec), activation_of(spec)
    age, window, of_a_layer = spec.state_size - 1, spec.context_length, 2 * spec.context_length * width

    @njit(nogil=True)
    def advance(params, states, members, workspace, count):  # type: ignore[no-untyped-def]
        offset = add_first(params, 2 * n_observation, workspace, inputs, n_observation, residual, count)
        for layer in range(n_layers):
            for r in range(count):
                normalise(workspace, r * stride + residual, r * stride + inputs, width)
            offset = add_attention(params, offset, workspace, inputs, width, products, count)
            for r in range(count):
                state = states[members[r]]
                attend(workspace, r * stride, state, layer * of_a_layer, int(state[age]))
            offset = add_to_residual(params, offset, workspace, inputs, width, residual, count)
            for r in range(count):
                normalise(workspace, r * stride + residual, r * stride + inputs, width)
            offset = add_up(params, offset, workspace, inputs, width, products, count)
            for r in range(count):
                activate(workspace, r * stride + products, hidden)
            offset = add_to_residual(params, offset, workspace, products, hidden, residual, count)
        for r in range(count):
            states[members[r], age] = (int(states[members[r], age]) + 1) % (4 * window) or 2 * window
            normalise(workspace, r * stride + residual, r * stride + inputs, width)
        add_last(params, offset, workspace, inputs, width, products, count)

    @njit(nogil=True)
    def outputs(workspace, place):  # type: ignore[no-untyped-def]
        begin = place * stride + products
        return workspace[begin : begin + n_outputs]

    return Network(build_load(spec, stride), advance, outputs, stride)


def _places(spec: PolicySpec) -> _Places:
    """Return the places of an instance; products of heads may reach beyond the last one by less than a group."""
    width, hidden = spec.actor_hidden[0], spec.feed_forward_factor * spec.actor_hidden[0]
    residual = whole_groups(max(spec.observation_size, width) + INPUTS)
    products = residual + whole_groups(width)
    scores = products + whole_groups(max(3 * width, hidden, spec.action_space.outputs) + INPUTS)
    return _Places(0, residual, products, scores, scores + whole_groups(spec.context_length))


def _build_add_to_residual(width: int, stride: int) -> Function:
    """Compile ``add(params, offset, workspace, x, n_inputs, y, count) -> offset``, which adds product and bias."""
    add_product = build_add_product(width)

    @njit(nogil=True)
    def add(params, offset, workspace, x, n_inputs, y, count):  # type: ignore[no-untyped-def]
        for r in range(count):
            begin, first = unsigned(y + r * stride), unsigned(offset + n_inputs * width)
            for j in range(unsigned(width)):
                workspace[begin + j] += params[first + j]
        add_product(params, offset, workspace, x, n_inputs, y, count, stride)
        return offset + (n_inputs + 1) * width

    return add


def _build_attend(spec: PolicySpec) -> Function:
    """Compile ``attend(workspace, begin, state, first, age)`` for the instance whose place begins at ``begin``.

    The heads read the queries, keys and values among its products; what they find becomes its inputs. Keys and values
    are added to those of a layer, from ``first`` on in float32[state_size] ``state``; age is that of the state.
    """
    width, window, heads = spec.actor_hidden[0], spec.context_length, spec.attention_heads
    size = width // heads
    inputs, _, products, scores, _ = _places(spec)
    add_scores, add_values = build_add_product(window), build_add_product(size)
    cosines, sines = (table.astype(np.float32) for table in rotations(window, size))
    scale, half, values = np.float32(1.0 / math.sqrt(size)), size // 2, width * window

    @njit(nogil=True, fastmath={"contract"})
    def rotate(workspace, begin, position, factor):  # type: ignore[no-untyped-def]
        begin = unsigned(begin)
        for j in range(unsigned(half)):
            cosine, sine = factor * cosines[position, j], factor * sines[position, j]
            a, b = workspace[begin + j], workspace[begin + unsigned(half) + j]
            workspace[begin + j] = a * cosine - b * sine
            workspace[begin + unsigned(half) + j] = a * sine + b * cosine

    @njit(nogil=True)
    def attend(workspace, begin, state, first, age):  # type: ignore[no-untyped-def]
        slot, position, kept = age % window, age % (2 * window), min(age + 1, window)
        for head in range(heads):
            query = begin + products + head * size
            rotate(workspace, query, position, scale)
            rotate(workspace, query + width, position, np.float32(1.0))
            keys_of_head, values_of_head = first + head * size * window, first + values + head * size * window
            for j in range(size):
                state[keys_of_head + j * window + slot] = workspace[query + width + j]
                state[values_of_head + slot * size + j] = workspace[query + 2 * width + j]
            found, at = begin + inputs + head * size, begin + scores
            for j in range(window):
                workspace[at + j] = np.float32(0.0)
            add_scores(state, keys_of_head, workspace, query, size, at, 1, 0)
            softmax(workspace, at, kept)
            for j in range(size):
                workspace[found + j] = np.float32(0.0)
            add_values(state, values_of_head, workspace, at, kept, found, 1, 0)

    return attend


@njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def normalise(values, x, y, n):  # type: ignore[no-untyped-def]
    """Write n values from ``x`` on, divided by their root mean square, to the places from ``y`` on."""
    x, y, n = unsigned(x), unsigned(y), unsigned(n)
    factor = np.float32(1.0) / np.sqrt(_sum_of_squares(values, x, n) / np.float32(n) + np.float32(NORM_EPSILON))
    for j in range(n):
        values[y + j] = factor * values[x + j]


@njit(nogil=True, fastmath={"contract", "reassoc"})
def _sum_of_squares(values, begin, n):  # type: ignore[no-untyped-def]
    """Return the sum of n squares; in any order, so that the compiler can take several at a time."""
    total = np.float32(0.0)
    for j in range(n):
        total += values[begin + j] * values[begin + j]
    return total


@njit(nogil=True, fastmath={"contract", "reassoc"})
def _sum(values, begin, n):  # type: ignore[no-untyped-def]
    """Return the sum of n values."""
    total = np.float32(0.0)
    for j in range(n):
        total += values[begin + j]
    return total


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _largest(values, begin, n):  # type: ignore[no-untyped-def]
    """Return the largest of n values, any number where one is a NaN."""
    largest = values[begin]
    for j in range(n):
        value = values[begin + j]
        largest = value if value > largest else largest
    return largest


@njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def softmax(values, begin, n):  # type: ignore[no-untyped-def]
    """Replace n values from ``begin`` on by their softmax; with a NaN among them all become NaN.

    The exponential is that of Cephes (polynomial of degree 7, argument reduced by multiples of ln 2), to 2 units in
    the last place, without a branch, so that the compiler vectorises it. Below e^-87 it is e^-87.
    """
    begin, n = unsigned(begin), unsigned(n)
    largest, least = _largest(values, begin, n), np.float32(-87.0)
    rounding = np.float32(12582912.0)  # 1.5 * 2^23: what is added to it is rounded to a whole number
    for j in range(n):
        x = values[begin + j] - largest
        x = least if x < least else x
        shifted = x * np.float32(1.44269504088896341) + rounding
        power = shifted - rounding
        r = x - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
        p = r * np.float32(1.9875691500e-4) + np.float32(1.3981999507e-3)
        p = r * p + np.float32(8.3334519073e-3)
        p = r * p + np.float32(4.1665795894e-2)
        p = r * p + np.float32(1.6666665459e-1)
        p = r * p + np.float32(5.0000001201e-1)
        p = r * r * p + r + np.float32(1.0)
        exponent = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(127 << 23))
        values[begin + j] = p * np.int32(exponent).view(np.float32)
    factor = np.float32(1.0) / _sum(values, begin, n)
    for j in range(n):
        values[begin + j] *= factor
