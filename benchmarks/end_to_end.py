"""Whole training on one long stream, beside Stable-Baselines3's PPO: LongQueue, 62,000 decisions a rollout, 10 epochs.

Equal work: networks (actor 3 x 128, critic 2 x 256, tanh), rollout, minibatches of 31,000, epochs, precision FP32; the
dynamics are equal to the bit (tests/benchmarks/test_long_queue.py). Each round of each trainer is a process of its own,
pinned to the cores of `--cores`, taken in turns; compilation is done before and timed apart.
Usage: python benchmarks/end_to_end.py [--repeats 3] [--rounds 2] [--cores 0] [--trainers NAME ...] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

STEPS, EPOCHS, BATCH = 62_000, 10, 31_000
ACTOR, CRITIC = [128, 128, 128], [256, 256]


def longstride(rounds: int, threads: int) -> dict[str, float]:
    """Train with this project; return seconds of collecting and updating a round, and of compiling."""
    import torch

    from benchmarks.long_queue import LongQueue
    from core.policy.forward import aligned_weights
    from core.policy.networks import ActorCritic, initialise
    from core.rollout.collector import Collector
    from core.seeding import stream
    from core.update.advantage import step_discounts
    from core.update.stepper import StepSettings
    from core.update.updater import Updater, UpdateSettings

    torch.set_num_threads(1)
    simulator = LongQueue()
    model = ActorCritic([32, *ACTOR, 8], [32, *CRITIC, 1], "tanh")
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    collector = Collector(simulator, model.actor_sizes, "tanh", 0, 1, 1)
    settings = UpdateSettings(EPOCHS, BATCH, 0.95, 0.95, 0.0, 3e-4, 3e-4, 1e-5)
    steps = StepSettings(0.2, 0.0, 0.5, 0.5, 2048, "fp32", threads, executions=("compiled",))
    updater = Updater(model, torch.device("cpu"), settings, steps)

    def weights():
        return aligned_weights(model.flat[: model.layout.actor_size].numpy(), model.actor_sizes)

    compiling = collector.compile(weights()) + updater.compile()
    collecting, updating = [], []
    for number in range(rounds):
        played, seconds = collector.collect(weights(), number, 1)
        trajectory = played[0].trajectory
        assert trajectory.steps == STEPS
        begin = time.perf_counter()
        discounts = step_discounts(0.99, trajectory.elapsed, 1.0, "decision")
        updater.update([trajectory], [discounts], stream(0, "update", number))
        updating.append(time.perf_counter() - begin)
        collecting.append(seconds)
    return _result(collecting, updating, compiling)


def stable_baselines3(rounds: int, threads: int) -> dict[str, float]:
    """Train with Stable-Baselines3's PPO."""
    import torch
    from stable_baselines3 import PPO

    from benchmarks.long_queue import LongQueueEnvironment

    class Timed(PPO):
        """Notes when its phases begin and end."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.collecting: list[float] = []
            self.updating: list[float] = []

        def collect_rollouts(self, *arguments: Any, **named: Any) -> bool:
            begin = time.perf_counter()
            done = super().collect_rollouts(*arguments, **named)
            self.collecting.append(time.perf_counter() - begin)
            return done

        def train(self) -> None:
            begin = time.perf_counter()
            super().train()
            self.updating.append(time.perf_counter() - begin)

    torch.set_num_threads(threads)
    policy = {"net_arch": {"pi": ACTOR, "vf": CRITIC}}
    how = {"n_steps": STEPS, "batch_size": BATCH, "n_epochs": EPOCHS, "device": "cpu", "seed": 0}
    model = Timed("MlpPolicy", LongQueueEnvironment(), policy_kwargs=policy, **how)
    model.learn(STEPS * rounds)
    return _result(model.collecting, model.updating, 0.0)


TRAINERS = {"longstride": longstride, "stable_baselines3": stable_baselines3}


def _result(collecting: list[float], updating: list[float], compiling: float) -> dict[str, float]:
    collect, update = statistics.median(collecting), statistics.median(updating)
    return {
        "collect_steps_per_second": STEPS / collect,
        "update_seconds": update,
        "steps_per_second": STEPS / (collect + update),
        "compile_seconds": compiling,
    }


def main() -> None:
    """Measure in turns and print medians and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, nargs="+", default=[0])
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", choices=TRAINERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(TRAINERS[options.child](options.rounds, len(options.cores))))
        return
    results: dict[str, list[dict[str, float]]] = {name: [] for name in options.trainers}
    for _ in range(options.repeats):
        for name in options.trainers:
            results[name].append(_in_a_process(name, options.rounds, options.cores))
    medians = {
        name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
        for name, runs in results.items()
    }
    for name, found in medians.items():
        print(name + ": " + ", ".join(f"{figure} {value:,.2f}" for figure, value in found.items()))
    ours = medians.get("longstride")
    for name, found in medians.items() if ours else ():
        if name != "longstride":
            ratios = [ours[f] / found[f] for f in ("collect_steps_per_second", "steps_per_second")]
            print(f"times {name}: collection {ratios[0]:.1f}, whole training {ratios[1]:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"runs": results, "medians": medians}, indent=1) + "\n")


def _in_a_process(name: str, rounds: int, cores: list[int]) -> dict[str, float]:
    """Run a trainer in a process that keeps to some cores."""
    command = [sys.executable, __file__, "--child", name, "--rounds", str(rounds), "--cores", *map(str, cores)]

    def keep_to_cores() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, set(cores))

    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=keep_to_cores)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
