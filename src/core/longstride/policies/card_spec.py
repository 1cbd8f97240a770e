"""The shapes of a policy on a GPU, whose matrix products want rows of 16 bytes."""

from dataclasses import replace

from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete

ALIGNMENT = 32
"""Floats between which tensors begin on a GPU: 128 bytes, a line of its caches. cuBLAS wants 16 for tensor cores."""

_WIDTH = 8
"""Rows of so many numbers are multiples of 16 bytes in each format."""


def card_spec(spec: PolicySpec) -> PolicySpec:
    """Return a policy with further observations, which are always 0, and further actions, which are never allowed.

    They fill the rows of observations and of logits up, and change nothing that is computed: the weights of further
    observations, and the further logits, have gradients of 0.
    """
    filled = replace(spec, observation_size=_filled(spec.observation_size))
    if isinstance(spec.action_space, Discrete) and not spec.scores_actions:
        filled = replace(filled, action_space=replace(spec.action_space, n=_filled(spec.action_space.n)))
    return filled


def _filled(width: int) -> int:
    return -(-width // _WIDTH) * _WIDTH
