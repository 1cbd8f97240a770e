"""Captured steps of several ranks: the exchange is in the graph, and all ranks capture when one has to."""

import torch
from learning.steps.test_cuda_graph import assert_same_bits, eager, graphed, run, state_of

from longstride.learning.distributed.ranks import ALONE


class Twin:
    """One of two ranks; the other one computes the same. The exchange is an operation that a graph records."""

    rank, size, elsewhere = 0, 2, 0.0

    def __init__(self):
        self.added = 0

    def add(self, parts):
        self.added += 1
        for part in parts:
            part.mul_(2.0)

    def sums(self, numbers):
        return numbers + self.elsewhere


def test_replays_add_up_gradients_as_eager_steps_do():
    stepper, epochs, graphs, rollout = graphed()
    other, *_ = graphed()
    stepper.ranks, other.ranks = Twin(), Twin()
    for seed in range(2):
        reports, expected = run(epochs, rollout, seed), eager(other, rollout, seed)
        assert torch.equal(reports, expected)
        assert_same_bits(state_of(stepper), state_of(other))
    assert (graphs.captured, graphs.replays) == (1, 8)
    assert stepper.ranks.added == 4  # three times to warm up, and once in the capture: a replay runs no Python
    assert other.ranks.added == 8


def test_the_exchange_changes_the_step():
    stepper, epochs, _, rollout = graphed(max_grad_norm=1e9)
    alone, *_ = graphed(max_grad_norm=1e9)
    stepper.ranks = Twin()
    run(epochs, rollout)
    eager(alone, rollout)
    moments = "optimizer.0.exp_avg"
    torch.testing.assert_close(state_of(stepper)[moments], 2 * state_of(alone)[moments], rtol=0.05, atol=1e-4)


def test_all_ranks_capture_when_one_has_to():
    stepper, epochs, graphs, rollout = graphed()
    stepper.ranks = Twin()
    run(epochs, rollout)
    stepper.ranks.elsewhere = 1.0
    run(epochs, rollout)
    assert graphs.captured == 2
    stepper.ranks.elsewhere = 0.0
    run(epochs, rollout)
    assert graphs.captured == 2
    stepper.ranks = ALONE  # as in trials, which exchange nothing
    run(epochs, rollout)
    assert graphs.captured == 3
    assert not stepper.memory.gives_up
