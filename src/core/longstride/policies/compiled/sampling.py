"""Drawing actions on the CPU, compiled by Numba: a set of functions for each action space, chosen when a loop is built.

The functions of a set take the same arguments whatever the space, write into arrays that the caller owns and allocate
nothing. What they return is what ``step`` receives: an integer, or the caller's array.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.simulators.simulator import Function
from longstride.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Sampling(NamedTuple):
    """The compiled functions of one action space.

    ``action`` and ``drawn`` are rows of one action: int64[1] for Discrete, int64[choices] or float32[numbers].

    Attributes:
        sample: ``sample(outputs, params, mask, rng, drawn, action) -> (action, log-probability)``; outputs are the
            actor's, weights its flat array. ``drawn`` gets what the trajectory keeps, for a Box the draw before it is
            scaled, clipped or squashed; it may be the same array as ``action``. The log-probability is a float32.
        greedy: ``greedy(outputs, mask, action) -> action``, the likeliest values or the means.
        admit: ``admit(action, mask) -> bool``, whether an action that came from elsewhere is allowed; numbers are
            clipped to the bounds first.
    """

    sample: Function
    greedy: Function
    admit: Function


@cache
def build_sampling(space: ActionSpace, log_std_at: int = 0) -> Sampling:
    """Return the functions of an action space; a Box's log-standard deviations are at ``params[log_std_at:]``."""
    if isinstance(space, MultiDiscrete):
        return _multi_discrete(space.sizes)
    if isinstance(space, Box):
        return _box(space, log_std_at)
    return _discrete()


def row_of(space: ActionSpace) -> tuple[int, Any]:
    """Return length and dtype of the row that holds one action in a compiled loop."""
    return (1 if isinstance(space, Discrete) else space.shape[0]), space.dtype


@njit(nogil=True, fastmath={"contract"})
def add_action_features(logits, features, mask, params, offset):  # type: ignore[no-untyped-def]
    """Add ``features @ w``, w from ``params[offset]`` on, to float32[n] logits of allowed actions in place."""
    for j in range(len(logits)):
        if mask[j]:
            for k in range(features.shape[1]):
                logits[j] += features[j, k] * params[offset + k]


@njit(nogil=True)
def sample_masked(logits, mask, n, uniform):  # type: ignore[no-untyped-def]
    """Return one of n actions, drawn from softmax(logits) under the mask by inversion, and its log-probability."""
    highest = -np.inf
    for j in range(n):
        if mask[j] and logits[j] > highest:
            highest = logits[j]
    total = 0.0
    for j in range(n):
        if mask[j]:
            total += math.exp(logits[j] - highest)
    target = uniform * total
    action = -1
    for j in range(n):
        if mask[j]:
            action = j
            target -= math.exp(logits[j] - highest)
            if target < 0.0:
                break
    return action, np.float32(logits[action] - highest - math.log(total))


@njit(nogil=True)
def greedy_masked(logits, mask, n):  # type: ignore[no-untyped-def]
    """Return the allowed action with the largest logit, the first of equals."""
    action = -1
    for j in range(n):
        if mask[j] and (action < 0 or logits[j] > logits[action]):
            action = j
    return action


@cache
def build_place(space: Box) -> Function:
    """Compile ``place(x, i)``, the number at i of an action (float32) for the draw x (float32)."""
    (low, high), centre, scale = np.ascontiguousarray(space.bounds), space.centre, space.scales
    squashed = space.squashed

    @njit(nogil=True)
    def place(x, i):  # type: ignore[no-untyped-def]
        y = math.tanh(np.float64(x)) if squashed else np.float64(x)
        return min(max(np.float32(centre[i] + scale[i] * y), low[i]), high[i])

    return place


@njit(nogil=True)
def log_slope_of_squash(x, scale):  # type: ignore[no-untyped-def]
    """Return the logarithm of the derivative of scale tanh(x), finite for every finite x."""
    a = abs(np.float64(x))
    return math.log(scale) + 2.0 * (math.log(2.0) - a - math.log1p(math.exp(-2.0 * a)))


@njit(nogil=True)
def log_slope_of_clip(x, scale):  # type: ignore[no-untyped-def]
    """Return 0: the policy learns from the draw before it is scaled and clipped."""
    return 0.0


@cache
def _discrete() -> Sampling:
    @njit(nogil=True)
    def sample(outputs, params, mask, rng, drawn, action):  # type: ignore[no-untyped-def]
        value, log_prob = sample_masked(outputs, mask, len(mask), rng.random())
        drawn[0] = value
        return value, log_prob

    @njit(nogil=True)
    def greedy(outputs, mask, action):  # type: ignore[no-untyped-def]
        return greedy_masked(outputs, mask, len(mask))

    @njit(nogil=True)
    def admit(action, mask):  # type: ignore[no-untyped-def]
        return action >= 0 and action < len(mask) and mask[action]

    return Sampling(sample, greedy, admit)


def _multi_discrete(choices: tuple[int, ...]) -> Sampling:
    count, sizes = len(choices), np.array(choices, np.int64)
    begins = np.cumsum(sizes) - sizes

    @njit(nogil=True)
    def sample(outputs, params, mask, rng, drawn, action):  # type: ignore[no-untyped-def]
        log_prob = 0.0
        for i in range(count):
            begin, n = begins[i], sizes[i]
            value, part = sample_masked(outputs[begin : begin + n], mask[begin : begin + n], n, rng.random())
            drawn[i] = value
            action[i] = value
            log_prob += part
        return action, np.float32(log_prob)

    @njit(nogil=True)
    def greedy(outputs, mask, action):  # type: ignore[no-untyped-def]
        for i in range(count):
            begin, n = begins[i], sizes[i]
            action[i] = greedy_masked(outputs[begin : begin + n], mask[begin : begin + n], n)
        return action

    @njit(nogil=True)
    def admit(action, mask):  # type: ignore[no-untyped-def]
        for i in range(count):
            if action[i] < 0 or action[i] >= sizes[i] or not mask[begins[i] + action[i]]:
                return False
        return True

    return Sampling(sample, greedy, admit)


def _box(space: Box, offset: int) -> Sampling:
    (low, high), scale, count = np.ascontiguousarray(space.bounds), space.scales, space.outputs
    place, log_slope = build_place(space), log_slope_of_squash if space.squashed else log_slope_of_clip

    @njit(nogil=True)
    def sample(outputs, params, mask, rng, drawn, action):  # type: ignore[no-untyped-def]
        log_prob = 0.0
        for i in range(count):
            log_std = np.float64(params[offset + i])
            std = math.exp(log_std)
            x = np.float32(outputs[i] + std * rng.standard_normal())
            z = (np.float64(x) - outputs[i]) / std  # of the rounded draw, which is what the update sees
            log_prob -= 0.5 * z * z + log_std + _HALF_LOG_2_PI + log_slope(x, scale[i])
            drawn[i] = x
            action[i] = place(x, i)
        return action, np.float32(log_prob)

    @njit(nogil=True)
    def greedy(outputs, mask, action):  # type: ignore[no-untyped-def]
        for i in range(count):
            action[i] = place(outputs[i], i)
        return action

    @njit(nogil=True)
    def admit(action, mask):  # type: ignore[no-untyped-def]
        for i in range(count):
            if not np.isfinite(action[i]):
                return False
            action[i] = min(max(action[i], low[i]), high[i])
        return True

    return Sampling(sample, greedy, admit)
