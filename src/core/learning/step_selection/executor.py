"""The ways in which the steps of an epoch run: operation by operation, compiled, captured."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from core.learning.algorithms.ppo import Batch
from core.learning.device_transfer import upload
from core.learning.steps.cuda_graph import CudaGraphs, GraphedEpochs, Graphs
from core.learning.steps.interface import Stepper
from core.learning.steps.torch_step import TorchStepper

Compiler = Callable[[Callable[[Batch], Any]], Callable[[Batch], Any]]


def compile_loss(loss: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """Return the loss compiled by torch, with its gradient, in one piece."""
    compiled: Callable[[Batch], Any] = torch.compile(loss, fullgraph=True)
    return compiled


class Executor:
    """Takes the steps of epochs in one of the ways of ``UPDATE_EXECUTION``.

    Args:
        stepper: takes the steps; an :class:`TorchStepper` for what is captured or compiled by torch.
        execution: the first way.
        graphs: that capture; CUDA's by default.
        compiler: of the loss.

    Attributes:
        stepper: the same.
        execution: the way of the coming steps.
    """

    def __init__(
        self, stepper: Stepper, execution: Execution, graphs: Graphs | None = None, compiler: Compiler = compile_loss
    ) -> None:
        self.stepper, self.execution = stepper, execution
        self._given_graphs, self._compiler = graphs, compiler
        self._graph: GraphedEpochs | None = None
        self._loss: Callable[[Batch], Any] | None = None
        self._compiled_for: tuple[Any, ...] = ()

    def use(self, execution: Execution) -> None:
        """Switch to another way."""
        self.execution, self._compiled_for = execution, ()
        if execution in COMPILED_BY_TORCH and self._loss is None:
            self._loss = self._compiler(self._eager.loss)
        self._eager.use_loss(self._loss if execution in COMPILED_BY_TORCH else None)
        if self._graph is not None:
            self._graph.drop()

    def prepare(self, rollout: Batch, indices: np.ndarray, weights: np.ndarray) -> None:
        """Compile or capture what the steps of :meth:`run` need and is not there yet, without changing anything.

        Raises:
            Exception: of many kinds, where torch's compiler or CUDA's capture fails.
        """
        if self.execution in CAPTURED:
            self._captured.prepare(rollout, *indices.shape)
        elif self.execution in COMPILED_BY_TORCH:
            stepper = self._eager
            wanted = stepper.precision, stepper.memory.microbatch, indices.shape[1]
            if self._compiled_for != wanted:
                first = _upload(indices[0], weights[0], stepper.device)
                stepper.memory.run("gradients", indices.shape[1], lambda: stepper.gradients(rollout, *first))
                self._compiled_for = wanted

    def run(self, rollout: Batch, indices: np.ndarray, weights: np.ndarray) -> Tensor:
        """Take the steps of an epoch; return float32[M, 8], what they say, on the device.

        Args:
            rollout: all samples of the rollout on the device.
            indices: int64[M, S], the samples of each minibatch.
            weights: float32[M, S], which add up to 1 in each.
        """
        if self.execution in CAPTURED:
            return self._captured.run(indices, weights)
        stepper = self.stepper
        rows = stepper.memory.run("upload", indices.size, lambda: _upload(indices, weights, stepper.device))
        return torch.stack([stepper.step(rollout, i, w) for i, w in zip(*rows, strict=True)])

    @property
    def _eager(self) -> TorchStepper:
        assert isinstance(self.stepper, TorchStepper)
        return self.stepper

    @property
    def _captured(self) -> GraphedEpochs:
        if self._graph is None:
            self._graph = GraphedEpochs(self._eager, self._given_graphs or CudaGraphs(self.stepper.device))
        return self._graph


def _upload(indices: np.ndarray, weights: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    return upload([indices], device), upload([weights], device)
