"""Policies that remember beside policies that do not, on problems that hide a part of the state.

For each problem: the hidden form with each POLICY_NETWORK, and the form that shows everything with `mlp`. Networks have
two layers of 64 units; those of `transformer` see 20 observations. `--recurrent-ppo STEPS` also
trains sb3-contrib's RecurrentPPO (an LSTM of 64 units) for so many steps, for its steps per second.

Usage: python research/learning/memory.py [--problems P ...] [--sides S ...] [--seeds 3] [--training-episodes 20]
    [--recurrent-ppo STEPS] [--directory DIR] [--json FILE]
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from rich.console import Console
from rich.table import Table

import longstride
from longstride.simulators.classic_control import CartPole
from longstride.simulators.inventory import LostSales
from research.learning.memory_problems import (
    HiddenDemand,
    HiddenDemandSeen,
    HiddenPipeline,
    RepeatPrevious,
    RepeatPreviousSeen,
    StillCartPole,
)


class Problem(NamedTuple):
    """A problem that hides a part of the state, the same problem in full view, and its metric."""

    hidden: Callable[[], Any]
    seen: Callable[[], Any]
    metric: str


PIPELINE = {"lead_time": 4, "penalty": 9, "demand": "geometric"}
PROBLEMS = {
    "repeat_previous": Problem(lambda: RepeatPrevious(), lambda: RepeatPreviousSeen(), "hit_rate"),
    "cartpole_without_velocities": Problem(StillCartPole, CartPole, "return"),
    "lost_sales_hidden_pipeline": Problem(
        lambda: HiddenPipeline(**PIPELINE), lambda: LostSales(**PIPELINE), "mean_cost"
    ),
    "hidden_demand": Problem(HiddenDemand, HiddenDemandSeen, "mean_cost"),
}
SIDES = ("seen", "mlp", "mingru", "transformer")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    options = parse(arguments)
    runs: list[dict[str, Any]] = []
    for name in options.problems:
        for seed in range(options.seeds):
            for side in options.sides:
                runs.append({"problem": name, "side": side, "seed": seed, **train(name, side, seed, options)})
                note(runs, options.json)
        if options.recurrent_ppo:
            result = recurrent_ppo(PROBLEMS[name].hidden(), options.recurrent_ppo)
            runs.append({"problem": name, "side": "recurrent_ppo", "seed": 0, **result})
            note(runs, options.json)
    Console(width=140).print(table_of(runs))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--training-episodes", type=int, default=20, help="of 50,000 steps each")
    parser.add_argument("--recurrent-ppo", type=int, default=0, help="steps of sb3-contrib's RecurrentPPO; 0 for none")
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_memory"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser.parse_args(arguments)


def train(name: str, side: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return score, seconds and steps per second of a run of Longstride."""
    problem = PROBLEMS[name]
    settings = longstride.Hyperparameters(
        policy_network="mlp" if side == "seen" else side,
        actor_hidden_size=64,
        critic_hidden_size=64,
        num_hidden_layers=2,
        training_episodes=options.training_episodes,
        seed=seed,
    )
    simulator, begin = (problem.seen if side == "seen" else problem.hidden)(), time.perf_counter()
    run = longstride.train(simulator, settings, run_directory=options.directory / f"{name}-{side}-{seed}", quiet=True)
    seconds = time.perf_counter() - begin
    table = longstride.evaluate(run, episodes=20, policies=[], quiet=True)
    steps = sum(record["steps"] for record in run.metrics)
    busy = sum(record["simulation_seconds"] + record["update_seconds"] for record in run.metrics)
    score = table.rows["trained"]["metrics"][problem.metric]["mean"]
    return {"score": score, "seconds": seconds, "steps": steps, "steps_per_second": steps / busy}


def recurrent_ppo(simulator: Any, steps: int) -> dict[str, Any]:
    """Return the same of RecurrentPPO with its defaults; the score is the mean return of its last training episodes."""
    try:
        from sb3_contrib import RecurrentPPO
    except ImportError:
        sys.exit("sb3-contrib is not installed; pip install 'longstride[peers]' adds it.")
    environment, begin = longstride.to_gymnasium(simulator), time.perf_counter()
    kwargs = {"lstm_hidden_size": 64, "net_arch": []}
    model = RecurrentPPO("MlpLstmPolicy", environment, policy_kwargs=kwargs, seed=0, device="cpu")
    model.learn(steps)
    seconds = time.perf_counter() - begin
    returns = [info["r"] for info in model.ep_info_buffer or []]
    score = sum(returns) / len(returns) if returns else float("nan")
    return {"score": score, "seconds": seconds, "steps": steps, "steps_per_second": steps / seconds}


def note(runs: list[dict[str, Any]], file: Path | None) -> None:
    """Print the last run; write all, so that a benchmark that is cut off leaves what it measured."""
    last = runs[-1]
    print(
        f"{last['problem']}, {last['side']}, seed {last['seed']}: {last['score']:.4g}, {last['seconds']:.0f} s, "
        f"{last['steps_per_second']:,.0f} steps/s",
        file=sys.stderr,
        flush=True,
    )
    if file:
        file.write_text(json.dumps(runs, indent=1) + "\n")


def table_of(runs: Sequence[dict[str, Any]]) -> Table:
    """Return a row for each problem and side with the scores of all seeds."""
    table = Table("problem", "side", "scores", "steps", "steps/s")
    for problem, side in dict.fromkeys((run["problem"], run["side"]) for run in runs):
        own = [run for run in runs if (run["problem"], run["side"]) == (problem, side)]
        scores = ", ".join(f"{run['score']:.4g}" for run in own)
        rate = sum(run["steps"] for run in own) / sum(run["steps"] / run["steps_per_second"] for run in own)
        table.add_row(problem, side, scores, f"{own[0]['steps']:,}", f"{rate:,.0f}")
    return table


if __name__ == "__main__":
    main()
