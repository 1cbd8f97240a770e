"""Learning speed: Longstride beside Stable-Baselines3's PPO on classic control problems.

Each training run is a process of its own, on one core with one thread; the sides take turns. A run ends when the mean
return of the last 100 finished training episodes reaches the problem's threshold, or when its budget of environment
steps is spent. Wall time counts from the first object that is built, compilation included, imports not;
with --warm kernels that an earlier run compiled are loaded.

Usage: python research/learning/classic_control.py [--problems P ...] [--sides S ...] [--seeds K]
    [--sb3-python PATH] [--json FILE]
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers.report import machine_facts
from research.learning.peers.problems import PROBLEMS, Problem
from research.learning.peers.summary import summarise, table
from research.learning.peers.worker import Task

SIDES = ("longstride", "sb3", "sb3-gaussian")
ROOT = Path(__file__).resolve().parents[2]

Side = tuple[str, Path, str, dict[str, Any]]
"""Name, interpreter, module and settings of what trains."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print the table and write the JSON."""
    options = parse(arguments)
    peer = peer_python(options.sb3_python)
    if peer is None:
        print("Stable-Baselines3 is not installed (pip install 'longstride[peers]', or --sb3-python PATH): skipped.")
    runs: list[dict[str, Any]] = []
    for name in options.problems:
        problem = PROBLEMS[name]
        for task, side in tasks(problem, sides(problem, peer, options.sides), options):
            result = train(side, task, options.warm)
            runs.append({"problem": name, "side": side[0], "seed": task.seed, **result})
            print(f"{name}, {side[0]}, seed {task.seed}: {in_words(result)}", file=sys.stderr, flush=True)
            if options.json:  # after each run, so that a run that is cut off leaves what it measured
                write(options.json, runs)
    print(table(summarise(runs, PROBLEMS)))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES, help="what trains (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="training runs of each side, seeds 0, 1, ...")
    parser.add_argument("--sb3-python", type=Path, help="interpreter that has stable-baselines3, if not this one")
    parser.add_argument("--core", type=int, help="core that all runs keep to (default: the last one; -1: any)")
    parser.add_argument("--budget", type=int, help="environment steps of a run, in place of the problem's own")
    parser.add_argument("--warm", action="store_true", help="load kernels that an earlier run compiled")
    parser.add_argument("--evaluation-episodes", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if options.core is None and hasattr(os, "sched_getaffinity"):
        options.core = max(os.sched_getaffinity(0))
    return options


def peer_python(named: Path | None) -> Path | None:
    """Return the interpreter that has Stable-Baselines3: the named one, or this one if it does."""
    if named is not None:
        return named
    return Path(sys.executable) if importlib.util.find_spec("stable_baselines3") else None


def sides(problem: Problem, peer: Path | None, wanted: Sequence[str]) -> list[Side]:
    """Return what trains on a problem, of the sides that are wanted."""
    found: list[Side] = [("longstride", Path(sys.executable), "research.learning.peers.longstride", problem.ours)]
    if peer is not None:
        module = "research.learning.peers.stable_baselines"
        found += [(name, peer, module, settings) for name, settings in problem.peers.items()]
    return [side for side in found if side[0] in wanted]


def tasks(problem: Problem, trained: list[Side], options: argparse.Namespace) -> Iterator[tuple[Task, Side]]:
    """Yield the runs in an order in which the sides take turns, and each is first as often as the others."""
    for seed in range(options.seeds):
        turned = seed % len(trained)
        for side in trained[turned:] + trained[:turned]:
            task = Task(
                problem.simulator,
                problem.environment,
                problem.threshold,
                options.budget or problem.budget,
                side[3],
                seed,
                None if options.core in (None, -1) else options.core,
                options.evaluation_episodes,
            )
            yield task, side


def train(side: Side, task: Task, warm: bool = False) -> dict[str, Any]:
    """Run a task in a process of its own and return what it printed last; warm, it may load compiled kernels."""
    name, python, module, _ = side
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src" / "core")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment |= {} if warm else {"LONGSTRIDE_KERNEL_CACHE": "off"}
    command = [str(python), "-m", module, json.dumps(dataclasses.asdict(task))]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} failed on {task.environment}, seed {task.seed}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def in_words(result: dict[str, Any]) -> str:
    """Say how a run ended."""
    reached = (
        f"reached after {result['steps']:,} steps" if result["steps"] else f"not in {result['steps_done']:,} steps"
    )
    return f"{reached}, {result['seconds']:.1f} s ({result['cpu_seconds']:.1f} s of the core)"


def write(file: Path, runs: list[dict[str, Any]]) -> None:
    """Write runs, summary, settings and the machine."""
    settings = {name: dataclasses.asdict(problem) for name, problem in PROBLEMS.items()}
    content = {"machine": machine_facts(), "summary": summarise(runs, PROBLEMS), "runs": runs, "problems": settings}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
