"""Long runs: memory, file handles and threads of a training process while thousands of rounds go by.

One run of many short rounds (cartpole, 200 decisions each) and one of few long ones (the loan desk with its defaults,
372,000 decisions each), each in a process of its own that is looked at every half second. Growth is from the first
tenth of the rounds, by when all buffers have their size, to the last tenth, of the medians.
Usage: python benchmarks/soak.py [--short 5000] [--long 20] [--directory DIR] [--json FILE]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
SHORT = ["--simulator", "cartpole", "--rollout-steps", "200", "--num-envs", "1", "--batch-size", "64"]


class Look(NamedTuple):
    """What a process held at one moment: rounds done, MB of its own memory, open files, threads."""

    rounds: int
    megabytes: float
    files: int
    threads: int


def main() -> None:
    """Run, watch, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", type=int, default=5000)
    parser.add_argument("--long", type=int, default=20)
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_soak"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for name, rounds, flags in (("short", options.short, SHORT), ("long", options.long, [])):
        if rounds:
            results[name] = report(name, rounds, watch(options.directory / name, rounds, flags))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def watch(directory: Path, rounds: int, flags: list[str]) -> list[Look]:
    """Train, and return what was seen on the way.

    Raises:
        RuntimeError: the run failed.
    """
    shutil.rmtree(directory, ignore_errors=True)
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--training-episodes", str(rounds)]
    directory.parent.mkdir(parents=True, exist_ok=True)
    seen: list[Look] = []
    with (directory.parent / f"{directory.name}.log").open("w") as log:
        process = subprocess.Popen([*command, "--run-directory", str(directory), *flags], stdout=log, stderr=log)
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                seen.append(look(watched, directory / "metrics.jsonl"))
            except psutil.Error:
                break
            time.sleep(0.5)
    if process.wait():
        raise RuntimeError(f"the run ended with {process.returncode}; see {log.name}")
    return seen


def look(process: psutil.Process, metrics: Path) -> Look:
    """Return what a process holds now."""
    done = sum(chunk.count(b"\n") for chunk in iter_chunks(metrics)) if metrics.exists() else 0
    memory = process.memory_full_info().uss
    return Look(done, memory / 1e6, process.num_fds(), process.num_threads())


def iter_chunks(path: Path):
    """Yield a file's bytes, a megabyte at a time."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def report(name: str, rounds: int, seen: list[Look]) -> dict[str, float]:
    """Print and return how much grew.

    Raises:
        RuntimeError: too little was seen to say anything.
    """
    early = [look for look in seen if 0.1 * rounds <= look.rounds < 0.2 * rounds]
    late = [look for look in seen if 0.9 * rounds <= look.rounds < rounds]
    if not early or not late:
        raise RuntimeError(f"the {name} run went by too fast to be looked at")
    result: dict[str, float] = {"rounds": rounds}
    for column in Look._fields[1:]:
        first, last = (statistics.median(getattr(look, column) for look in part) for part in (early, late))
        result |= {f"{column}_early": first, f"{column}_late": last, f"{column}_grew": last - first}
        print(f"{name}, {rounds:,} rounds: {column} {first:,.1f} early, {last:,.1f} late ({last - first:+,.1f})")
    return result


if __name__ == "__main__":
    main()
