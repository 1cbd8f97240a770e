"""Whole training on one long stream beside the usual trainers: LongQueue, 62,000 decisions a rollout, 10 epochs.

Equal work: networks (actor 3 x 128, critic 2 x 256, tanh), rollout, minibatches of 31,000, epochs, precision FP32 (of
Longstride also BF16, where the CPU has it); the dynamics are equal to the bit (tests/benchmarks/test_long_queue.py).
What a trainer's own counters say of its work is compared with what was asked for. Each run of each trainer is a process
of its own, pinned to the cores of `--cores`, with as many threads, taken in turns; compilation is done before and timed
apart. Trainers that are not installed are skipped.
Usage: python benchmarks/end_to_end.py [--repeats 3] [--rounds 2] [--cores 0] [--trainers NAME ...] [--json FILE]
"""

import argparse
import dataclasses
import importlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers.report import machine_facts
from benchmarks.peers.work import Work
from longstride.hardware.cpu import detect_bf16

TRAINERS = {
    "longstride": "whole_longstride",
    "longstride_bf16": "whole_longstride",
    "stable_baselines3": "whole_stable_baselines",
    "cleanrl": "cleanrl_style",
    "leanrl": "leanrl_style",
}
FIGURES = {
    "collect_steps_per_second": ("collected steps/s", ",.0f"),
    "update_seconds": ("update, s", ".2f"),
    "steps_per_second": ("whole, steps/s", ",.0f"),
    "compile_seconds": ("compiling apart, s", ".1f"),
}
COMPARED = ("collect_steps_per_second", "steps_per_second")

Run = dict[str, float]


def main() -> None:
    """Measure in turns and print medians and ratios."""
    options = parse()
    work = Work(options.steps, batch=options.steps // 2, rounds=options.rounds, threads=len(options.cores))
    if options.child:
        work = Work(**json.loads(options.work))
        train = importlib.import_module(f"benchmarks.peers.{TRAINERS[options.child]}").train
        print(json.dumps(train(work).figures(work)))
        return
    skipped = {name: why for name in options.trainers if (why := missing(name))}
    for name, why in skipped.items():
        print(f"{name} is skipped: {why}.")
    results: dict[str, list[Run]] = {name: [] for name in options.trainers if name not in skipped}
    for _ in range(options.repeats):
        for name, runs in results.items():
            runs.append(in_a_process(name, work, options.cores))
    medians = {name: medians_of(runs) for name, runs in results.items()}
    print(table(medians))
    if options.json:
        facts = {"machine": machine_facts(), "work": dataclasses.asdict(work), "skipped": skipped}
        options.json.write_text(json.dumps({**facts, "runs": results, "medians": medians}, indent=1) + "\n")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=Work.steps, help="of a rollout, even; a minibatch is half of it")
    parser.add_argument("--cores", type=int, nargs="+", default=[0])
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser.parse_args()


def missing(name: str) -> str:
    """Return what a trainer needs and is not here; empty if nothing is."""
    for package in ("gymnasium", *(["stable_baselines3"] if name == "stable_baselines3" else [])):
        if importlib.util.find_spec(package) is None:
            return f'{package} is not installed (pip install -e ".[peers]")'
    if name == "longstride_bf16" and not detect_bf16():
        return "this CPU has no instructions for BF16"
    if name == "leanrl" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        return "torch.compile needs a C++ compiler"
    return ""


def in_a_process(name: str, work: Work, cores: Sequence[int]) -> Run:
    """Run a trainer in a process that keeps to some cores."""
    work = dataclasses.replace(work, bf16=name.endswith("bf16"), threads=len(cores))
    command = [sys.executable, __file__, "--child", name, "--work", json.dumps(dataclasses.asdict(work))]

    def keep_to_cores() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, set(cores))

    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=keep_to_cores)
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


def medians_of(runs: Sequence[Run]) -> Run:
    """Return the median of each figure."""
    return {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}


def table(medians: dict[str, Run]) -> str:
    """Return the medians as a Markdown table, with how many times the others longstride's speed is."""
    ours = medians.get("longstride")
    lines = ["| | " + " | ".join(title for title, _ in FIGURES.values()) + " | longstride: collecting | whole |"]
    lines.append("|---" * (len(FIGURES) + 3) + "|")
    for name, found in medians.items():
        cells = [format(found[figure], digits) for figure, (_, digits) in FIGURES.items()]
        ratios = [ours[figure] / found[figure] for figure in COMPARED] if ours and found is not ours else []
        cells += [f"{ratio:.1f} times" for ratio in ratios] or ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
