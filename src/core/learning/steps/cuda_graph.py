"""A step captured once and replayed for every minibatch: one launch in place of some hundred."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from core.learning.algorithms.ppo import Batch, LossTerms
from core.learning.steps.torch_step import TorchStepper

Replay = Callable[[], None]

_WARM_UPS = 3
"""Runs before a capture, as in torch's documentation: workspaces are made, kernels chosen and compiled."""

_LEAST_ROWS = 64
"""Minibatches that there is room for at least: a few more than expected must not need another capture."""


class Graphs(Protocol):
    """What captures: CUDA, or a fake of it."""

    def capture(self, function: Callable[[], None]) -> Replay:
        """Run a function some times, capture what it launches, and return what launches that again."""


class CudaGraphs:
    """Captures CUDA graphs.

    Args:
        device: whose work is captured.
    """

    def __init__(self, device: torch.device) -> None:
        # Of the warm-up and of the capture, so that workspaces of matrix products are not made in the graph's memory.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(self, function: Callable[[], None]) -> Replay:
        """Run a function some times, capture what it launches, and return what launches that again."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        # Only this thread must keep to what can be captured: others write checkpoints meanwhile.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            function()
        replay: Replay = graph.replay
        return replay


class GraphBuffers(NamedTuple):
    """Tensors at fixed addresses, through which a captured step and the host speak.

    Attributes:
        indices: int64[rows, S], the samples of each minibatch of an epoch.
        weights: float32[rows, S], their weights.
        reports: float32[rows, 8], what each step says.
        position: int64[1], the minibatch of the next step.
    """

    indices: Tensor
    weights: Tensor
    reports: Tensor
    position: Tensor

    @classmethod
    def empty(cls, rows: int, size: int, device: torch.device) -> "GraphBuffers":
        """Return slots in which all weights are NaN: a step of those is skipped and changes nothing."""
        return cls(
            torch.zeros(rows, size, dtype=torch.int64, device=device),
            torch.full((rows, size), torch.nan, device=device),
            torch.zeros(rows, len(LossTerms._fields) + 1, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
        )

    def fill(self, indices: np.ndarray, weights: np.ndarray) -> None:
        """Write the minibatches of an epoch and go to the first."""
        self.indices[: len(indices)].copy_(torch.from_numpy(indices))
        self.weights[: len(weights)].copy_(torch.from_numpy(weights))
        self.position.zero_()

    def step(self, stepper: TorchStepper, rollout: Batch) -> None:
        """Take the step of this minibatch and go to the next; what is captured."""
        indices, weights = (slot.index_select(0, self.position)[0] for slot in (self.indices, self.weights))
        report = stepper.step_as_it_is(rollout, indices, weights)
        self.reports.index_copy_(0, self.position, report.unsqueeze(0))
        self.position.add_(1).remainder_(len(self.reports))


class GraphedEpochs:
    """Takes the steps of an epoch by replaying one that was captured.

    It is captured anew where anything that the graph holds has changed: addresses and sizes of the rollout, the state
    of the optimiser, precision, microbatch. Learning rates and coefficients lie in tensors that the graph reads.

    Args:
        stepper: whose steps are taken; where its memory runs out the graph is dropped.
        graphs: that capture.

    Attributes:
        captures: so far.
    """

    def __init__(self, stepper: TorchStepper, graphs: Graphs) -> None:
        self._stepper, self._graphs, self.captures = stepper, graphs, 0
        self._slots: GraphBuffers | None = None
        self._replay: Replay | None = None
        self._key: tuple[Any, ...] = ()
        stepper.memory.release = self.drop

    def drop(self) -> None:
        """Let go of the graph and its memory, in which the gradients of the last step lie, too."""
        self._slots = self._replay = None
        self._stepper.model.zero_grad(set_to_none=True)

    def prepare(self, rollout: Batch, rows: int, size: int) -> None:
        """Capture a step, unless the captured one still holds; where memory runs out, with smaller microbatches.

        Args:
            rollout: all samples.
            rows: minibatches of an epoch.
            size: samples of a minibatch.
        """
        whole = Batch(*map(_whole, rollout))
        if self._replay is None or rows > len(self._some_slots.reports) or self._key_of(whole, size) != self._key:
            self._stepper.memory.run("gradients", size, lambda: self._capture(whole, rows, size))

    def run(self, indices: np.ndarray, weights: np.ndarray) -> Tensor:
        """Take the steps of an epoch; return float32[M, 8], what they say, on the device.

        Args:
            indices: int64[M, S].
            weights: float32[M, S].
        """
        slots, replay = self._some_slots, self._replay
        assert replay is not None
        slots.fill(indices, weights)
        for _ in range(len(indices)):
            replay()
        return slots.reports[: len(indices)].clone()

    @property
    def _some_slots(self) -> GraphBuffers:
        assert self._slots is not None
        return self._slots

    def _capture(self, rollout: Batch, rows: int, size: int) -> None:
        self.drop()
        stepper = self._stepper
        slots = GraphBuffers.empty(max(rows + rows // 16, _LEAST_ROWS), size, stepper.device)
        scale = stepper.scaler.state_dict()  # which skipped steps lower
        try:
            replay = self._graphs.capture(lambda: slots.step(stepper, rollout))
        except BaseException:
            stepper.use_precision(stepper.precision)  # a scaler that has not stopped half way
            raise
        finally:
            if scale:
                stepper.scaler.load_state_dict(scale)
        self._slots, self._replay, self._key = slots, replay, self._key_of(rollout, size)
        self.captures += 1

    def _key_of(self, rollout: Batch, size: int) -> tuple[Any, ...]:
        """Return all that a graph holds and that can change."""
        stepper = self._stepper
        tensors = *rollout, *stepper.optimizer_tensors().values()
        addresses = [(t.data_ptr(), t.shape if t.numel() else t.shape[1:]) for t in tensors]
        clips_values = stepper.settings.value_clip_range > 0.0
        return size, stepper.precision, stepper.memory.microbatch, stepper.scaler, clips_values, addresses


def _whole(column: Tensor) -> Tensor:
    """Return all rows of the memory that a column of a rollout is the front of."""
    if column.numel() == 0:
        return column
    rows = (column.untyped_storage().nbytes() // column.element_size() - column.storage_offset()) // column[0].numel()
    return column.as_strided((rows, *column.shape[1:]), column.stride())
