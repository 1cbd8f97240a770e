"""The devices of GPU tests: a GPU, and the CPU, where their bodies run too, so that they cannot rot unseen."""

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from helpers.peak_memory import PeakBytes
from helpers.recorded_graphs import RecordedGraphs

from longstride.learning.step_selection.executor import Executor

CARD = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU here"),
    ],
)
DEVICES = ["cpu", CARD]

ON_CARD = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.25 GiB is"


def require(device, precision):
    """Skip where a card lacks a number format; a CPU has all of them."""
    if device == "cuda" and precision == "bf16" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("BF16 needs compute capability 8.0")


def wait(device):
    """Wait for a card."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def no_waiting(device):
    """Let a card fail where the host waits for it."""
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")


def peak_of(device, function):
    """Return the most bytes that a function takes beside those that are there."""
    if device != "cuda":
        with PeakBytes() as counted:
            function()
        return counted.peak
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def reserved(device):
    """Return the bytes that torch holds of a card; 0 of a CPU."""
    return torch.cuda.memory_reserved() if device == "cuda" else 0


@contextmanager
def room_for(device, stepper, bytes_free, rows):
    """Limit a card to so many further bytes; on a CPU, microbatches of more rows run out of memory."""
    if device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + bytes_free) / total)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    whole = stepper.loss_of

    def limited(rollout, indices, weights):
        if len(indices) > rows:
            raise torch.OutOfMemoryError(ON_CARD)
        return whole(rollout, indices, weights)

    stepper.loss_of = limited
    yield
    stepper.loss_of = whole


def executor_on(device, stepper):
    """Return an executor; on a CPU its captures are recorded, and a compiled loss is the loss, called as one.

    Torch's compiler does nothing while operations are recorded.
    """
    return Executor(stepper, "eager", *(() if device == "cuda" else (RecordedGraphs(), partial)))
