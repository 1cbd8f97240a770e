"""Samples with lists of feasible actions: rows of different lengths, one after another, and where each begins."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.policies.candidates import ActionList
from longstride.rollout.trajectory import Trajectory


class ListedSamples(NamedTuple):
    """B samples on the device of the model: those of a rollout, or those of a minibatch.

    The columns are those of :class:`longstride.learning.algorithms.interface.Samples` but for these.

    Attributes:
        actions: int64[B], places of the chosen actions in ``features``.
        masks: int64[A], the sample that each action belongs to, 0 .. B - 1; int64[0] of a rollout, which needs none.
        features: descriptions of the A feasible actions of all samples: an :class:`ActionList` of a minibatch,
            float32[A, F] of a rollout.
        begins: int64[B], places of the first feasible actions in ``features``.
        counts: int64[B], numbers of feasible actions.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    masks: Tensor
    features: Any
    states: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    begins: Tensor
    counts: Tensor

    def at(self, indices: Tensor) -> "ListedSamples":
        """Return the samples at int64[S] indices; the lists are gathered, too."""
        columns = {name: getattr(self, name).index_select(0, indices) for name in _PLAIN}
        counts, before = columns["counts"], columns["begins"]
        begins = counts.cumsum(0) - counts
        rows = torch.repeat_interleave(counts)
        places = torch.arange(len(rows), device=rows.device) + (before - begins).index_select(0, rows)
        features = ActionList(self.features.index_select(0, places), rows)
        columns |= {"actions": columns["actions"] - before + begins, "begins": begins}
        return ListedSamples(**columns, masks=rows, features=features)

    def spread(self, weights: Tensor) -> Tensor:
        """Return the weight of each step of a minibatch: a sample is a step."""
        return weights

    def shares(self, indices: Tensor) -> Tensor:
        """Return float32[S], the share of each sample at some indices in their mean."""
        return torch.full((len(indices),), 1.0 / len(indices), device=indices.device)

    @property
    def chunk(self) -> int:
        """Number of steps of a sample."""
        return 1

    @property
    def actor_memory(self) -> None:
        """Nothing: each observation stands for itself."""

    @property
    def critic_memory(self) -> None:
        """Nothing."""


_PLAIN = tuple(name for name in ListedSamples._fields if name not in ("masks", "features"))
"""Columns with one row for each sample."""


class ListPlaces(NamedTuple):
    """Where the lists of a rollout's N steps lie among its feasible actions, int64[N] each."""

    chosen: np.ndarray  # places of the chosen actions
    begins: np.ndarray  # places of the first feasible actions
    counts: np.ndarray  # numbers of feasible actions


def list_places(trajectories: Sequence[Trajectory]) -> ListPlaces:
    """Return where lists lie if the features of the trajectories are joined in their order."""
    begin, parts = 0, []
    for t in trajectories:
        ends, chosen = t.feasible[:, 0], t.feasible[:, 1]
        begins = np.concatenate([[0], ends[:-1]])
        parts.append((chosen + begin, begins + begin, ends - begins))
        begin += len(t.features)
    return ListPlaces(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def with_lists(columns: Mapping[str, Tensor], places: ListPlaces) -> ListedSamples:
    """Return samples from the columns of ``Samples`` (``algorithms/interface.py``), and the places of their lists.

    The features are those of all feasible actions, float32[A, F].
    """
    device = columns["observations"].device
    chosen, begins, counts = (torch.from_numpy(column).to(device) for column in places)
    none = chosen.new_empty(0)
    return ListedSamples(**{**columns, "actions": chosen, "masks": none}, begins=begins, counts=counts)
