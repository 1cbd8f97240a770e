"""Several processes that train one policy, started by torchrun: how fast they are, and what killing them costs.

``speed`` trains a run in turns by one process with one thread, by one with two, and by two ranks with one thread each,
and prints the seconds of its iterations and where they went. ``kills`` trains a million steps on three ranks twice:
once undisturbed, and once with a rank killed at random ten times, each of which torchrun answers by starting all again.
Checkpoints and metrics must then be the same to the bit.

Usage: python benchmarks/ranks.py speed [--repeats 3] [--flags "..."]
       python benchmarks/ranks.py kills [--kills 10] [--steps 1000000] [--seed 0]
"""

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src" / "core")]

from benchmarks.kill import compare, last_iteration  # noqa: E402

SMALL = [
    *("--simulator", "cartpole", "--num-envs", "6", "--rollout-steps", "2048", "--normalise-rewards"),
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--batch-size", "1024"),
    *("--device", "cpu", "--simulation-threads", "1", "--update-threads", "1", "--num-epochs", "2"),
]
STEPS_AN_ITERATION = 6 * 2048
LOAN_DESK = ["--num-envs", "2", "--num-epochs", "3", "--training-episodes", "4", "--device", "cpu"]
READY, DONE = re.compile(r"^Run directory: "), re.compile(r"^Trained ")


def main() -> None:
    """Measure, or kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "kills"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--flags", default=shlex.join(LOAN_DESK), help="speed: flags of the training")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longstride-ranks-") as folder:
        if options.what == "speed":
            measure(Path(folder), shlex.split(options.flags), options.repeats)
        else:
            iterations = -(-options.steps // STEPS_AN_ITERATION)
            killed = run_with_kills(Path(folder), options.kills, iterations, random.Random(options.seed))
            steps = iterations * STEPS_AN_ITERATION
            print(f"{steps:,} steps on 3 ranks with {killed} kills: the same checkpoints and metrics as without.")


def command(ranks: int, arguments: Sequence[str], restarts: int = 0, entry: Sequence[str] = ("--child",)) -> list[str]:
    """Return what starts so many ranks of this file's child."""
    if ranks == 1:
        return [sys.executable, __file__, *entry, *arguments]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    address = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    return [*torchrun, *address, f"--max-restarts={restarts}", __file__, *entry, *arguments]


def run_with_kills(folder: Path, kills: int, iterations: int, rng: random.Random) -> int:
    """Train undisturbed and with kills; return how many there were.

    Raises:
        LostError: the runs differ.
        SystemExit: a run has not ended well.
    """
    arguments = ["--mode", "train", *SMALL, "--training-episodes", str(iterations)]
    undisturbed, killed = folder / "undisturbed", folder / "killed"
    _finish(subprocess.Popen(command(3, [*arguments, "--run-directory", str(undisturbed)]), **_OUTPUT))
    process = subprocess.Popen(command(3, [*arguments, "--run-directory", str(killed)], kills + 3), **_OUTPUT)
    done = 0
    for _ in range(kills):
        before = last_iteration(killed)
        wait = rng.randint(1, max(iterations // (kills + 1), 1))
        while process.poll() is None and last_iteration(killed) < min(before + wait, iterations - 1):
            time.sleep(0.01)
        done += kill_one(process, rng)
    _finish(process)
    compare(undisturbed, killed)
    return done


def kill_one(process: "subprocess.Popen[str]", rng: random.Random) -> bool:
    """Kill one of the ranks that torchrun has started; return whether there was one."""
    try:
        ranks = [child for child in psutil.Process(process.pid).children() if "--child" in child.cmdline()]
        rng.choice(ranks).kill()
    except (psutil.Error, IndexError):
        return False
    return True


_OUTPUT: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def _finish(process: "subprocess.Popen[str]") -> None:
    out, _ = process.communicate(timeout=3600)
    if process.returncode:
        raise SystemExit(out)


def measure(folder: Path, flags: list[str], repeats: int) -> None:
    """Train by each arrangement in turns, and print seconds and shares."""
    arrangements = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 ranks, 1 thread each": (2, 1)}
    seconds: dict[str, list[float]] = {name: [] for name in arrangements}
    parts: dict[str, list[dict[str, float]]] = {name: [] for name in arrangements}
    for repeat in range(repeats):
        for name, (ranks, threads) in arrangements.items():
            directory = folder / f"{repeat}-{ranks}-{threads}"
            cores = ["--simulation-threads", str(threads), "--update-threads", str(threads)]
            arguments = ["--mode", "train", *flags, *cores, "--run-directory", str(directory)]
            took = seconds_of_iterations(command(ranks, arguments))
            records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
            sums = {part: sum(r[f"{part}_seconds"] for r in records) for part in ("simulation", "update")}
            times = json.loads((directory / "exchange.json").read_text())
            seconds[name].append(took)
            parts[name].append({**sums, "rest": took - sum(sums.values()), **times})
            print(
                f"{name}: {took:.2f} s, {json.dumps({k: round(v, 3) for k, v in parts[name][-1].items()})}", flush=True
            )
    one, two, ranks_two = (min(seconds[name]) for name in arrangements)
    pairs = zip(*(seconds[name] for name in arrangements), strict=True)
    ratios = [(b / c, a / c) for a, b, c in pairs]
    print(f"Two ranks against two threads: {two / ranks_two:.2f} of the speed (shortest), pairs {_listed(ratios, 0)}.")
    print(
        f"Two ranks against one thread: {one / ranks_two:.2f} times the speed (shortest), pairs {_listed(ratios, 1)}."
    )


def _listed(ratios: list[tuple[float, float]], which: int) -> str:
    return ", ".join(f"{ratio[which]:.2f}" for ratio in ratios)


def seconds_of_iterations(words: list[str]) -> float:
    """Return the seconds from the end of the start to the end of the training."""
    process = subprocess.Popen(words, **_OUTPUT, env={**os.environ, "LONGSTRIDE_REPORT": "off"})
    begin, end, out = 0.0, 0.0, ""
    assert process.stdout is not None
    for line in process.stdout:
        out += line
        if READY.match(line):
            begin = time.perf_counter()
        if DONE.match(line):
            end = time.perf_counter()
    if process.wait() or not begin or not end:
        raise SystemExit(out)
    return end - begin


def child(arguments: list[str]) -> int:
    """Be the command line; note how long gradients and other things were exchanged."""
    for name in ("torch.utils.tensorboard", "matplotlib"):
        sys.modules[name] = None  # type: ignore[assignment]
    from longstride.cli import main as command_line
    from longstride.learning.distributed.process_group import ProcessGroup

    spent = {"gradients": 0.0, "others": 0.0, "exchanges": 0.0}

    def timed(kind: str, method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                spent[kind] += time.perf_counter() - begin
                spent["exchanges"] += kind == "gradients"

        return call

    for name in ("add", "total", "gather", "gather_to_first"):
        method = getattr(ProcessGroup, name)
        setattr(ProcessGroup, name, timed("gradients" if name == "add" else "others", method))
    code = command_line(arguments)
    if os.environ.get("RANK", "0") == "0":
        directory = Path(arguments[arguments.index("--run-directory") + 1])
        (directory / "exchange.json").write_text(json.dumps(spent))
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2:]))
    main()
