"""Seconds from `--mode train` to its first decision: with kernels still to compile, and with kernels on disk.

Each start is a fresh process; without kernels their folder is new and empty. The process simulator also starts with the
kernels of the loan desk on disk and a log of other people and activities. Wall time from the process's beginning,
imports included; CPU time of the process, without that of the second one which compiles ahead. Files of Python and of
the libraries are in the system's cache, as on any machine that has started Python before.
Usage: python benchmarks/start.py [--repeats 3] [--simulators process cartpole] [--cores 0 1] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

STARTED = """
import json, os, sys, time
import psutil
sys.path.insert(0, {source!r})
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector

def say(*_):
    here = psutil.Process()
    print("STARTED", json.dumps([time.time() - here.create_time(), time.process_time()]), flush=True)
    os._exit(0)

EpisodeCollector.collect = FixedLengthCollector.collect = say
from longstride.cli import main
sys.exit(main())
"""
"""Trains up to the first decision."""

LOG = ROOT / "src" / "core" / "longstride" / "process" / "logs" / "loan_desk_sample.csv"
STARTS: dict[str, dict[str, list[str]]] = {
    "process": {"to compile": [], "on disk": [], "of another process": ["--event-log", str(LOG)]}
}
"""Kernels that a start finds, and flags of it; each start finds those of the one before."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--simulators", nargs="+", default=["process", "cartpole"])
    parser.add_argument("--cores", type=int, nargs="+")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, set(options.cores))
    found = {}
    print("| simulator | kernels | seconds to the first decision (each) | CPU seconds |\n|---|---|---|---|")
    for simulator in options.simulators:
        kinds = STARTS.get(simulator, {"to compile": [], "on disk": []})
        repeats = [each_start(simulator, list(kinds.values())) for _ in range(options.repeats)]
        for kernels, runs in zip(kinds, zip(*repeats, strict=True), strict=True):
            wall, cpu = zip(*runs, strict=True)
            found[f"{simulator}, {kernels}"] = {"wall": wall, "cpu": cpu}
            each = ", ".join(f"{seconds:.1f}" for seconds in wall)
            print(
                f"| {simulator} | {kernels} | {statistics.median(wall):.1f} ({each}) | {statistics.median(cpu):.1f} |",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def each_start(simulator: str, kinds: list[list[str]]) -> list[tuple[float, float]]:
    """Return wall and CPU seconds of starts with some flags, the first one without kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LONGSTRIDE_KERNEL_CACHE": str(Path(folder) / "kernels")}
        return [start(simulator, Path(folder) / str(i), environment, more) for i, more in enumerate(kinds)]


def start(simulator: str, directory: Path, environment: dict[str, str], more: list[str]) -> tuple[float, float]:
    """Return wall and CPU seconds of a start."""
    program = STARTED.format(source=str(ROOT / "src" / "core"))
    arguments = ["--mode", "train", "--simulator", simulator, "--training-episodes", "2", "--run-directory", directory]
    arguments += more
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("STARTED ")]
    if not lines:
        raise SystemExit(f"The start failed:\n{done.stdout}\n{done.stderr}")
    wall, cpu = json.loads(lines[0].removeprefix("STARTED "))
    return wall, cpu


if __name__ == "__main__":
    main()
