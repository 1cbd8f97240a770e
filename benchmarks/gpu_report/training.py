"""Runs of ``longstride --mode train``, and what their metrics.jsonl says: seconds, transfers, utilisation, MFU."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.process import ROOT, environment, python
from longstride.text import format_bytes

SMALL = (
    *("--simulator", "cartpole", "--num-envs", "1", "--training-episodes", "3", "--num-epochs", "2"),
    *("--actor-hidden-size", "8", "--critic-hidden-size", "8", "--batch-size", "64"),
)
"""Flags of a rehearsal, in place of all others."""

SECONDS = ("simulation", "transfer", "update", "statistics", "checkpoint")
COUNTED = ("optimizer_steps", "skipped_steps", "model_transfers", "batch_size", "steps")
RATES = ("mfu", "bandwidth_share", "update_flops_per_second")


def measure(task: Task, flags: Sequence[str], small: Sequence[str] = ()) -> Figures:
    """Train, and return medians over the iterations after the first."""
    given = [*SMALL, *small] if task.small else flags
    directory = task.directory / "run"
    execute(["--mode", "train", *given, "--device", task.device, "--run-directory", str(directory)])
    figures = {"flags": list(given), **figures_of(records_of(directory))}
    figures["plan"] = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
    return {**figures, "problem": unfit(figures, given)}


def execute(arguments: Sequence[str]) -> None:
    """Run the project's command, its output in that of this process.

    Raises:
        RuntimeError: it failed; the message is its last line.
    """
    command = python(str(ROOT / "scripts" / "train.py"), *arguments)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment(), "COLUMNS": os.environ.get("COLUMNS", "200")},
    )
    print(done.stdout, flush=True)
    if done.returncode:
        words = [line for line in done.stdout.splitlines() if line.strip()]
        raise RuntimeError(words[-1] if words else f"exit code {done.returncode}")


def records_of(directory: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl."""
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def figures_of(records: Sequence[dict[str, Any]]) -> Figures:
    """Return figures of a run: medians over the iterations after the first, which warms up, and what was chosen."""
    later, last = records[1:] or records, records[-1]
    seconds = {name: median(record[f"{name}_seconds"] for record in later) for name in SECONDS}
    whole = [record.get("iteration_seconds") for record in later]
    seconds["iteration"] = _median(whole) or sum(records[0][f"{name}_seconds"] for name in SECONDS)
    rests = [record["iteration_seconds"] - sum(record[f"{name}_seconds"] for name in SECONDS) for record in records[1:]]
    seconds["everything else in an iteration"] = _median(rests) or 0.0
    return {
        "iterations": len(records),
        "seconds": seconds,
        "first_update_seconds": records[0]["update_seconds"],
        "trying_seconds": records[0].get("execution_seconds"),
        "trials": records[0].get("execution_trials", []),
        "notes": [note for record in records for note in record.get("execution_notes", [])],
        **{name: last.get(name) for name in ("execution", "precision", *COUNTED)},
        **{name: _median(record.get(name) for record in later) for name in RATES},
        "gpu": {phase: _phase(later, phase) for phase in ("simulating", "updating")},
    }


def unfit(figures: Figures, flags: Sequence[str]) -> str:
    """Return why a run is not the one that was asked for; empty if it is."""
    asked = dict(zip(flags, [*flags[1:], ""], strict=True)).get("--update-execution")
    if asked and figures["execution"] != asked:
        return f"steps ran as {figures['execution']}, not as {asked}: {' '.join(figures['notes'])}"
    return ""


def _phase(records: Sequence[dict[str, Any]], phase: str) -> Figures:
    """Return what NVML said of a phase; None where it said nothing."""
    said = [record["gpu"][phase] for record in records if (record.get("gpu") or {}).get(phase)]
    return {
        name: _median(each.get(name) for each in said)
        for name in ("utilisation", "power_watts", "sm_mhz", "memory_bytes", "throttled")
    }


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    seconds, busy = figures["seconds"], figures["gpu"]["updating"]
    rows = [
        *((f"{name}, s", f"{value:.3f}") for name, value in seconds.items()),  # an iteration with all that is between
        ("the first update, s", f"{figures['first_update_seconds']:.3f}"),
        ("trying executions, s", _text(figures["trying_seconds"], "{:.1f}")),
        ("ms a step", f"{1e3 * seconds['update'] / figures['optimizer_steps']:.3f}"),
        ("steps, samples of a minibatch", f"{figures['optimizer_steps']:,}, {figures['batch_size']:,}"),
        ("steps in an iteration", f"{figures['steps']:,}"),
        ("execution, precision", f"{figures['execution']}, {figures['precision']}"),
        ("model transfers", figures["model_transfers"]),
        ("skipped steps", figures["skipped_steps"]),
        ("GPU busy while updating, %", _text(busy["utilisation"], "{:.0f}")),
        ("power while updating, W", _text(busy["power_watts"], "{:.0f}")),
        ("memory in use on the card", format_bytes(busy["memory_bytes"]) if busy["memory_bytes"] else None),
        ("MFU, %", _text(figures["mfu"], "{:.2%}")),
        ("share of the bandwidth, %", _text(figures["bandwidth_share"], "{:.2%}")),
    ]
    flags = " ".join(figures["flags"])
    notes = [f"* {note}" for note in figures["notes"]]
    iterations = figures["iterations"]
    head = [f"`longstride --mode train {flags}`, {iterations} iterations, medians without the first:", ""]
    return [*head, *table(("figure", "measured"), rows), *(["", *notes] if notes else [])]


def _text(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)
