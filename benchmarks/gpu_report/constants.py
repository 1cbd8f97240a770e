"""Seconds of a launch and of an operation in a replayed graph, beside what the roofline assumes."""

import time
from collections.abc import Callable

import torch

from benchmarks.executions import DESK, Side, half_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.planning.roofline import LAUNCH_SECONDS, REPLAY_SECONDS
from longstride.learning.device_transfer import synchronise
from longstride.learning.step_costs.work import step_launches
from longstride.learning.torch_settings import apply_global_settings

BATCH, STEPS, TURNS = 64, 64, 5
"""A minibatch so small that only launches count."""

CHAIN = 1000
"""Operations of a chain of the smallest operations there are."""


def measure(task: Task) -> Figures:
    """Return the seconds of an operation in steps of a tiny minibatch and in a chain, eager and captured."""
    apply_global_settings(tf32=True, cudnn_benchmark=True)
    device, steps = torch.device(task.device), 2 if task.small else STEPS
    rows: list[Figures] = []
    for precision in ["fp32", half_of("cuda")] if task.device == "cuda" else ["fp32"]:
        for execution in ("eager", "graph") if task.device == "cuda" else ("eager",):
            side = Side(precision, execution, BATCH * steps, BATCH, task.device)
            rows.append(_row(f"step, {precision.upper()}", execution, side, step_launches(DESK, precision != "fp32")))
            task.keep({"rows": rows})
    return {"rows": rows + chains(device), "problem": next((row["problem"] for row in rows if row["problem"]), "")}


def _row(what: str, execution: str, side: Side, operations: int) -> Figures:
    figures = {"what": what, "execution": execution, "problem": side.problem, "operations": operations}
    if side.problem:
        return {**figures, "seconds": None}
    shortest = min(_seconds(side.run_epoch) for _ in range(TURNS))
    return {**figures, "seconds": shortest / side.batches.steps / operations}


def chains(device: torch.device) -> list[Figures]:
    """Return rows of a chain of additions to one number, eager and, on a GPU, captured."""
    number = torch.zeros(1, device=device)

    def chain() -> None:
        for _ in range(CHAIN):
            number.add_(1.0)

    ways: dict[str, Callable[[], None]] = {"eager": chain}
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        chain()
        synchronise(device)
        with torch.cuda.graph(graph):
            chain()
        ways["graph"] = graph.replay
    rows = []
    for execution, run in ways.items():
        run()
        seconds = min(_seconds(lambda run=run: (run(), synchronise(device))) for _ in range(TURNS))
        rows.append({"what": "additions to one number", "execution": execution, "problem": "", "operations": CHAIN})
        rows[-1]["seconds"] = seconds / CHAIN
    return rows


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown, with the lines of the roofline that they replace."""
    rows = [
        (
            row["what"],
            row["execution"],
            row["operations"],
            row["problem"] or f"{1e6 * row['seconds']:.2f}",
            f"{1e6 * (LAUNCH_SECONDS if row['execution'] == 'eager' else REPLAY_SECONDS):.2f}",
        )
        for row in figures["rows"]
    ]
    made = table(("what", "execution", "operations", "µs an operation", "assumed"), rows)
    replaced = [line for line in map(_replacement, ("eager", "graph"), [figures] * 2) if line]
    return [*made, "", "In `longstride/hardware/planning/roofline.py`:", "", *replaced] if replaced else made


def _replacement(execution: str, figures: Figures) -> str:
    """Return the assignment that a measured step suggests; empty where there is none."""
    name = "LAUNCH_SECONDS" if execution == "eager" else "REPLAY_SECONDS"
    steps = [row for row in figures["rows"] if row["what"].startswith("step") and row["execution"] == execution]
    measured = [row["seconds"] for row in steps if row["seconds"]]
    return f"    {name} = {max(measured):.2g}" if measured else ""
