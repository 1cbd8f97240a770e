"""A capture that fails half way: the run goes on with eager steps, on its own stream, and can capture again."""

from collections.abc import Callable

import torch

from benchmarks.executions import DESK_WITH_FEATURES, Side
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.learning.device_transfer import synchronise
from longstride.learning.step_selection.autotune import StepRunner
from longstride.learning.step_selection.executor import Executor
from longstride.learning.steps.cuda_graph import CudaGraphs, Replay

SAMPLES, BATCH = 16_384, 1024
SMALL_SAMPLES, SMALL_BATCH = 128, 64


class FailingGraphs:
    """Captures that fail: the host reads a number of the device, which no capture allows; on the CPU it says so."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._number = device, torch.ones(1, device=device)
        self._graphs = CudaGraphs(device) if device.type == "cuda" else None

    def capture(self, function: Callable[[], None]) -> Replay:
        """Run a function and fail while it is captured."""
        if self._graphs is None:
            function()
            raise RuntimeError("operation not permitted when stream is capturing")
        return self._graphs.capture(lambda: (function(), self._read())[0])

    def _read(self) -> None:
        if torch.cuda.is_current_stream_capturing():
            self._number.item()


def measure(task: Task) -> Figures:
    """Fail, take an epoch of eager steps, and capture again where there is a GPU; return what was found."""
    device = torch.device(task.device)
    samples, batch = (SMALL_SAMPLES, SMALL_BATCH) if task.small else (SAMPLES, BATCH)
    side = Side("fp32", "eager", samples, batch, task.device, DESK_WITH_FEATURES)
    if side.problem:
        return {"problem": side.problem}
    stream = _stream(device)
    executor = Executor(side.executor.stepper, "eager", FailingGraphs(device))
    runner = StepRunner(executor, ("graph",), batch)
    reserved = _reserved(device)
    reports = runner.epoch(side.rollout, side.batches)
    synchronise(device)
    sentences, execution = runner.take_log().sentences, executor.execution
    task.keep({"sentences": sentences, "execution_after": execution})
    checks = {
        "the failure was noticed": any("is not used" in sentence for sentence in sentences),
        "steps go on as eager ones": execution == "eager",
        "their figures are finite": bool(torch.isfinite(reports).all()),
        "the stream is the one before": _stream(device) == stream,
    }
    task.keep({"checks": checks})
    if device.type == "cuda":
        checks["a second capture succeeds"] = _captures_again(side, batch)
    failed = [name for name, right in checks.items() if not right]
    more = None if reserved is None else (_reserved(device) or 0) - reserved
    return {"checks": checks, "reserved_more": more, "problem": f"not so: {', '.join(failed)}" if failed else ""}


def _captures_again(side: Side, batch: int) -> bool:
    executor = Executor(side.executor.stepper, "eager")
    StepRunner(executor, ("graph",), batch).epoch(side.rollout, side.batches)
    synchronise(side.executor.stepper.device)
    return executor.execution == "graph"


def _stream(device: torch.device) -> int | None:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None


def _reserved(device: torch.device) -> int | None:
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else None


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    rows = [(name, "yes" if right else "**no**") for name, right in figures.get("checks", {}).items()]
    said = [f"* {sentence}" for sentence in figures.get("sentences", [])]
    return [*table(("after the failure", ""), rows), "", *said]
