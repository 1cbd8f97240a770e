"""Chunks: steps one after another from which a policy with memory learns together.

A trajectory is cut into chunks from its first step on. The last chunk may reach beyond the end: its further places
repeat the last step and have weight 0. What comes later in a chunk has no influence on what comes before.

A chunk begins with the state that the policy had there. Where its family forgets after some steps of context, those
come in front of the chunk in its place, with weight 0, and are computed again. Only the first chunk of a trajectory has
a state then, and the steps after it in place of those before.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.minibatches import Minibatches


class ChunkRows(NamedTuple):
    """The chunks of a rollout, C of K steps each, context included.

    Attributes:
        rows: int64[C, K], steps of the rollout, its trajectories one after another.
        valid: bool[C, K], False for context and for places beyond the end of a trajectory.
        counts: int64[trajectories], chunks of each.
        starts: int64[C], which of the states that are kept, those of a trajectory after another, is the one before each
            chunk; -1 for none.
    """

    rows: np.ndarray
    valid: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


def chunk_rows(steps: Sequence[int], chunk: int, context: int = 0) -> ChunkRows:
    """Return the chunks of trajectories of so many steps each, with at most ``chunk`` steps of context in front."""
    rows, valid, counts, begin = [], [], [-(-count // chunk) for count in steps], 0
    for count, chunks in zip(steps, counts, strict=True):
        own = chunk * np.arange(chunks).reshape(-1, 1)
        places = np.maximum(own - context, 0) + np.arange(context + chunk)
        rows.append(begin + np.minimum(places, count - 1))
        valid.append((places >= own) & (places < np.minimum(own + chunk, count)))
        begin += count
    first = np.concatenate([np.arange(chunks) == 0 for chunks in counts])
    starts = np.where(first, np.cumsum(first) - 1, -1) if context else np.arange(len(first))
    return ChunkRows(np.concatenate(rows), np.concatenate(valid), np.array(counts), starts)


class Chunks(NamedTuple):
    """The part of samples that a policy with memory needs: those of a rollout, or the C chunks of a minibatch.

    A minibatch has B = C * K steps, a chunk after another.

    Attributes:
        states: float32[kept, state_size], the actor's states that are kept; of a minibatch those before its C chunks.
        critic_states: float32[kept, critic_state_size], the same of the critic.
        begins: bool[B, 1], whether a step is the first of an episode.
        rows: int64[C, K], steps of each chunk.
        valid: float32[C, K], 1 for each step that counts, 0 for context and padding.
        starts: int64[C], which state is the one before each chunk; -1 for one of zeros.
    """

    states: Tensor
    critic_states: Tensor
    begins: Tensor
    rows: Tensor
    valid: Tensor
    starts: Tensor

    def at(self, indices: Tensor) -> "Chunks":
        """Return the chunks at int64[S] indices."""
        rows, valid, starts = (column.index_select(0, indices) for column in (self.rows, self.valid, self.starts))
        states, critic_states = (self._before(kept, starts) for kept in (self.states, self.critic_states))
        return Chunks(states, critic_states, self.begins.index_select(0, rows.flatten()), rows, valid, starts)

    def _before(self, kept: Tensor, starts: Tensor) -> Tensor:
        """Return float32[C, S], the states before some chunks."""
        if len(kept) == len(self.rows):  # each chunk has one
            return kept.index_select(0, starts)
        states = kept.index_select(0, starts.clamp(min=0))
        return torch.where((starts >= 0).unsqueeze(1), states, 0.0)

    def spread(self, weights: Tensor) -> Tensor:
        """Return float32[B], the weight of each step of this minibatch, for float32[C], that of each chunk."""
        each = weights / self.valid.sum(dim=1).clamp(min=1.0)
        return (each.unsqueeze(1) * self.valid).flatten()

    def shares(self, indices: Tensor) -> Tensor:
        """Return float32[S], the share of each chunk at some indices in the mean over all of their steps."""
        counts = self.valid.index_select(0, indices).sum(dim=1)
        return counts / counts.sum().clamp(min=1.0)


def weighted(minibatches: Minibatches, sizes: np.ndarray, room: np.ndarray) -> Minibatches:
    """Return minibatches of chunks, M of S slots, with weights by the number of steps in each, int64[C] ``sizes``.

    The weights are written to float32[M, S] ``room``.
    """
    weights = minibatches.weights * sizes[minibatches.indices]
    np.divide(weights, weights.sum(axis=1, keepdims=True), out=room, casting="same_kind")
    return Minibatches(minibatches.indices, room)
