"""Milliseconds a step by precision and execution, at a small and a large minibatch (``benchmarks/executions.py``)."""

from collections.abc import Sequence

import torch

from benchmarks.executions import measure_executions, precisions_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.detect import detect_machine
from longstride.hardware.types import COMPILED_BY_TORCH, Execution, Precision
from longstride.learning.torch_settings import apply_global_settings

SAMPLES, BATCHES, TURNS = 62_000, (1024, 32_768), 5
SMALL_SAMPLES, SMALL_BATCHES, SMALL_TURNS = 128, (64,), 1

_FIRST: tuple[Precision, ...] = ("bf16", "fp16", "fp32")
"""Order of the formats: what a run on the card uses comes first, should the time run out."""


def measure(task: Task, executions: Sequence[Execution]) -> Figures:
    """Return a row for each minibatch, precision and execution; each precision is measured apart, in turns.

    On the CPU eager steps in FP32 alone are measured.
    """
    gpu = detect_machine().gpu if task.device == "cuda" else None
    samples, batches, turns = (SMALL_SAMPLES, SMALL_BATCHES, SMALL_TURNS) if task.small else (SAMPLES, BATCHES, TURNS)
    formats = [each for each in _FIRST if each in precisions_of(task.device)] if gpu else ["fp32"]
    ways = executions if gpu else [each for each in executions if each == "eager"]
    apply_global_settings(tf32=True, cudnn_benchmark=True)
    rows: list[Figures] = []
    for precision in formats:
        for batch in batches:
            if COMPILED_BY_TORCH & {*ways}:
                torch._dynamo.reset()  # it gives up after eight kinds of the same function
            found = measure_executions(samples, batch, turns, gpu, task.device, ways, [precision])
            rows += [{"samples": samples, "batch": batch, **row} for row in found]
            task.keep({"rows": rows})
    problems = [row["problem"] for row in rows if row["problem"]]
    return {"rows": rows, "problem": problems[0] if len(problems) == len(rows) else ""}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    head = ("minibatch", "precision", "execution", "ms a step", "shortest, longest", "of eager", "prepared, s")
    return table((*head, "predicted ms"), [_row(row) for row in figures["rows"]])


def _row(row: Figures) -> tuple[object, ...]:
    names = f"{row['batch']:,}", row["precision"], row["execution"]
    predicted = f"{row['predicted']:.3f}" if row["predicted"] else None
    if row["problem"]:
        return *names, row["problem"], None, None, f"{row['preparation']:.1f}", predicted
    spread = f"{row['shortest']:.3f}, {row['longest']:.3f}"
    ratio = f"{row['ratio']:.3f}" if row["ratio"] else None
    return *names, f"{row['ms']:.3f}", spread, ratio, f"{row['preparation']:.1f}", predicted
