"""Lists of feasible actions: rows of different lengths, one after another, and where each list begins."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.policies.candidates import ActionList
from longstride.rollout.trajectory import Trajectory


class Lists(NamedTuple):
    """The part of samples that a policy needs that scores actions: the lists of B steps, A actions in all.

    Attributes:
        descriptions: float32[A, F], descriptions of the feasible actions.
        rows: int64[A], the step that each action belongs to, 0 .. B - 1; int64[0] of a rollout, which needs none.
        begins: int64[B], places of the first feasible actions in ``descriptions``.
        counts: int64[B], numbers of feasible actions.
    """

    descriptions: Tensor
    rows: Tensor
    begins: Tensor
    counts: Tensor

    def at(self, steps: Tensor) -> "Lists":
        """Return the lists of a minibatch, those of int64[S] steps."""
        counts, before = (column.index_select(0, steps) for column in (self.counts, self.begins))
        begins, rows = counts.cumsum(0) - counts, torch.repeat_interleave(counts)
        places = torch.arange(len(rows), device=rows.device) + (before - begins).index_select(0, rows)
        return Lists(self.descriptions.index_select(0, places), rows, begins, counts)

    @property
    def actions(self) -> ActionList:
        """The feasible actions of a minibatch."""
        return ActionList(self.descriptions, self.rows)


def joined_lists(trajectories: Sequence[Trajectory], descriptions: Tensor) -> tuple[Tensor, Lists]:
    """Return int64[N], the places of the chosen actions in their lists, and the lists of a rollout.

    The descriptions, float32[A, F], are the features of the trajectories, joined in their order.
    """
    counts = np.concatenate([np.diff(t.feasible[:, 0], prepend=0) for t in trajectories])
    chosen = np.concatenate([t.feasible[:, 1] - t.feasible[:, 0] for t in trajectories]) + counts
    places = (torch.from_numpy(column).to(descriptions.device) for column in (chosen, counts.cumsum() - counts, counts))
    actions, begins, counts_there = places
    return actions, Lists(descriptions, begins.new_empty(0), begins, counts_there)
