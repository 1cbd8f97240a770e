"""What a busy neighbour costs: whole training on two cores with two threads, alone and beside a Python busy loop.

A trainer whose threads wait for each other by spinning, or whose short parallel parts wait for a core each, loses far
more than its share. Two threads and a neighbour on two cores: a fair scheduler leaves each thread two thirds of a core,
half of one where work is dealt out in equal parts beforehand. The neighbour may run on any of the same cores.
Usage: python research/speed/neighbour.py [--cores 0 1] [--trainers NAME ...] [--repeats K] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.end_to_end import Run, in_a_process, medians_of, missing
from benchmarks.peers.report import machine_facts
from benchmarks.peers.work import Work

WORKS = {
    "longstride": Work(rounds=5),
    "stable_baselines3": Work(steps=15_500, batch=7_750, rounds=1),  # a whole rollout would take minutes
}


def main() -> None:
    """Measure alone and with a neighbour, in turns, and print medians and what is left of the speed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--trainers", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs: dict[str, dict[str, list[Run]]] = {}
    for name in options.trainers:
        if why := missing(name):
            print(f"{name} is skipped: {why}.")
            continue
        runs[name] = measure(name, options.cores, options.repeats)
        print(in_words(name, runs[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine_facts(), "runs": runs}, indent=1) + "\n")


def measure(name: str, cores: list[int], repeats: int) -> dict[str, list[Run]]:
    """Return what a trainer did alone and beside a neighbour."""
    alone, beside = [], []
    for _ in range(repeats):
        alone.append(in_a_process(name, WORKS[name], cores))
        with neighbour(cores):
            beside.append(in_a_process(name, WORKS[name], cores))
    return {"alone": alone, "beside": beside}


@contextmanager
def neighbour(cores: Sequence[int]) -> Iterator[None]:
    """Keep a process busy, on any of these cores."""
    busy = f"import os; hasattr(os, 'sched_setaffinity') and os.sched_setaffinity(0, {set(cores)})\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", busy])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def in_words(name: str, runs: dict[str, list[Run]]) -> str:
    """Say what is left of a trainer's speed, by medians."""
    alone, beside = medians_of(runs["alone"]), medians_of(runs["beside"])
    collecting = [each["collect_steps_per_second"] for each in (alone, beside)]
    updating = [each["update_seconds"] for each in (alone, beside)]
    whole = [each["steps_per_second"] for each in (alone, beside)]
    return (
        f"{name}, {WORKS[name].steps:,} steps a rollout, alone and beside a neighbour: "
        f"collecting {collecting[0]:,.0f} and {collecting[1]:,.0f} steps/s ({collecting[1] / collecting[0]:.2f}), "
        f"update {updating[0]:.2f} and {updating[1]:.2f} s (speed {updating[0] / updating[1]:.2f}), "
        f"whole {whole[0]:,.0f} and {whole[1]:,.0f} steps/s ({whole[1] / whole[0]:.2f})"
    )


if __name__ == "__main__":
    main()
