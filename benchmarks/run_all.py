"""The benchmarks of speed one after another, small: one table, and JSON with the facts of the machine.

A look at all figures in some minutes, not a measurement to publish: each benchmark alone has more repeats by default.
Each is a process of its own; one that fails is named, and the others go on (exit code 1). Not among them are those of
reliability (kill, soak, fuzz) and the check against baselines. A trainer that is not installed is a line of the table.
Usage: python benchmarks/run_all.py [--only NAME ...] [--json benchmarks.json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks.peers.report import machine_facts

ROOT = Path(__file__).resolve().parents[1]

Row = tuple[str, str]
"""A figure's name, and its value for people."""


class Benchmark(NamedTuple):
    """One of them: its arguments, and how its JSON becomes rows."""

    arguments: Sequence[str]
    rows: Callable[[dict[str, Any]], list[Row]]


def collection(found: dict[str, Any]) -> list[Row]:
    """Return the rows of collection.py."""
    parts = ("fused", "simulator", "network", "python")
    rows = [(f"{part}, a decision", f"{found[f'{part}_us_per_decision']:,.2f} µs") for part in parts]
    rows.append(("python / fused", f"{found['ratio']:.1f}"))
    if "onnx_ratio" not in found:
        return [*rows, ("onnx", "skipped: not installed")]
    return [
        *rows,
        ("onnx, a decision", f"{found['onnx_us_per_decision']:,.2f} µs"),
        ("onnx / fused", f"{found['onnx_ratio']:.1f}"),
    ]


def streams(found: dict[str, Any]) -> list[Row]:
    """Return the rows of streams.py."""
    return [
        (f"{name}, threads {row['threads']}, side by side {row['together']}", f"{row['per_second']:,.0f} decisions/s")
        for name, ways in found.items()
        for row in ways
    ]


def update(found: dict[str, Any]) -> list[Row]:
    """Return the rows of update.py."""
    return [
        (
            f"{row['name']}, {row['samples']:,} samples, threads {row['threads']}",
            f"{row['cpu_ms']['compiled']:,.2f} ms, {row['floor_ms'] / row['cpu_ms']['compiled']:.0%} of it products",
        )
        for row in found["rows"]
    ]


def end_to_end(found: dict[str, Any]) -> list[Row]:
    """Return the rows of end_to_end.py."""
    return [
        (f"{name}, collecting and updating", f"{medians['steps_per_second']:,.0f} decisions/s")
        for name, medians in found["medians"].items()
    ] + [(name, f"skipped: {why}") for name, why in found["skipped"].items()]


def scaling(found: dict[str, Any]) -> list[Row]:
    """Return the rows of scaling.py: exponents of time, and memory of the longest episode beside the plan's."""
    rows = [(f"{name} over the length of an episode", f"exponent {b:.2f}") for name, b in found["exponents"].items()]
    longest = found["lengths"][-1]
    if longest["peak"]:
        predicted = longest["trajectory"] + longest["working"]
        name = f"memory of {longest['decisions']:,} decisions"
        rows.append((name, f"{longest['peak'] / 1e6:,.0f} MB, predicted {predicted / 1e6:,.0f}"))
    return rows


BENCHMARKS = {
    "collection": Benchmark(["--repeats", "3"], collection),
    "streams": Benchmark(["--repeats", "1", "--episodes", "8"], streams),
    "update": Benchmark(["--pairs", "1", "--small"], update),
    "end_to_end": Benchmark(["--repeats", "1", "--rounds", "1"], end_to_end),
    "scaling": Benchmark(["--small"], scaling),
}


def main() -> int:
    """Run, print, write; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"))
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine_facts(), "date": time.strftime("%Y-%m-%d")}
    result |= {"results": {}, "failed": {}}
    for name in options.only:
        print(f"{name} ...", flush=True)
        found, problem = run(name)
        result["failed" if problem else "results"][name] = problem or found
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    Console(width=120).print(table_of(result))
    for name, problem in result["failed"].items():
        print(f"{name} failed: {problem}")
    print(f"Written to {options.json}.")
    return 1 if result["failed"] else 0


def run(name: str) -> tuple[dict[str, Any], str]:
    """Run a benchmark in a process of its own; return its JSON, its seconds and the load before it, or what failed."""
    benchmark = BENCHMARKS[name]
    begin, load = time.perf_counter(), os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *benchmark.arguments]
        done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True)
        if done.returncode or not file.exists():
            return {}, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        found = json.loads(file.read_text(encoding="utf-8"))
    return {"found": found, "seconds": time.perf_counter() - begin, "load": load, "arguments": command[2:]}, ""


def table_of(result: dict[str, Any]) -> Table:
    """Return the table of all figures."""
    table = Table(title="Few repeats: a look, not a measurement")
    for column in ("benchmark", "figure", "value"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for name, ran in result["results"].items():
        for figure, value in BENCHMARKS[name].rows(ran["found"]):
            table.add_row(name, figure, value)
        table.add_section()
    return table


if __name__ == "__main__":
    sys.exit(main())
