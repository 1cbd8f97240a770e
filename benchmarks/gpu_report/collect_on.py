"""Steps a second of the compiled loop beside the collector with the policy on the card (``collect_on.py``).

Episodes have the 200 steps of Gymnasium's Pendulum: Python begins and ends each in about 100 µs, one after another, so
shorter ones would measure that. The loop of one thread shows what the others add.
"""

import argparse

import torch

from benchmarks.collect_on import measure as rates_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.detect import detect_machine

WIDTHS, STREAMS, STEPS, REPEATS = (128, 1024), (1024, 2048), 200, 2
SMALL = (8,), (4,), 8, 1


def measure(task: Task) -> Figures:
    """Return a row for each width of the policy and number of streams."""
    widths, streams, steps, repeats = SMALL if task.small else (WIDTHS, STREAMS, STEPS, REPEATS)
    threads = 1 if task.small else detect_machine().usable_cores
    torch.set_num_threads(threads)
    card = task.device == "cuda"
    options = argparse.Namespace(steps=steps, repeats=repeats, threads=threads, gpu=card, torch=not card)
    alone = argparse.Namespace(**{**vars(options), "threads": 1, "gpu": False, "torch": False})
    rows: list[Figures] = []
    for width in widths:
        one = rates_of(width, min(streams) // threads or 1, alone)["loop"]
        for count in streams:
            rows.append({"width": width, "streams": count, "one": one, **rates_of(width, count, options)})
            task.keep({"threads": threads, "rows": rows})
    return {"threads": threads, "rows": rows, "problem": ""}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    rows = [
        (
            f"3 x {row['width']:,}",
            f"{row['streams']:,}",
            *(_rate(row, name) for name in ("one", "loop", "torch", "gpu")),
        )
        for row in figures["rows"]
    ]
    head = "policy", "streams", "compiled loop, one thread", "compiled loop", "torch on the CPU", "torch on the card"
    return [f"Steps of Pendulum a second, {figures['threads']} threads:", "", *table(head, rows)]


def _rate(row: Figures, name: str) -> str | None:
    return f"{row[name]:,.0f}" if name in row else None
