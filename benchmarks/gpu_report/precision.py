"""Learning in half precision beside FP32: ``longstride --mode ab``, whose runs share seeds.

Half precision is BF16, and FP16 where the card has no BF16.
"""

import json

from benchmarks.executions import half_of
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.training import SMALL, execute
from longstride.text import counted

PAIRS = 3

FLAGS = ("--training-episodes", "5", "--update-execution", "graph")


def measure(task: Task) -> Figures:
    """Run pairs one after the other, each call continuing the comparison, and keep it after each."""
    gpu = task.device == "cuda"
    half, flags = (half_of("cuda"), FLAGS) if gpu else ("fp32", ())
    directory = task.directory / "ab"
    found: Figures = {}
    for pairs in range(1, (1 if task.small else PAIRS) + 1):
        sides = ["--a", "--precision fp32", "--b", f"--precision {half}"]
        common = [*(SMALL if task.small else flags), "--device", task.device, "--run-directory", str(directory)]
        execute(["--mode", "ab", *sides, "--pairs", str(pairs), *common])
        found = json.loads((directory / "ab.json").read_text(encoding="utf-8"))["comparison"]
        task.keep({"precisions": ["fp32", half], "comparison": found})
    return {"comparison": found}


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    found, (a, b) = figures["comparison"], figures["precisions"]
    rows = [
        (name, f"{row['a']:.4g}", f"{row['b']:.4g}", f"{row['ratio']['value']:.3f}" if row["ratio"] else None)
        for name, row in found["seconds"].items()
    ]
    if outcome := found["outcome"]:
        rows.append((outcome["metric"], f"{outcome['a']:.4g}", f"{outcome['b']:.4g}", None))
    sentences = [f"* {sentence}" for sentence in found["sentences"]]
    return [
        *table((f"{counted(found['pairs'], 'pair')}, seconds", a.upper(), f"{b.upper()} (B)", "B / A"), rows),
        "",
        *sentences,
    ]
