"""What the process simulator's control variate is worth: trained with it and without it.

Both variants are the same training run, one with the hook removed, several seeds each. The policy that the run chooses
is then played as the run chose (its likeliest actions or draws), greedily and by sampling, on evaluation episodes that
all runs share. Results are appended to DIRECTORY/results.jsonl, so that an interrupted run of this script goes on.

Usage: python research/learning/control_variate.py [--scenarios loan_desk complete] [--seeds 5] [--iterations 50]
       python research/learning/control_variate.py --check    (do the variants differ, is "with" the ordinary run?)
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rich.console import Console
from rich.table import Table

import longstride
from benchmarks.same_bits import parameters_sha256
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.process.load import bundled_scenarios
from longstride.process.simulator import ProcessSimulator
from longstride.rollout.trajectory import Trajectory
from longstride.settings import load_settings
from longstride.training.assembly.run import Run, build_run
from longstride.training.evaluation.statistics import Paired, paired_difference

ROOT = Path(__file__).resolve().parents[2]

VARIANTS = ("with", "without")

MEASURES = {"used": "as chosen", "greedy": "greedy", "sampled": "sampled", "curve": "while training, last ten"}
"""Key of a result -> heading; the first decides, the others stand beside it."""

METRIC = "mean_cycle_time"
ONE_CORE = {"device": "cpu", "simulation_threads": "1", "update_threads": "1"}
CONSOLE = Console(width=120)

Result = dict[str, Any]
"""A finished run: scenario, variant, seed, iterations, the measures, and the seconds it took."""


def main() -> int:
    """Train what is missing, evaluate it, print the table; return 1 where the check fails."""
    options = parse()
    scenarios = dict(found_scenarios(options.scenarios, options.scenarios_folder))
    if options.check:
        return 0 if all([check(name, scenario) for name, scenario in scenarios.items()]) else 1
    options.directory.mkdir(parents=True, exist_ok=True)
    file = options.directory / "results.jsonl"
    for seed in range(options.seeds):
        for name, scenario in scenarios.items():
            for variant in VARIANTS:
                key = {"scenario": name, "variant": variant, "seed": seed, "iterations": options.iterations}
                if not selected(read(file), **key):
                    append(file, {**key, **train_and_evaluate(scenario, variant, seed, options)})
    for name in scenarios:
        results = selected(read(file), scenario=name, iterations=options.iterations)
        CONSOLE.print(table_of(name, results))
    return 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["loan_desk", "complete"], help="bundled, or of the folder")
    parser.add_argument("--scenarios-folder", type=Path, default=Path("scenarios"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--evaluation-episodes", type=int, default=30)
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_control_variate"))
    parser.add_argument("--check", action="store_true", help="short runs that compare the variants' trajectories")
    return parser.parse_args()


def found_scenarios(names: Sequence[str], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each scenario and what ``--scenario`` takes; say which are not here."""
    for name in names:
        if name in bundled_scenarios():
            yield name, name
        elif (folder / f"{name}.json").exists():
            yield name, str(folder / f"{name}.json")
        else:
            print(f"{name} is skipped: neither bundled nor in {folder} (--scenarios-folder).")


def train_and_evaluate(scenario: str, variant: str, seed: int, options: argparse.Namespace) -> Result:
    """Return the measures of one run."""
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder, variant_of(variant):
        run = build(scenario, seed, Path(folder) / "run", training_episodes=str(options.iterations))
        run.train(Console(quiet=True), lambda: False)
        curve = [line["metrics"][METRIC] for line in metrics_of(run.directory)]
        parameters = parameters_sha256(last_checkpoint(run.directory))
        measures = means_of_episodes(run.directory, options.evaluation_episodes)
    seconds = time.process_time() - begin
    result = {**measures, "curve": float(np.mean(curve[1:][-10:])), "iterations_metric": curve}
    print(
        f"{Path(scenario).stem}, {variant}, seed {seed}: {measures['used']:.2f}, {seconds:.0f} CPU seconds", flush=True
    )
    return {**result, "cpu_seconds": seconds, "parameters": parameters}


def variant_of(variant: str) -> AbstractContextManager[Any]:
    """Take the hook from the process simulator without it; the contract's default (0) takes its place."""
    return nullcontext() if variant == "with" else patch.object(ProcessSimulator, "control_variate", None)


def build(scenario: str, seed: int, directory: Path, **settings: str) -> Run:
    """Build a run with the defaults of the project, on one core."""
    flags = {"scenario": scenario, "seed": str(seed), "run_directory": str(directory), **settings}
    settings = load_settings(ROOT / "hyperparameters.py", {**flags, **ONE_CORE})
    return build_run(settings, resume=False, say=lambda text: None)


def means_of_episodes(directory: Path, episodes: int) -> dict[str, float]:
    """Return the means of the metric over evaluation episodes, which are the same for all runs."""
    rows = longstride.evaluate(directory, episodes=episodes, policies=[], quiet=True).rows
    greedy, sampled = (rows[name]["metrics"][METRIC]["mean"] for name in ("trained", "trained_sampled"))
    return {
        "used": sampled if longstride.load_policy(directory).draws else greedy,
        "greedy": greedy,
        "sampled": sampled,
    }


def check(name: str, scenario: str) -> bool:
    """Train each variant briefly; return whether they differ as they should and "with" is the ordinary run."""
    short = {"training_episodes": "2", "num_envs": "1"}
    columns, hashes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in VARIANTS:
            directory = Path(folder) / variant
            with variant_of(variant):
                run = build(scenario, 0, directory, **short)
                columns[variant] = first_trajectory(run)
            hashes[variant] = bits(directory)
        ordinary = Path(folder) / "ordinary"
        train_by_command(scenario, ordinary, short)
        hashes["ordinary"] = bits(ordinary)
    findings = {
        "columns as they should be": as_expected(columns),
        "with is the ordinary run to the bit": hashes["with"] == hashes["ordinary"],
        "the variants do not learn the same": hashes["with"][-1] != hashes["without"][-1],
    }
    for finding, holds in findings.items():
        print(f"{name}, {finding}: {'yes' if holds else 'NO'}")
    return all(findings.values())


def first_trajectory(run: Run) -> Trajectory:
    """Train a run and return a copy of what its first update received."""
    received: list[Trajectory] = []
    update: Callable[..., Any] = run.trainer.updater.update

    def watched(rollout: RolloutBatch, *arguments: Any) -> Any:
        if not received:
            received.append(Trajectory(*(column.copy() for column in rollout.trajectories[0])))
        return update(rollout, *arguments)

    with patch.object(run.trainer.updater, "update", watched):
        run.train(Console(quiet=True), lambda: False)
    return received[0]


def as_expected(columns: dict[str, Trajectory]) -> bool:
    """Return whether the first trajectories of both variants differ in the control variate alone."""
    found, whole = columns["without"], columns["with"]
    same = all(np.array_equal(getattr(found, c), getattr(whole, c)) for c in ("actions", "rewards", "elapsed"))
    return bool(same and whole.control_variate.any() and not found.control_variate.any())


def train_by_command(scenario: str, directory: Path, settings: dict[str, str]) -> None:
    """Train with scripts/train.py, as a user would."""
    flags = {"scenario": scenario, "seed": "0", "run_directory": str(directory), **settings, **ONE_CORE}
    words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--mode", "train", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def bits(directory: Path) -> list[str]:
    """Return the hashes of a run's trajectories, then of its trained parameters."""
    return [line["trajectory_sha256"] for line in metrics_of(directory)] + [
        parameters_sha256(last_checkpoint(directory))
    ]


def metrics_of(directory: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics.jsonl."""
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def last_checkpoint(directory: Path) -> Path:
    """Return the tensor file of a run's last checkpoint."""
    return max((directory / "checkpoints" / "last").glob("*.safetensors"))


def read(file: Path) -> list[Result]:
    """Return the results so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def append(file: Path, result: Result) -> None:
    """Add a result."""
    with file.open("a") as out:
        out.write(json.dumps(result) + "\n")


def selected(results: list[Result], **key: Any) -> list[Result]:
    """Return the results with these values, by seed."""
    return sorted((r for r in results if key.items() <= r.items()), key=lambda r: r["seed"])


def table_of(name: str, results: list[Result]) -> Table:
    """Return a row for each variant, mean over seeds, and what the control variate adds (negative: better)."""
    values = {v: {m: [r[m] for r in selected(results, variant=v)] for m in MEASURES} for v in VARIANTS}
    seeds, iterations = len(values["with"]["greedy"]), results[0]["iterations"]
    title = f"{name}: {METRIC} after {iterations} iterations, {seeds} seeds, 95 % intervals (Student's t)"
    table = Table("variant", *MEASURES.values(), title=title)
    for variant, found in values.items():
        table.add_row(variant, *(with_interval(paired_difference(found[m], [0.0] * seeds)) for m in MEASURES))
    effects = (paired_difference(values["with"][m], values["without"][m]) for m in MEASURES)
    table.add_row("with - without", *(with_interval(effect, "+") for effect in effects))
    return table


def with_interval(found: Paired, sign: str = "") -> str:
    """Return a mean and half the width of its interval."""
    half = "" if found.high is None else f" ± {found.high - found.value:.2f}"
    return f"{found.value:{sign}.2f}{half}"


if __name__ == "__main__":
    sys.exit(main())
