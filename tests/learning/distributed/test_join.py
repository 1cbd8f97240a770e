"""Leaving the other processes: whoever cannot, stops to watch them, since the watch ends its process."""

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch.distributed  # which process_group needs
from helpers.recorded_graphs import RecordedGraphs
from learning.distributed.test_captured_ranks import Twin
from learning.steps.test_cuda_graph import graphed, run

from longstride.errors import RankLostError, UserError
from longstride.learning.distributed import process_group
from longstride.learning.distributed.join import joined_ranks
from longstride.learning.distributed.launch import Launch
from longstride.learning.updater import Updater


class Group:
    """A group whose other ranks are gone at the end."""

    abandoned = False

    def __init__(self, launch):
        pass

    def close(self):
        raise RankLostError("The others are gone.")

    def note(self, error):
        return False

    def abandon(self):
        Group.abandoned = True


def test_a_group_that_cannot_be_closed_is_abandoned(monkeypatch):
    monkeypatch.setattr(process_group, "ProcessGroup", Group)
    with pytest.raises(RankLostError) as caught, joined_ranks(Launch(1, 2)):
        pass
    assert Group.abandoned and caught.value.alone is False


def test_a_program_whose_last_run_ended_with_an_error_is_to_start_again(monkeypatch):
    monkeypatch.setattr(process_group.dist, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=r"its last run of several processes ended with an error; start it again"):
        process_group.ProcessGroup(Launch(1, 2))


def failing_sum(monkeypatch, error):
    """Add up by a group, of which nothing but its store is there, where the exchange raises an error."""
    group = object.__new__(process_group.ProcessGroup)
    group.rank, group.size, group._store, group._host = 0, 2, None, None
    group._advice = lambda: "Start again."

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(process_group.dist, "all_reduce", fail)
    monkeypatch.setattr(process_group, "cause", lambda store: "")
    group.total([1.0])


def test_an_exchange_that_runs_out_of_memory_says_so(monkeypatch):
    with pytest.raises(torch.OutOfMemoryError):
        failing_sum(monkeypatch, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."))


def test_an_error_while_a_step_is_captured_is_passed_on(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="not permitted"):
        failing_sum(monkeypatch, RuntimeError("operation not permitted when stream is capturing"))


def test_other_errors_of_an_exchange_are_named_by_their_first_line(monkeypatch):
    with pytest.raises(RankLostError, match=r"cannot be reached \(NCCL error: no device\)\. Start again\."):
        failing_sum(monkeypatch, RuntimeError("NCCL error: no device.\nmore lines"))


def test_no_captured_step_is_left_where_the_communicator_is_destroyed(monkeypatch, tmp_path):
    """NCCL waits for ever until every graph that holds an exchange is gone."""
    pytest.importorskip("pydantic")
    from longstride.training.assembly.run import Run

    graphs, seen = [], []

    class Captures(RecordedGraphs):
        def capture(self, function):
            replay = super().capture(function)
            graphs.append(weakref.ref(replay))
            return replay

    class Both(Twin):
        def __init__(self, launch):
            super().__init__()

        def close(self):
            seen.append([graph() is None for graph in graphs])

    monkeypatch.setattr(process_group, "ProcessGroup", Both)
    gc.disable()
    try:
        with joined_ranks(Launch(0, 2)) as ranks:
            stepper, epochs, _, rollout = graphed(graphs=Captures())
            stepper.ranks = ranks
            updater = object.__new__(Updater)
            updater.ranks, updater.stepper, updater.device = ranks, stepper, torch.device("cpu")
            retry = SimpleNamespace(require_all=lambda *_: None)
            trainer = SimpleNamespace(
                updater=updater,
                collector=SimpleNamespace(close=lambda: None),
                checkpoints=SimpleNamespace(retry=retry, saved_iteration=0),
                settings=None,
            )
            monkeypatch.setattr(Run, "_train", lambda *_: run(epochs, rollout) is not None)
            assert Run(Path(tmp_path), trainer, None, None).train(None, lambda: False)
    finally:
        gc.enable()
    assert seen == [[True]]
