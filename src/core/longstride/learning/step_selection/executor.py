"""The ways in which the steps of an epoch run: operation by operation, compiled, captured."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from longstride.learning.algorithms.interface import Samples
from longstride.learning.device_transfer import upload
from longstride.learning.minibatches import Minibatches
from longstride.learning.steps.cuda_graph import CudaGraphs, GraphedEpochs, Graphs
from longstride.learning.steps.interface import Stepper
from longstride.learning.steps.torch_step import LossFunction, TorchStepper

Compiler = Callable[[LossFunction], LossFunction]


def compile_loss(loss: LossFunction) -> LossFunction:
    """Return the loss compiled by torch, with its gradient, in one piece."""
    compiled: LossFunction = torch.compile(loss, fullgraph=True)
    return compiled


class Executor:
    """Takes the steps of epochs in one of the ways of ``UPDATE_EXECUTION``; captures are CUDA's by default."""

    def __init__(
        self, stepper: Stepper, execution: Execution, graphs: Graphs | None = None, compiler: Compiler = compile_loss
    ) -> None:
        self.stepper, self.execution = stepper, execution
        self._given_graphs, self._compiler = graphs, compiler
        self._graph: GraphedEpochs | None = None
        self._loss: LossFunction | None = None
        self._compiled_for: tuple[Any, ...] = ()
        self._weights: tuple[np.ndarray, Tensor] | None = None

    @property
    def torch_stepper(self) -> TorchStepper:
        """The stepper, which takes its steps by torch."""
        assert isinstance(self.stepper, TorchStepper)
        return self.stepper

    def use(self, execution: Execution) -> None:
        """Switch to another way."""
        self.execution, self._compiled_for = execution, ()
        if execution in COMPILED_BY_TORCH and self._loss is None:
            self._loss = self._compiler(self.torch_stepper.loss)
        self.torch_stepper.use_loss(self._loss if execution in COMPILED_BY_TORCH else None)
        if self._graph is not None:
            self._graph.drop()

    def prepare(self, rollout: Samples, minibatches: Minibatches) -> None:
        """Compile or capture what :meth:`run` needs for such minibatches and is missing, without changing anything.

        Raises:
            Exception: of many kinds, where torch's compiler or CUDA's capture fails.
        """
        if self.execution in CAPTURED:
            self._captured.prepare(rollout, minibatches.steps, minibatches.size)
        elif self.execution in COMPILED_BY_TORCH:
            stepper, size = self.torch_stepper, minibatches.size
            shapes = stepper.precision, stepper.memory.microbatch, size
            if self._compiled_for != shapes:
                first = self._upload(minibatches.first(1))
                stepper.memory.run(
                    "gradients", size * rollout.chunk, lambda: stepper.gradients(rollout, *(part[0] for part in first))
                )
                self._compiled_for = shapes

    def run(self, rollout: Samples, minibatches: Minibatches) -> Tensor:
        """Take the steps of an epoch; return their reports, float32[M, columns], on the device."""
        if self.execution in CAPTURED:
            return self._captured.run(minibatches, self._weights_of(minibatches))
        stepper, slots = self.stepper, minibatches.indices.size
        rows = stepper.memory.run("upload", slots, lambda: self._upload(minibatches))
        used = [minibatches.size] * minibatches.steps
        if stepper.ranks.size > 1 and self.execution not in COMPILED_BY_TORCH:  # which would compile each length anew
            used = minibatches.lengths
        steps = zip(*rows, used, strict=True)
        return torch.stack([stepper.step(rollout, indices[:n], weights[:n]) for indices, weights, n in steps])

    def _upload(self, minibatches: Minibatches) -> tuple[Tensor, Tensor]:
        """Return indices and weights on the device; the host does not wait for pinned memory."""
        return upload([minibatches.indices], self.stepper.device), self._weights_of(minibatches)

    def _weights_of(self, minibatches: Minibatches) -> Tensor:
        """Return the weights on the device, made once for all epochs and updates of the same shape."""
        if self._weights is None or self._weights[0] is not minibatches.weights:
            self._weights = minibatches.weights, upload([minibatches.weights], self.stepper.device)
        return self._weights[1]

    @property
    def _captured(self) -> GraphedEpochs:
        if self._graph is None:
            self._graph = GraphedEpochs(self.torch_stepper, self._given_graphs or CudaGraphs(self.stepper.device))
        return self._graph
