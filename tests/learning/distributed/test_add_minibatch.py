"""One flat sum a minibatch: gradients and figures added up, the largest deviation found; trials of all ranks."""

from types import SimpleNamespace

import pytest
import torch

from longstride.learning.distributed.add_minibatch import add_minibatch
from longstride.learning.distributed.process_group import ProcessGroup
from longstride.learning.step_selection.autotune import ExecutionTrial, agreed


class Recorded:
    """A rank whose sums are given, after a first call that only notes what it would add."""

    def __init__(self, rank, size):
        self.rank, self.size, self.noted, self.sums = rank, size, None, None

    def add(self, parts):
        self.noted = torch.cat(list(parts))
        if self.sums is not None:
            for part, sums in zip(parts, torch.split(self.sums, [*map(len, parts)]), strict=True):
                part.copy_(sums)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_and_reports_are_those_of_the_whole_minibatch(size):
    generator = torch.Generator().manual_seed(size)
    gradients = torch.randn(size, 5, generator=generator)
    reports = torch.rand(size, 4, generator=generator)
    is_maximum = torch.tensor([False, False, True, False])
    ranks = [Recorded(rank, size) for rank in range(size)]
    for rank, flat, report in zip(ranks, gradients, reports, strict=True):
        add_minibatch(rank, torch.cat([flat, torch.full((10,), torch.nan)]), 5, report, is_maximum)
    assert {len(rank.noted) for rank in ranks} == {5 + 4 + size}  # one exchange of all
    sums = torch.stack([rank.noted for rank in ranks]).sum(dim=0)
    for rank, flat, report in zip(ranks, gradients, reports, strict=True):
        rank.sums, room = sums, torch.cat([flat, torch.full((10,), torch.nan)])
        whole = add_minibatch(rank, room, 5, report, is_maximum)
        torch.testing.assert_close(room[:5], gradients.sum(dim=0))
        torch.testing.assert_close(whole, torch.where(is_maximum, reports.max(dim=0).values, reports.sum(dim=0)))


def test_a_gradient_that_is_not_finite_spoils_the_sum_of_all():
    """So that all ranks skip the step."""
    rank, gradient = Recorded(0, 2), torch.tensor([1.0, torch.nan, 0.0, 0.0, 0.0])
    rank.sums = torch.tensor([2.0, torch.nan, 0.5, 0.0, 0.0])
    add_minibatch(rank, gradient, 2, torch.tensor([0.25]), torch.tensor([False]))
    assert gradient[0] == 2.0 and torch.isnan(gradient[1])


def test_one_tensor_is_added_up_where_it_lies(monkeypatch):
    """A second flat gradient of a large policy would be gigabytes that no plan knows."""
    group, tensor, given = ProcessGroup.__new__(ProcessGroup), torch.ones(5), []
    group._shares_memory, group._sums, group._device_group = False, None, None

    def all_reduce(flat, **_):
        given.append(flat.data_ptr())
        flat.mul_(2.0)
        return SimpleNamespace(is_completed=lambda: True, wait=lambda: None)

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    group.add([tensor])
    assert given == [tensor.data_ptr()]
    assert tensor.tolist() == [2.0] * 5


def test_the_slowest_trial_counts_and_a_problem_of_one_is_a_problem_of_all():
    trials = [ExecutionTrial("graph", seconds, 1.0, "") for seconds in (0.2, 0.3)]
    assert agreed(trials) == ExecutionTrial("graph", 0.3, 1.0, "")
    failed = ExecutionTrial("graph", None, 2.0, "memory ran out")
    assert agreed([trials[0], failed]) == ExecutionTrial("graph", None, 2.0, "memory ran out")
    assert agreed([trials[0]]) == trials[0]
