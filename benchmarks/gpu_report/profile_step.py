"""Kernels of an eager and of a captured step, and the products that may be slow for their shapes."""

import time
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from benchmarks.executions import DESK_WITH_FEATURES, Side, half_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.trace import Profile, Work, profiled
from longstride.hardware.types import CAPTURED, Execution, Precision
from longstride.learning.device_transfer import synchronise
from longstride.learning.step_costs.work import step_work
from longstride.learning.torch_settings import apply_global_settings

ROWS, SMALL_ROWS = 31_744, 256
"""Samples of a minibatch: half of 62,000, with the slots that a captured one has more."""

MATRIX_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear")

NO_KERNEL = "the profiler saw no kernel: CUPTI may lack the right to look at this card"

_REPEATS = 20


def measure(task: Task) -> Figures:
    """Return the profile of a step by precision and execution, and the times of products by their shapes."""
    rows = SMALL_ROWS if task.small else ROWS
    apply_global_settings(tf32=True, cudnn_benchmark=True)
    task.keep({"rows": rows, "products": products(rows, torch.device(task.device))})
    steps: list[Figures] = []
    gpu = task.device == "cuda"
    for precision in [half_of("cuda"), "fp32"] if gpu else ["fp32"]:
        for execution in ("eager", "graph") if gpu else ("eager",):
            steps.append(profile_of(precision, execution, rows, task.device))
            task.keep({"steps": steps})
    seen = any(step.get("kernels") for step in steps)
    return {"steps": steps, "problem": "" if seen else next((s["problem"] for s in steps if s["problem"]), NO_KERNEL)}


def profile_of(precision: Precision, execution: Execution, rows: int, device: str) -> Figures:
    """Return what a step of one minibatch runs, with the upload of its indices."""
    side, names = Side(precision, execution, rows, rows, device, DESK_WITH_FEATURES), (precision, execution)
    figures: Figures = dict(zip(("precision", "execution"), names, strict=True)) | {"problem": side.problem}
    if side.problem:
        return figures
    profiled(side.run_epoch, torch.device(device))  # the profiler's own start
    found = profiled(side.run_epoch, torch.device(device))
    return figures | {
        "kernels": len(found.work),
        "ms": found.ms,
        "copies": found.copies,
        "copied_bytes": found.copied_bytes,
        "launches": found.launches,
        "predicted_operations": predicted_operations(precision, execution),
        **parts_of(found, rows, execution in CAPTURED),
        "slowest": found.slowest(10),
        "in_order": [(work.name[:160], round(work.ms, 5), work.operation) for work in found.work],
        "note": side.note,
    }


def predicted_operations(precision: Precision, execution: Execution) -> int:
    """Return how many operations the roofline counts for a step."""
    work = step_work(DESK_WITH_FEATURES, precision != "fp32", 1, 1, execution)
    return work.launches + work.replayed - (execution in CAPTURED)


def parts_of(found: Profile, rows: int, captured: bool) -> Figures:
    """Return the milliseconds of the action features and of products with the 151 observations.

    They are None of a captured step, whose kernels are those of no operation.
    """
    if captured or not any(work.operation for work in found.work):
        return {"feature_ms": None, "observation_product_ms": None}
    features = sum(work.ms for work in found.work if of_features(work, rows))
    observations = sum(work.ms for work in found.work if of_observations(work))
    return {"feature_ms": features, "observation_product_ms": observations}


def of_features(work: Work, rows: int) -> bool:
    """Whether work computes with the action features, gathering them left out."""
    outputs, count = DESK_WITH_FEATURES.action_space.outputs, DESK_WITH_FEATURES.action_features
    shapes = ([rows, outputs, count], [rows * outputs, count], [count, rows * outputs])
    innermost = work.operation not in ("aten::matmul", "aten::mv", "aten::index_select")
    return innermost and any(list(shape) in shapes for shape in work.shapes)


def of_observations(work: Work) -> bool:
    """Whether work is a matrix product with the observations as one of its sides."""
    wide = any(DESK_WITH_FEATURES.observation_size in shape for shape in work.shapes)
    return wide and work.operation in MATRIX_PRODUCTS


def products(rows: int, device: torch.device) -> list[Figures]:
    """Return milliseconds, forward and backward, of the feature product in two ways and of products of 151 columns."""
    spec = DESK_WITH_FEATURES
    features = torch.randn(rows, spec.action_space.outputs, spec.action_features, device=device)
    weights = torch.randn(spec.action_features, device=device, requires_grad=True)
    found = [
        _timed("features @ weights, FP32", lambda: features @ weights, weights, device),
        _timed("(features * weights).sum(-1), FP32", lambda: (features * weights).sum(-1), weights, device),
    ]
    formats, widths = {"BF16": torch.bfloat16, "FP32": torch.float32}, (spec.observation_size, 152, 160)
    sizes = product(formats.items(), widths)
    return found + [_layer(*form, rows, columns, spec.critic_hidden[0], device) for form, columns in sizes]


def _layer(name: str, dtype: torch.dtype, rows: int, columns: int, units: int, device: torch.device) -> Figures:
    inputs = torch.randn(rows, columns, device=device, dtype=dtype)
    weights = torch.randn(columns, units, device=device, dtype=dtype, requires_grad=True)
    return _timed(f"{rows:,} x {columns} @ {columns} x {units}, {name}", lambda: inputs @ weights, weights, device)


def _timed(name: str, function: Callable[[], Tensor], weights: Tensor, device: torch.device) -> Figures:
    gradient = torch.ones_like(function())

    def both() -> None:
        torch.autograd.grad(function(), [weights], gradient)

    both()
    synchronise(device)
    begin = time.perf_counter()
    for _ in range(_REPEATS if device.type == "cuda" else 1):
        both()
    synchronise(device)
    repeats = _REPEATS if device.type == "cuda" else 1
    return {"product": name, "ms": 1e3 * (time.perf_counter() - begin) / repeats}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    steps = figures.get("steps", [])
    head = ("precision", "execution", "kernels", "counted by the roofline", "ms of kernels", "copies", "launches")
    made = [f"{figures['rows']:,} samples a step.", ""]
    made += table((*head, "feature product, ms", "products with 151 columns, ms"), [_step_row(step) for step in steps])
    made += ["", *table(("product, forward and backward", "ms"), _rows_of(figures["products"]))]
    for step in [step for step in steps if step.get("slowest")][:2]:
        made += ["", f"Longest kernels of the {step['execution']} step in {step['precision'].upper()}:", ""]
        made += table(("kernel", "times", "ms"), [(name[:100], n, f"{ms:.4f}") for name, n, ms in step["slowest"]])
    return made


def _step_row(step: Figures) -> tuple[object, ...]:
    names = step["precision"], step["execution"]
    if step["problem"]:
        return *names, step["problem"], *[None] * 6
    launches = ", ".join(f"{count} {name}" for name, count in step["launches"].items()) or None
    counted = step["kernels"], step["predicted_operations"], f"{step['ms']:.3f}", step["copies"], launches
    return *names, *counted, _ms(step["feature_ms"]), _ms(step["observation_product_ms"])


def _rows_of(found: list[Figures]) -> list[tuple[object, ...]]:
    return [(row["product"], f"{row['ms']:.4f}") for row in found]


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"
