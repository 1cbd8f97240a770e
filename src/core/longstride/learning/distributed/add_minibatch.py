"""One exchange a minibatch: the gradients of all parts and the figures of its report together."""

import torch
from torch import Tensor

from longstride.learning.distributed.ranks import Ranks


def add_minibatch(ranks: Ranks, gradient: Tensor, size: int, report: Tensor, is_maximum: Tensor) -> Tensor:
    """Replace a gradient by its sum over all ranks, in place; return the report of the whole minibatch.

    The gradient is the first ``size`` numbers of a float32 tensor; the figures are exchanged in the room that it leaves
    behind them, so that nothing is copied: :func:`room_for` says how much that is.

    The weights of a minibatch's samples add up to 1 over all ranks, so that sums are its gradient and its figures. Of
    the figure in float32[columns] ``report`` that bool[columns] ``is_maximum`` marks, each rank writes its own into a
    place of its own, and their maximum is taken. The host reads nothing, so that a captured step can hold this.
    """
    exchanged = gradient[: size + room_for(ranks, len(report))]
    added, places = exchanged[size : size + len(report)], exchanged[size + len(report) :]
    added.copy_(torch.where(is_maximum, 0.0, report))
    places.zero_()
    places[ranks.rank] = torch.where(is_maximum, report, 0.0).sum()
    ranks.add([exchanged])
    return torch.where(is_maximum, places.max(), added)


def room_for(ranks: Ranks, columns: int) -> int:
    """Return how many numbers :func:`add_minibatch` writes behind a gradient, for a report of some columns."""
    return columns + ranks.size if ranks.size > 1 else 0
