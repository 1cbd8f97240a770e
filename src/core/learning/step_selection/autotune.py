"""Chooses how the steps of an update run, by trying it, and goes back to eager steps where that fails."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from core.learning.algorithms.ppo import Batch
from core.learning.device_transfer import synchronise
from core.learning.minibatches import pad, steady_size
from core.learning.oom_recovery import is_out_of_memory
from core.learning.step_selection.execution_trial import (
    TOLERANCES,
    ExecutionTrial,
    Snapshot,
    StepResult,
    difference,
    fastest,
    gradient_of,
    trial_lines,
)
from core.learning.step_selection.executor import Executor
from core.learning.steps.torch_step import TorchStepper

_CHECKED = 3
"""Minibatches on which an execution must do what eager steps do: more than one, as a graph may have kept the first."""

_TIMED, _REPEATS = 32, 3
"""Minibatches of a timing at most, and timings, of which the shortest counts."""


class SelectionLog(NamedTuple):
    """What became of executions.

    Attributes:
        sentences: what was chosen and given up.
        trials: each that was tried.
        seconds: that trying took.
    """

    sentences: list[str]
    trials: list[ExecutionTrial]
    seconds: float


class StepRunner:
    """Takes the steps of epochs.

    Captured and compiled steps are first tried, in the first update on its own minibatches: they must do what eager
    steps do, and of several ways the fastest is kept. Then everything is as it was before, and the update begins.

    Args:
        executor: that takes them.
        executions: one to use, or several to choose from.
        largest: most samples in a minibatch.
        clock: seconds.

    Attributes:
        executor: the same.
    """

    def __init__(
        self,
        executor: Executor,
        executions: Sequence[Execution],
        largest: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.executor, self._largest, self._clock = executor, largest, clock
        self._untried = [e for e in executions if e in CAPTURED | COMPILED_BY_TORCH]
        self._insists = len(executions) == 1
        self._notes = SelectionLog([], [], 0.0)

    @property
    def captures(self) -> bool:
        """Whether steps are captured, or may be: then the rollout should stay where it is."""
        return any(execution in CAPTURED for execution in (self.executor.execution, *self._untried))

    @property
    def chosen(self) -> Execution | None:
        """What the first update has chosen; None before it."""
        return None if self._untried else self.executor.execution

    def go_on_with(self, chosen: Execution | None) -> None:
        """Choose what the run chose before it was resumed, once that has been checked again, if there is a choice."""
        if chosen and not self._insists:
            self._untried, self._insists = [e for e in self._untried if e == chosen], True

    def take_notes(self) -> SelectionLog:
        """Return what happened since the last call."""
        taken, self._notes = self._notes, SelectionLog([], [], 0.0)
        return taken

    def epoch(self, rollout: Batch, indices: np.ndarray, weights: np.ndarray) -> Tensor:
        """Take the steps of an epoch; return float32[M, 8], what they say, on the device.

        Args:
            rollout: all samples of the rollout on the device.
            indices: int64[M, S], the samples of each minibatch.
            weights: float32[M, S], which add up to 1 in each.
        """
        if self._untried:
            self._choose(rollout, *self._padded(indices, weights))
        if self.executor.execution in CAPTURED | COMPILED_BY_TORCH:
            padded = self._padded(indices, weights)
            problem = self._problem(lambda: self.executor.prepare(rollout, *padded))
            if not problem:
                return self.executor.run(rollout, *padded)
            self._notes.sentences.append(f"Update execution: eager in place of {self.executor.execution}: {problem}.")
            self.executor.use("eager")
        return self.executor.run(rollout, indices, weights)

    def _padded(self, indices: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return pad(indices, weights, steady_size(indices.shape[1], self._largest))

    def _choose(self, rollout: Batch, indices: np.ndarray, weights: np.ndarray) -> None:
        """Try what is to be tried, put everything back, and use the fastest that does what eager steps do."""
        stepper = self.executor.stepper
        assert isinstance(stepper, TorchStepper)
        begin = self._clock()
        tried: list[Execution] = ["eager", *self._untried]
        self._untried = []
        devices = [stepper.device] if stepper.device.type == "cuda" else []
        first = torch.from_numpy(indices[0]).to(stepper.device), torch.from_numpy(weights[0]).to(stepper.device)
        with torch.random.fork_rng(devices):
            start = Snapshot(stepper, rollout, *first)
            trials = [self._try(execution, start, (rollout, indices, weights)) for execution in tried]
            start.put_back(tries=False)
        insisted = self._insists and not trials[-1].problem
        chosen = tried[-1] if insisted else fastest(trials).execution
        self.executor.use(chosen)
        self._notes = SelectionLog(trial_lines(trials, chosen), trials, self._clock() - begin)

    def _try(
        self, execution: Execution, start: Snapshot, epoch: tuple[Batch, np.ndarray, np.ndarray]
    ) -> ExecutionTrial:
        """Return what becomes of an execution; the state is not put back afterwards."""
        memory, begin, problem = self.executor.stepper.memory, self._clock(), ""
        if execution == "eager":
            self._outcome("eager", start, epoch)
        else:
            memory.gives_up = not self._insists  # of several, one is not worth smaller microbatches
            problem = self._problem(lambda: self._check(execution, start, epoch))
            memory.gives_up = False
        preparation = self._clock() - begin
        return ExecutionTrial(execution, None if problem else self._time(start, epoch), preparation, problem)

    def _check(self, execution: Execution, start: Snapshot, epoch: tuple[Batch, np.ndarray, np.ndarray]) -> str:
        """Return how an execution differs from eager steps; empty where it does not."""
        memory = self.executor.stepper.memory
        while True:
            microbatch = memory.microbatch
            expected, found = (self._outcome(each, start, epoch) for each in ("eager", execution))
            if memory.microbatch == microbatch:  # else memory ran out, and gradients were added up in another order
                break
        compiled = execution in COMPILED_BY_TORCH
        return difference(found, expected, TOLERANCES[self.executor.stepper.precision] if compiled else None)

    def _outcome(
        self, execution: Execution, start: Snapshot, epoch: tuple[Batch, np.ndarray, np.ndarray]
    ) -> StepResult:
        """Return what an execution does with some minibatches."""
        rollout, indices, weights = epoch
        stepper = self.executor.stepper
        assert isinstance(stepper, TorchStepper)
        if self.executor.execution != execution:
            self.executor.use(execution)
        start.put_back()
        self.executor.prepare(rollout, indices, weights)
        self.executor.run(rollout, indices[:1], weights[:1])
        gradient = gradient_of(stepper)
        start.put_back()
        reports = self.executor.run(rollout, indices[:_CHECKED], weights[:_CHECKED])
        return StepResult(gradient, reports, stepper.model.flat.clone())

    def _time(self, start: Snapshot, epoch: tuple[Batch, np.ndarray, np.ndarray]) -> float:
        """Return the seconds of a step."""
        rollout, indices, weights = epoch[0], epoch[1][:_TIMED], epoch[2][:_TIMED]
        times = []
        for _ in range(_REPEATS):
            start.put_back()
            synchronise(self.executor.stepper.device)
            begin = self._clock()
            self.executor.run(rollout, indices, weights)
            synchronise(self.executor.stepper.device)
            times.append((self._clock() - begin) / len(indices))
        return min(times)

    def _problem(self, function: Callable[[], str | None]) -> str:
        """Return what a function says or fails with; torch's compiler and CUDA's captures fail in many ways."""
        memory = self.executor.stepper.memory
        try:
            return function() or ""
        except Exception as error:
            if is_out_of_memory(error) and not memory.gives_up:
                raise
            problem = "memory ran out" if is_out_of_memory(error) else in_words(error)
        memory.free_caches()  # outside of the except block, whose traceback holds tensors
        return problem


def in_words(error: Exception) -> str:
    """Return an error as a phrase: its type and the first line of its message, without a full stop."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
