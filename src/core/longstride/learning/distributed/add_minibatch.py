"""One exchange a minibatch: the gradients of all parts and the figures of its report together."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longstride.learning.distributed.ranks import Ranks


def add_minibatch(ranks: Ranks, gradients: Sequence[Tensor], report: Tensor, is_maximum: Tensor) -> Tensor:
    """Replace float32[n] gradients by their sums over all ranks, in place; return the report of the whole minibatch.

    The weights of a minibatch's samples add up to 1 over all ranks, so that sums are its gradient and its figures. Of
    the figure in float32[columns] ``report`` that bool[columns] ``is_maximum`` marks, each rank writes its own into a
    place of its own, and their maximum is taken. The host reads nothing, so that a captured step can hold this.
    """
    own = report.new_zeros(ranks.size)
    own[ranks.rank] = torch.where(is_maximum, report, 0.0).sum()
    figures = torch.cat([torch.where(is_maximum, 0.0, report), own])
    ranks.add([*gradients, figures])
    added, places = figures[: len(report)], figures[len(report) :]
    return torch.where(is_maximum, places.max(), added)
