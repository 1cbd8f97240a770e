"""Two tasks of POPGym (Morad et al. 2023, arXiv 2303.01859) with policies that have a memory.

RepeatPrevious: cards come from a deck; answer with the suit of the card ``k - 1`` steps ago. PositionOnlyCartPole:
CartPole without its velocities. The tasks are POPGym's classes; its wrapper of the previous action is not used.
Usage: python research/learning/public/memory_tasks.py [--tasks T ...] [--networks N ...] [--seeds 0] [--steps 1000000]
    [--json FILE]   (needs pip install popgym==1.0.7 --no-deps)
"""

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import longstride
from research.learning.public.sides import Result, note, table

TASKS = {
    "RepeatPreviousEasy": "repeat_previous",
    "RepeatPreviousMedium": "repeat_previous",
    "PositionOnlyCartPoleEasy": "position_only_cartpole",
    "PositionOnlyCartPoleMedium": "position_only_cartpole",
    "PositionOnlyCartPoleHard": "position_only_cartpole",
}
"""Class of each task -> its module in ``popgym.envs``."""
FIRST_SEED, EPISODES = 1_000_000, 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["RepeatPreviousEasy", "PositionOnlyCartPoleEasy"])
    parser.add_argument("--networks", nargs="+", choices=("mlp", "mingru", "transformer"), default=["mingru"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, default=Path("runs/public_memory"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    results: list[Result] = []
    for name in options.tasks:
        for network in options.networks:
            for seed in options.seeds:
                results.append(train(name, network, seed, options))
                note(results, options.json)
    print(table(results))


def task_of(name: str) -> Any:
    """Return the class of a task."""
    return getattr(importlib.import_module(f"popgym.envs.{TASKS[name]}"), name)


def train(name: str, network: str, seed: int, options: argparse.Namespace) -> Result:
    """Train with the defaults and a network, and evaluate its likeliest actions."""
    begin = time.perf_counter()
    settings = longstride.Hyperparameters(total_steps=options.steps, seed=seed, policy_network=network)
    directory = options.directory / f"{name}-{network}-{seed}"
    longstride.train(task_of(name), settings, run_directory=directory, exist_ok=True, quiet=True, report=False)
    seconds = time.perf_counter() - begin
    from gymnasium.spaces import flatten

    policy, environment, returns = longstride.load_policy(directory), task_of(name)(), []
    for episode in range(EPISODES):
        observation, _ = environment.reset(seed=FIRST_SEED + episode)
        policy.reset()
        total, ended = 0.0, False
        while not ended:
            flat = flatten(environment.observation_space, observation)
            action = policy.act(np.asarray(flat, np.float32), greedy=True)
            observation, reward, terminated, truncated, _ = environment.step(int(action))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return Result(name, network, options.steps, seed, float(np.mean(returns)), seconds)


if __name__ == "__main__":
    main()
