"""Bytes that a step holds at its peak, as torch's allocator counts them, beside the prediction of a plan."""

import gc

import torch

from benchmarks.executions import DESK_WITH_FEATURES, Side, precisions_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.planning.update_memory import workspace_bytes
from longstride.hardware.types import Execution, Precision
from longstride.learning.step_costs.update_memory import estimate_memory
from longstride.text import format_bytes

SAMPLES, BATCHES, SMALL_BATCHES = 65_536, (1024, 65_536), (64,)


def measure(task: Task) -> Figures:
    """Return the bytes by minibatch, precision and execution; on the CPU predictions alone."""
    gpu, rows = task.device == "cuda", []
    samples, batches = (64, SMALL_BATCHES) if task.small else (SAMPLES, BATCHES)
    for batch in batches:
        for precision in precisions_of(task.device) if gpu else ["fp32"]:
            for execution in ("eager", "graph") if gpu else ("eager",):
                rows.append(row_of(precision, execution, samples, batch, task.device))
                task.keep({"rows": rows})
    return {"rows": rows, "problem": next((row["problem"] for row in rows if row["problem"]), "")}


def row_of(precision: Precision, execution: Execution, samples: int, batch: int, device: str) -> Figures:
    """Return the bytes of steps, with the model, the rollout and what a capture holds."""
    before = _reset(device)
    side = Side(precision, execution, samples, batch, device, DESK_WITH_FEATURES)
    if not side.problem:
        side.run_epoch()
    measured = _peaks(device, before)
    return {
        "precision": precision,
        "execution": execution,
        "batch": batch,
        "problem": side.problem,
        "predicted": predicted(precision, samples, batch, device),
        **measured,
    }


def predicted(precision: Precision, samples: int, batch: int, device: str) -> int:
    """Return the bytes that a plan predicts for steps, without the states, values and transfers of an update."""
    workspace = workspace_bytes(torch.cuda.get_device_capability()) if device == "cuda" else 0
    estimate = estimate_memory(
        *(DESK_WITH_FEATURES, precision != "fp32", samples, batch, batch),
        pieces=1,
        workspace=workspace,
        on_card=device == "cuda",
    )
    held = estimate.held - estimate.snapshots - estimate.crossing
    return held + estimate.rollout + estimate.indices + estimate.activations


def _reset(device: str) -> int:
    """Free what earlier steps left; return the bytes that remain."""
    gc.collect()
    if device != "cuda":
        return 0
    torch.cuda.synchronize()
    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):  # each row is to count its own
        clear()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peaks(device: str, before: int) -> dict[str, int | None]:
    """Return the most bytes of tensors since the reset, and what the allocator had taken for them."""
    if device != "cuda":
        return {"allocated": None, "reserved": None}
    torch.cuda.synchronize()
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {"allocated": peak - before, "reserved": reserved}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    head = (
        "minibatch",
        "precision",
        "execution",
        "predicted",
        "measured",
        "measured / predicted",
        "taken from the card",
    )
    return table(head, [_row(row) for row in figures["rows"]])


def _row(row: Figures) -> tuple[object, ...]:
    names = f"{row['batch']:,}", row["precision"], row["execution"], format_bytes(row["predicted"])
    if row["problem"] or row["allocated"] is None:
        return *names, row["problem"] or None, None, None
    ratio = f"{row['allocated'] / row['predicted']:.2f}"
    return *names, format_bytes(row["allocated"]), ratio, format_bytes(row["reserved"])
