"""The usual trainers on this machine's CPU, for the whole time of a rollout and its update (``end_to_end.py``)."""

import json
import os
import subprocess

from benchmarks.end_to_end import TRAINERS, missing
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.process import ROOT, environment, python

SMALL_STEPS = 64
CORES = 4
"""Most cores of a trainer: its networks are small."""


def measure(task: Task) -> Figures:
    """Run each trainer that is installed once, one after the other."""
    rows: dict[str, Figures] = {}
    for name in TRAINERS:
        rows[name] = {"skipped": why} if (why := missing(name)) else _run(name, task)
        task.keep({"trainers": rows})
    failed = [f"{name}: {row['problem']}" for name, row in rows.items() if row.get("problem")]
    return {"trainers": rows, "problem": "; ".join(failed)}


def _run(name: str, task: Task) -> Figures:
    file = task.directory / f"{name}.json"
    small = ["--steps", str(SMALL_STEPS)] if task.small else []
    command = ["--repeats", "1", "--rounds", "1", *small, "--trainers", name, "--json", str(file)]
    script = str(ROOT / "benchmarks" / "end_to_end.py")
    # Threads of a rehearsal would wait for one another on busy cores.
    cores = ["--cores", *map(str, _cores()[: 1 if task.small else CORES])]
    done = subprocess.run(python(script, *command, *cores), capture_output=True, text=True, env=environment())
    print(done.stdout, done.stderr, flush=True)
    if done.returncode:
        return {"problem": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return dict(json.loads(file.read_text(encoding="utf-8"))["medians"][name])


def _cores() -> list[int]:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    return usable


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    names = ("collect_steps_per_second", "update_seconds", "steps_per_second")
    rows = []
    for name, row in figures["trainers"].items():
        if why := row.get("skipped") or row.get("problem"):
            rows.append((name, why, None, None))
        else:
            rows.append((name, *(f"{row[each]:,.2f}" for each in names)))
    return table(("on the CPU", "collected steps/s", "update, s", "whole, steps/s"), rows)
