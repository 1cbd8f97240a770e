"""What passes between a network with memory and its callers, whatever its family."""

from typing import NamedTuple

import torch
from torch import Tensor

from longstride.policies.distributions import to_float32


class Memory(NamedTuple):
    """What a network with memory knows beside the observations of B = C * K steps, C chunks of K steps each.

    Attributes:
        states: float[C, S], the state before each chunk.
        begins: bool[B, 1], whether a step is the first of an episode.
    """

    states: Tensor
    begins: Tensor


class Steps(NamedTuple):
    """N steps of a network's chunks after which its state is asked for: int64[N] chunks, and places in them."""

    chunks: Tensor
    places: Tensor


def no_memory(rows: int, state_size: int, like: Tensor) -> Memory:
    """Return the memory of rows that each are the first of an episode, without a copy of its zeros for each."""
    zeros = like.new_zeros(1, state_size, dtype=to_float32(like[:0]).dtype)
    return Memory(zeros.expand(rows, state_size), like.new_ones(rows, 1, dtype=torch.bool))
