"""Chooses how the steps of an update run, by trying it, and returns to eager steps where that fails."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.errors import UserError
from longstride.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from longstride.learning.algorithms.interface import Samples
from longstride.learning.device_transfer import synchronise
from longstride.learning.distributed.ranks import ALONE
from longstride.learning.minibatches import Minibatches, steady_size
from longstride.learning.oom_recovery import is_out_of_memory
from longstride.learning.step_selection.comparison import TOLERANCES, StepResult, difference, judge_capture, other_bits
from longstride.learning.step_selection.executor import Executor
from longstride.learning.steps.interface import restore, snapshot
from longstride.learning.steps.torch_step import TorchStepper

_SCALE = 256.0
"""Largest scale of FP16's gradients in trials."""

_CHECKED = 3
"""Minibatches on which an execution must do what eager steps do: more than one, as a graph may have kept the first."""

_COMPILE_SECONDS, _MOST_SAVED = 60.0, 0.6
"""Seconds that torch's compiler takes for a loss and its gradient, and the share of a step that it saves at most: both
assumptions. On an H200 it took 11 s, and the loan desk's captured steps were faster without it (2026-11-27)."""

_TIMED, _REPEATS = 32, 3
"""Most minibatches of a timing, and number of timings, of which the shortest counts."""


class ExecutionTrial(NamedTuple):
    """The trial of an execution: seconds of a step, None where there is a problem, and until the first steps were done.

    The problem, a phrase, is why it is not used; empty where it could be. The note, a phrase, says how it differs from
    eager steps although it may be used.
    """

    execution: Execution
    seconds: float | None
    preparation_seconds: float
    problem: str
    note: str = ""


def fastest(trials: Sequence[ExecutionTrial]) -> ExecutionTrial:
    """Return the fastest trial without a problem, of equal ones the first; eager steps never have a problem."""
    return min((t for t in trials if not t.problem and t.seconds is not None), key=lambda t: t.seconds or 0.0)


def agreed(trials: Sequence[ExecutionTrial]) -> ExecutionTrial:
    """Return the trial of an execution by all ranks: the slowest counts, and a problem of one is a problem of all."""
    problem = next((trial.problem for trial in trials if trial.problem), "")
    seconds = [trial.seconds for trial in trials if trial.seconds is not None]
    preparation = max(trial.preparation_seconds for trial in trials)
    note = next((trial.note for trial in trials if trial.note and not problem), "")
    return ExecutionTrial(trials[0].execution, None if problem else max(seconds), preparation, problem, note)


def trial_lines(trials: Sequence[ExecutionTrial], chosen: Execution) -> list[str]:
    """Return the lines about trials: what runs and how fast each was, and why any was not used."""
    if not trials:
        return []
    times = [f"{t.execution} {1e3 * t.seconds:.2f}" for t in trials if t.seconds is not None]
    lines = [f"Update execution: {chosen}; ms a step: {', '.join(times)}."]
    lines += [f"Update execution: {t.execution} is not used: {t.problem}." for t in trials if t.problem]
    return lines + [f"Update execution: {t.execution}: {t.note}." for t in trials if t.note]


class Snapshot:
    """The state before trials on an epoch's minibatches, which steps change and :meth:`put_back` restores."""

    def __init__(self, stepper: TorchStepper, rollout: Samples, minibatches: Minibatches) -> None:
        self._stepper, self.rollout, self.minibatches = stepper, rollout, minibatches
        self._scale: dict[str, Any] = stepper.scaler.state_dict()
        # FP16's scale may still be too large for any step to be taken, and then there would be little to compare.
        self._small_scale = {**self._scale, "scale": min(self._scale["scale"], _SCALE)} if self._scale else {}
        self._state = snapshot(stepper)

    def put_back(self, tries: bool = True) -> None:
        """Restore the state in place; for another trial with a small scale of FP16."""
        restore(self._stepper, self._state)
        if self._scale:
            self._stepper.scaler.load_state_dict(self._small_scale if tries else self._scale)


class SelectionLog(NamedTuple):
    """Sentences about what was chosen and given up, the trials behind it, and the seconds that they took."""

    sentences: list[str]
    trials: list[ExecutionTrial]
    seconds: float


class StepRunner:
    """Takes the steps of epochs, by one execution or the fastest of several.

    Captured and compiled steps are first tried, in the first update on its own minibatches: they must do what eager
    steps do, and of several ways the fastest is kept. Then the state before the trials is restored. A way that torch
    compiles is not even tried where the run is too short for it. ``largest`` is the most samples in a minibatch,
    ``run_steps`` the optimiser steps of the whole run, 0 where nobody knows; the clock returns seconds.
    """

    def __init__(
        self,
        executor: Executor,
        executions: Sequence[Execution],
        largest: int,
        clock: Callable[[], float] = time.perf_counter,
        run_steps: int = 0,
    ) -> None:
        self.executor, self._largest, self._clock, self._run_steps = executor, largest, clock, run_steps
        tried = [e for e in executions if e in CAPTURED | COMPILED_BY_TORCH]
        self._untried = sorted(tried, key=lambda execution: execution in COMPILED_BY_TORCH)  # those at last
        self._insists = len(executions) == 1
        self._log = SelectionLog([], [], 0.0)
        self._slots = 0

    @property
    def captures(self) -> bool:
        """Whether steps are captured, or may be: then the rollout should stay in its place."""
        return any(execution in CAPTURED for execution in (self.executor.execution, *self._untried))

    @property
    def chosen(self) -> Execution | None:
        """The choice of the first update; None before it."""
        return None if self._untried else self.executor.execution

    def resume_with(self, chosen: Execution | None) -> None:
        """Choose what a resumed run had chosen, once that has been checked again, if there is a choice.

        A run of an earlier version may name it otherwise; then the choice is made anew.
        """
        if chosen in ("eager", *self._untried) and not self._insists:
            self._untried, self._insists = [e for e in self._untried if e == chosen], True

    def note(self, sentence: str) -> None:
        """Let the next log begin with a sentence, if there is one."""
        self._log.sentences.extend([sentence] if sentence else [])

    def take_log(self) -> SelectionLog:
        """Return what happened since the last call."""
        taken, self._log = self._log, SelectionLog([], [], 0.0)
        return taken

    def slots(self, size: int) -> int:
        """Return how many slots minibatches of a size should have: more where another shape would cost a capture.

        The slots of the updates before are kept where at least three quarters of them are used.
        """
        if not self._untried and self.executor.execution not in CAPTURED | COMPILED_BY_TORCH:
            return size
        if not 0.75 * self._slots <= size <= self._slots:
            self._slots = steady_size(size, self._largest)
        return self._slots

    def epoch(self, rollout: Samples, minibatches: Minibatches) -> Tensor:
        """Take the steps of an epoch; return their reports, float32[M, columns], on the device."""
        if self._untried:
            self._choose(rollout, minibatches)
        if self.executor.execution in CAPTURED | COMPILED_BY_TORCH:
            problem = self._problem(lambda: self.executor.prepare(rollout, minibatches))
            if problem and self.executor.stepper.ranks.size > 1:
                raise UserError(
                    f"The update's steps cannot be taken as {self.executor.execution}: {problem}; several processes "
                    "cannot change that on their way. Set UPDATE_EXECUTION = 'eager'."
                )
            if not problem:
                return self.executor.run(rollout, minibatches)
            self._log.sentences.append(f"Update execution: eager instead of {self.executor.execution}: {problem}.")
            self.executor.use("eager")
        return self.executor.run(rollout, minibatches.without_padding())

    def _choose(self, rollout: Samples, minibatches: Minibatches) -> None:
        """Try all executions, restore the state, and use the fastest that does what eager steps do."""
        begin, stepper = self._clock(), self.executor.torch_stepper
        ranks, stepper.ranks = stepper.ranks, ALONE  # a rank whose trial fails must not leave the others waiting
        tried: list[Execution] = ["eager", *self._untried]
        self._untried = []
        devices = [stepper.device] if stepper.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            start = Snapshot(stepper, rollout, minibatches)
            trials, lines = list[ExecutionTrial](), list[str]()
            for execution in tried:
                line = "" if self._insists else self._too_short_for(execution, trials)
                if line:
                    lines.append(line)
                else:
                    trials.append(agreed(ranks.gather(self._try(execution, start))))
            start.put_back(tries=False)
        stepper.ranks = ranks
        insisted = self._insists and not trials[-1].problem
        chosen = tried[-1] if insisted else fastest(trials).execution
        self.executor.use(chosen)
        self._log = SelectionLog([*trial_lines(trials, chosen), *lines], trials, self._clock() - begin)

    def _too_short_for(self, execution: Execution, trials: Sequence[ExecutionTrial]) -> str:
        """Return a sentence if a run has too few steps for compiling to pay, empty otherwise."""
        if execution not in COMPILED_BY_TORCH or self._run_steps == 0:
            return ""
        saved = self._run_steps * _MOST_SAVED * (fastest(trials).seconds or 0.0)
        if saved > _COMPILE_SECONDS:
            return ""
        return (
            f"Update execution: {execution} is not tried: it would save at most about {saved:.0f} s of the run's "
            f"{self._run_steps:,} steps, and compiling takes about {_COMPILE_SECONDS:.0f} s (both assumed)."
        )

    def _try(self, execution: Execution, start: Snapshot) -> ExecutionTrial:
        """Return the trial of an execution; the state is not restored afterwards."""
        memory, begin, problem, notes = self.executor.stepper.memory, self._clock(), "", [""]
        if execution == "eager":
            self._result("eager", start)
        else:
            memory.gives_up = not self._insists  # with a choice, none justifies smaller microbatches
            problem = self._problem(lambda: self._check(execution, start, notes))
            memory.gives_up = False
        preparation = self._clock() - begin
        seconds = None if problem else self._time(start)
        return ExecutionTrial(execution, seconds, preparation, problem, "" if problem else notes[-1])

    def _check(self, execution: Execution, start: Snapshot, notes: list[str]) -> str:
        """Return how an execution differs from eager steps too much, else "" and a note of how it differs at all."""
        memory, tolerance = self.executor.stepper.memory, TOLERANCES[self.executor.stepper.precision]
        while True:
            microbatch = memory.microbatch
            expected, result = self._result("eager", start), self._result(execution, start)
            if execution in COMPILED_BY_TORCH:
                problem = difference(result, expected, tolerance)
            elif problem := other_bits(result, expected):
                again = self._result("eager", start)
                result = self._result(execution, start)  # what is judged is what will run
                problem, note = judge_capture(result, expected, again, tolerance)
                notes.append(note)
            if memory.microbatch == microbatch:  # else memory ran out, and gradients were added up in another order
                return problem

    def _result(self, execution: Execution, start: Snapshot) -> StepResult:
        """Return what an execution does with some minibatches."""
        stepper = self.executor.torch_stepper
        if self.executor.execution != execution:
            self.executor.use(execution)
        start.put_back()
        self.executor.prepare(start.rollout, start.minibatches)
        self.executor.run(start.rollout, start.minibatches.first(1))
        gradient = stepper.optimizer.gradient
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
        except UserError:  # another rank has ended
            raise
        except Exception as error:
            if is_out_of_memory(error) and not memory.gives_up:
                raise
            first_line = [line.rstrip(".") for line in str(error).strip().splitlines()[:1]]
            in_words = ": ".join([type(error).__name__, *first_line])
            problem = "memory ran out" if is_out_of_memory(error) else in_words
        # Outside of the except block, whose traceback holds tensors. A failed capture may have left an error in CUDA;
        # the next step would show it, if it mattered.
        with suppress(RuntimeError):
            memory.free_caches()
        return problem
