"""A step captured once and replayed for every minibatch: one launch in place of some hundred."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from longstride.learning.algorithms.interface import Samples
from longstride.learning.distributed.ranks import any_of
from longstride.learning.minibatches import Minibatches
from longstride.learning.steps.interface import report_columns
from longstride.learning.steps.torch_step import TorchStepper

Replay = Callable[[], None]

_WARM_UPS = 3
"""Runs before a capture, as in torch's documentation: they make workspaces, choose and compile kernels."""

_RELEASES_FAILED_CAPTURES = "2.14.0.dev0"
"""First version of torch whose graphs release the memory of a failed capture themselves; not tried on a GPU."""

_LEAST_ROWS = 64
"""Least number of minibatches with room: a few more than expected must not need another capture."""


class Graphs(Protocol):
    """Captures launches: CUDA, or a fake of it."""

    def capture(self, function: Callable[[], None]) -> Replay:
        """Run a function some times, capture its launches, and return a function that repeats them."""


class CudaGraphs:
    """Captures CUDA graphs of work on a device."""

    def __init__(self, device: torch.device) -> None:
        # For warm-up and capture, so that workspaces of matrix products are not made in the graph's memory.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(self, function: Callable[[], None]) -> Replay:
        """Run a function some times, capture its launches, and return a function that repeats them."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        with torch.cuda.stream(self._stream):
            try:
                # Only this thread must keep to what can be captured: others write checkpoints meanwhile.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                function()
                graph.capture_end()
            except BaseException:
                _abandon(graph, pool)
                raise
        replay: Replay = graph.replay
        return replay


def _abandon(graph: Any, pool: Any) -> None:
    """End a capture that failed; if it cannot be ended, let go of its memory, which older versions of torch keep.

    Later ones release it with the graph (pytorch #190348), and a second release would end the process.
    """
    try:
        graph.capture_end()
    except RuntimeError:
        if TorchVersion(torch.__version__) >= _RELEASES_FAILED_CAPTURES:
            return
        index = torch.cuda.current_device()
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            with suppress(RuntimeError, AttributeError):
                getattr(torch._C, name)(index, pool)


class GraphBuffers(NamedTuple):
    """Tensors at fixed addresses, through which the host and a captured step exchange data.

    Indices int64[rows, S] and weights float32[rows, S] are those of each minibatch of an epoch, reports float32[rows,
    columns] those of each step, and the position int64[1] is the minibatch of the next step.
    """

    indices: Tensor
    weights: Tensor
    reports: Tensor
    position: Tensor

    @classmethod
    def empty(cls, rows: int, size: int, columns: int, device: torch.device) -> "GraphBuffers":
        """Return buffers in which all weights are NaN: a step of those is skipped and changes nothing."""
        return cls(
            torch.zeros(rows, size, dtype=torch.int64, device=device),
            torch.full((rows, size), torch.nan, device=device),
            torch.zeros(rows, columns, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
        )

    def fill(self, minibatches: Minibatches, weights: Tensor) -> None:
        """Write the minibatches of an epoch, whose weights are on the device, and set the position to the first.

        The host does not wait: it goes on to launch the steps, which come after the copies.
        """
        self.indices[: minibatches.steps].copy_(torch.from_numpy(minibatches.indices), non_blocking=True)
        self.weights[: minibatches.steps].copy_(weights)
        self.position.zero_()

    def step(self, stepper: TorchStepper, rollout: Samples) -> None:
        """Take the step of this minibatch and move to the next; a capture holds this.

        The host sets the position back before it leaves the rows: the runs before a capture are fewer than those.
        """
        indices, weights = (buffer.index_select(0, self.position)[0] for buffer in (self.indices, self.weights))
        report = stepper.step_without_retry(rollout, indices, weights)
        self.reports.index_copy_(0, self.position, report.unsqueeze(0))
        self.position.add_(1)


class GraphedEpochs:
    """Takes the steps of an epoch by replaying one that was captured; where memory runs out the graph is dropped.

    It is captured anew where anything that the graph holds has changed: addresses and sizes of the rollout, the state
    of the optimiser, precision, microbatch, which coefficients are 0. Learning rates and the other coefficients are
    tensors that the graph reads. ``captures`` counts the captures so far.
    """

    def __init__(self, stepper: TorchStepper, graphs: Graphs) -> None:
        self._stepper, self._graphs, self.captures = stepper, graphs, 0
        self._buffers: GraphBuffers | None = None
        self._replay: Replay | None = None
        self._key: tuple[Any, ...] = ()
        stepper.memory.release = self.drop

    def drop(self) -> None:
        """Free the graph and its memory, which also holds the gradients of the last step."""
        self._buffers = self._replay = None
        self._stepper.optimizer.drop_gradients()

    def prepare(self, rollout: Samples, rows: int, size: int) -> None:
        """Capture a step for so many minibatches (rows) of a size, unless the captured one still holds.

        Where memory runs out, the microbatch halves.
        """
        whole, ranks = rollout.map(_whole), self._stepper.ranks
        stale = self._buffers is None or rows > len(self._buffers.reports) or self._key_of(whole, size) != self._key
        if any_of(stale, ranks.sums):  # the runs before a capture add up gradients, too, so that all ranks make them
            memory, gives_up = self._stepper.memory, self._stepper.memory.gives_up
            memory.gives_up = gives_up or ranks.size > 1  # one rank cannot repeat them alone
            try:
                memory.run("gradients", size * rollout.chunk, lambda: self._capture(whole, rows, size))
            finally:
                memory.gives_up = gives_up

    def run(self, minibatches: Minibatches, weights: Tensor) -> Tensor:
        """Take the steps of an epoch; return their reports, float32[M, columns], on the device.

        ``weights`` are those of the minibatches, on the device.
        """
        assert self._buffers is not None
        assert self._replay is not None
        self._buffers.fill(minibatches, weights)
        for _ in range(minibatches.steps):
            self._replay()
        return self._buffers.reports[: minibatches.steps].clone()

    def _capture(self, rollout: Samples, rows: int, size: int) -> None:
        self.drop()
        stepper, columns = self._stepper, len(report_columns(self._stepper.algorithm))
        buffers = GraphBuffers.empty(max(rows + rows // 16, _LEAST_ROWS), size, columns, stepper.device)
        scale = stepper.scaler.state_dict()  # skipped steps lower it
        try:
            replay = self._graphs.capture(lambda: buffers.step(stepper, rollout))
        except BaseException:
            stepper.use_precision(stepper.precision)  # a scaler that has not stopped half way
            raise
        finally:
            if scale:
                stepper.scaler.load_state_dict(scale)
        self._buffers, self._replay, self._key = buffers, replay, self._key_of(rollout, size)
        self.captures += 1

    def _key_of(self, rollout: Samples, size: int) -> tuple[Any, ...]:
        """Return all that a graph holds and that can change."""
        stepper = self._stepper
        addresses = [(t.data_ptr(), t.shape if t.numel() else t.shape[1:]) for t in rollout.tensors]
        key = size, stepper.precision, stepper.memory.microbatch, stepper.scaler, [*stepper.zeros], addresses
        return *key, stepper.ranks.size


def _whole(column: Tensor) -> Tensor:
    """Return all rows of the memory whose first rows are a column of a rollout."""
    if column.numel() == 0:
        return column
    rows = (column.untyped_storage().nbytes() // column.element_size() - column.storage_offset()) // column[0].numel()
    return column.as_strided((rows, *column.shape[1:]), column.stride())
