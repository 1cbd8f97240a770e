"""Chooses how the steps of an update run, by trying it, and returns to eager steps where that fails."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from core.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from core.learning.algorithms.interface import Samples
from core.learning.device_transfer import synchronise
from core.learning.minibatches import Minibatches, steady_size
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

_CHECKED = 3
"""Minibatches on which an execution must do what eager steps do: more than one, as a graph may have kept the first."""

_TIMED, _REPEATS = 32, 3
"""Most minibatches of a timing, and number of timings, of which the shortest counts."""


class SelectionLog(NamedTuple):
    """Sentences about what was chosen and given up, the trials behind it, and the seconds that they took."""

    sentences: list[str]
    trials: list[ExecutionTrial]
    seconds: float


class StepRunner:
    """Takes the steps of epochs.

    Captured and compiled steps are first tried, in the first update on its own minibatches: they must do what eager
    steps do, and of several ways the fastest is kept. Then the state before the trials is restored.

    Args:
        executor: executor of the steps.
        executions: one execution to use, or several to choose from.
        largest: most samples in a minibatch.
        clock: function that returns seconds.

    Attributes:
        executor: the same executor.
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
        self._log = SelectionLog([], [], 0.0)

    @property
    def captures(self) -> bool:
        """Whether steps are captured, or may be: then the rollout should stay in its place."""
        return any(execution in CAPTURED for execution in (self.executor.execution, *self._untried))

    @property
    def chosen(self) -> Execution | None:
        """The choice of the first update; None before it."""
        return None if self._untried else self.executor.execution

    def resume_with(self, chosen: Execution | None) -> None:
        """Choose what a resumed run had chosen, once that has been checked again, if there is a choice."""
        if chosen and not self._insists:
            self._untried, self._insists = [e for e in self._untried if e == chosen], True

    def take_log(self) -> SelectionLog:
        """Return what happened since the last call."""
        taken, self._log = self._log, SelectionLog([], [], 0.0)
        return taken

    def epoch(self, rollout: Samples, minibatches: Minibatches) -> Tensor:
        """Take the steps of an epoch; return their reports, float32[M, columns], on the device."""
        if self._untried:
            self._choose(rollout, self._padded(minibatches))
        if self.executor.execution in CAPTURED | COMPILED_BY_TORCH:
            padded = self._padded(minibatches)
            problem = self._problem(lambda: self.executor.prepare(rollout, padded))
            if not problem:
                return self.executor.run(rollout, padded)
            self._log.sentences.append(f"Update execution: eager in place of {self.executor.execution}: {problem}.")
            self.executor.use("eager")
        return self.executor.run(rollout, minibatches)

    def _padded(self, minibatches: Minibatches) -> Minibatches:
        return minibatches.padded(steady_size(minibatches.size, self._largest))

    def _choose(self, rollout: Samples, minibatches: Minibatches) -> None:
        """Try all executions, restore the state, and use the fastest that does what eager steps do."""
        begin, stepper = self._clock(), self.executor.torch_stepper
        tried: list[Execution] = ["eager", *self._untried]
        self._untried = []
        devices = [stepper.device] if stepper.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            start = Snapshot(stepper, rollout, minibatches)
            trials = [self._try(execution, start) for execution in tried]
            start.put_back(tries=False)
        insisted = self._insists and not trials[-1].problem
        chosen = tried[-1] if insisted else fastest(trials).execution
        self.executor.use(chosen)
        self._log = SelectionLog(trial_lines(trials, chosen), trials, self._clock() - begin)

    def _try(self, execution: Execution, start: Snapshot) -> ExecutionTrial:
        """Return the trial of an execution; the state is not restored afterwards."""
        memory, begin, problem = self.executor.stepper.memory, self._clock(), ""
        if execution == "eager":
            self._result("eager", start)
        else:
            memory.gives_up = not self._insists  # with a choice, none justifies smaller microbatches
            problem = self._problem(lambda: self._check(execution, start))
            memory.gives_up = False
        preparation = self._clock() - begin
        return ExecutionTrial(execution, None if problem else self._time(start), preparation, problem)

    def _check(self, execution: Execution, start: Snapshot) -> str:
        """Return how an execution differs from eager steps; empty where it does not."""
        memory, precision = self.executor.stepper.memory, self.executor.stepper.precision
        while True:
            microbatch = memory.microbatch
            expected, result = self._result("eager", start), self._result(execution, start)
            if memory.microbatch == microbatch:  # else memory ran out, and gradients were added up in another order
                return difference(result, expected, TOLERANCES[precision] if execution in COMPILED_BY_TORCH else None)

    def _result(self, execution: Execution, start: Snapshot) -> StepResult:
        """Return what an execution does with some minibatches."""
        stepper = self.executor.torch_stepper
        if self.executor.execution != execution:
            self.executor.use(execution)
        start.put_back()
        self.executor.prepare(start.rollout, start.minibatches)
        self.executor.run(start.rollout, start.minibatches.first(1))
        gradient = gradient_of(stepper)
        start.put_back()
        reports = self.executor.run(start.rollout, start.minibatches.first(_CHECKED))
        return StepResult(gradient, reports, stepper.model.flat.clone())

    def _time(self, start: Snapshot) -> float:
        """Return the seconds of a step."""
        minibatches, device, times = start.minibatches.first(_TIMED), self.executor.stepper.device, []
        for _ in range(_REPEATS):
            start.put_back()
            synchronise(device)
            begin = self._clock()
            self.executor.run(start.rollout, minibatches)
            synchronise(device)
            times.append((self._clock() - begin) / minibatches.steps)
        return min(times)

    def _problem(self, function: Callable[[], str | None]) -> str:
        """Return the problem that a function returns or fails with; torch's compiler and captures fail in many ways."""
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
