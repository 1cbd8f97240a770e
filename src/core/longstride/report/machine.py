"""Where the time of a run went, and what the machine did."""

from typing import Any

import numpy as np

from longstride.report.charts import STYLE, draw, whole_iterations
from longstride.report.page import Block, Figure, Section, Table, plain
from longstride.report.run_data import RunData
from longstride.text import counted, format_bytes, format_duration, in_words

PHASES = {
    "simulation_seconds": "simulation",
    "update_seconds": "update",
    "transfer_seconds": "transfers to and from the GPU",
    "execution_seconds": "trials of how to run steps",
    "statistics_seconds": "statistics after the update",
    "checkpoint_seconds": "checkpoints: copies, waiting for the disk",
    "evaluation_seconds": "evaluation",
}
"""Measured phases of an iteration."""


def phase_seconds(run: RunData) -> dict[str, np.ndarray]:
    """Return float64[iterations] for each phase that took time."""
    columns = {name: [_seconds(record, name) for record in run.records] for name in PHASES}
    return {PHASES[name]: np.array(values) for name, values in columns.items() if any(values)}


def run_seconds(run: RunData) -> float:
    """Return the measured seconds of a run."""
    return float(sum(values.sum() for values in phase_seconds(run).values()))


def _seconds(record: dict[str, Any], name: str) -> float:
    if name == "evaluation_seconds":
        return float((record.get("evaluation") or {}).get("seconds") or 0.0)
    return float(record.get(name) or 0.0)


def machine_section(run: RunData) -> Section:
    """Return the time of each phase, what the processors did, and how the plan used the machine."""
    phases = phase_seconds(run)
    total = sum(values.sum() for values in phases.values())
    rows = [
        plain(
            name, format_duration(values.sum()), f"{100 * values.sum() / total:.1f} %", format_duration(values.mean())
        )
        for name, values in phases.items()
    ]
    rows.append(plain("all of these", format_duration(total), "100 %", format_duration(total / len(run.records))))

    def paint(figure: Any) -> None:
        axes, bottom = figure.add_subplot(), np.zeros(len(run.records))
        iterations = [record["iteration"] for record in run.records]
        for colour, (name, values) in zip(STYLE.series, phases.items(), strict=False):
            axes.bar(iterations, values, bottom=bottom, width=0.85, color=colour, label=name)
            bottom = bottom + values
        whole_iterations(axes)
        axes.set_ylabel("seconds")
        axes.legend(fontsize="small", frameon=False, ncols=2)

    iterations = counted(len(run.records), "iteration")
    caption = f"Measured in {iterations}; starting, compiling and writing files are not in it."
    blocks: list[Block] = [
        Table("Time of each phase", ["phase", "time", "share", "an iteration"], rows, caption),
        Figure("Time of each iteration", draw("phases", 2.8, paint)),
        _work_table(run),
    ]
    gpu = _gpu_table(run)
    plan = [plain(in_words(name), _value(run.plan.get(name)), why) for name, why in run.plan.get("reasons", {}).items()]
    blocks += [gpu] if gpu else []
    if plan:
        headers = ["choice", "value", "reason"]
        blocks.append(Table("How the run used the machine", headers, plan, numeric=False))
    return Section("machine", "Time and machine", blocks)


def _work_table(run: RunData) -> Table:
    steps = sum(record["steps"] for record in run.records)
    simulating = sum(record["simulation_seconds"] for record in run.records)
    updating = sum(record["update_seconds"] for record in run.records)
    flops = sum((r.get("update_flops_per_second") or 0.0) * r["update_seconds"] for r in run.records)
    rows = [
        plain("environment steps", f"{steps:,}"),
        plain("episodes that ended", f"{sum(record.get('simulated_episodes', 0) for record in run.records):,}"),
        plain("steps a second of simulation", f"{steps / simulating:,.0f}" if simulating else "-"),
        plain("arithmetic of the updates", f"{flops / updating / 1e9:,.1f} GFLOP/s" if updating else "-"),
        plain("optimiser steps", f"{sum(record.get('optimizer_steps') or 0 for record in run.records):,}"),
        plain("copies of the model over the bus", f"{sum(r.get('model_transfers') or 0 for r in run.records):,}"),
    ]
    machine = run.plan.get("machine", {})
    if machine:
        cores = counted(machine.get("usable_cores", 0), "core")
        gpus = ", ".join(str(gpu.get("name")) for gpu in machine.get("gpus", [])) or "no GPU"
        rows.append(plain("machine", f"{cores}, {format_bytes(machine.get('total_bytes', 0), 'GB')}, {gpus}"))
    return Table("Work", ["", "of the whole run"], rows, numeric=False)


def _gpu_table(run: RunData) -> Table | None:
    """Return means of what NVML measured in each phase; None without a GPU."""
    rows = []
    for phase in ("simulating", "updating"):
        found = [gpu[phase] for record in run.records if (gpu := record.get("gpu")) and gpu.get(phase)]
        if found:
            columns = [[each.get(name) for each in found] for name in ("utilisation", "power_watts", "sm_mhz")]
            means = [np.mean(known) if (known := [v for v in values if v is not None]) else None for values in columns]
            most = max((each.get("memory_bytes") or 0 for each in found), default=0)
            shown = [f"{mean:,.0f}" if mean is not None else "-" for mean in means]
            rows.append(plain(phase, *shown, format_bytes(most, "GB")))
    headers = ["phase", "busy, % (NVML)", "power, W", "clock, MHz", "most memory"]
    return Table("The GPU", headers, rows) if rows else None


def _value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
