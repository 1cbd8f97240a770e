"""What passes between a network with memory and its callers, whatever its family."""

from typing import NamedTuple

from torch import Tensor


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
