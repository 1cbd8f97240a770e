"""Both sides of a comparison on a Gymnasium environment, trained as a user would, and one evaluation for both."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import longstride

Make = Callable[[], Any]
"""Returns a Gymnasium environment."""

Choose = Callable[[np.ndarray], Any]
"""The policy's likeliest action for one observation."""


@dataclass(frozen=True)
class Result:
    """One training run and its evaluation.

    Attributes:
        task: name of the problem.
        side: what trained.
        steps: environment steps that were trained.
        seed: of the training.
        score: mean return of the evaluation.
        seconds: wall time of the training.
    """

    task: str
    side: str
    steps: int
    seed: int
    score: float
    seconds: float


def longstride_policy(make: Make, steps: int, seed: int, directory: Path, rollout_steps: int) -> Choose:
    """Train with the defaults of Longstride; only steps and seed are set, and ``rollout_steps`` if it is not 0."""
    settings = longstride.Hyperparameters(total_steps=steps, seed=seed, rollout_steps=rollout_steps)
    longstride.train(make, settings, run_directory=directory, exist_ok=True, quiet=True, report=False)
    policy = longstride.load_policy(directory)
    return lambda observation: policy.act(np.asarray(observation, np.float32), greedy=True)


def sb3_policy(make: Make, steps: int, seed: int) -> Choose:
    """Train the PPO of Stable-Baselines3 with its defaults; only steps and seed are set."""
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", make(), seed=seed, device="cpu").learn(steps)
    return lambda observation: model.predict(observation, deterministic=True)[0]


def mean_return(make: Make, choose: Choose, episodes: int, first_seed: int) -> float:
    """Return the mean undiscounted return of episodes with the seeds first_seed, first_seed + 1, ..."""
    environment, returns = make(), []
    for episode in range(episodes):
        observation, _ = environment.reset(seed=first_seed + episode)
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = environment.step(choose(observation))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    environment.close()
    return float(np.mean(returns))


def train_and_score(
    task: str,
    make: Make,
    side: str,
    steps: int,
    seed: int,
    *,
    episodes: int,
    first_seed: int,
    directory: Path,
    rollout_steps: int = 0,
) -> Result:
    """Train one side on a task and evaluate its greedy policy."""
    begin = time.perf_counter()
    if side == "longstride":
        choose = longstride_policy(make, steps, seed, directory / f"{task}-{steps}-{seed}", rollout_steps)
    else:
        choose = sb3_policy(make, steps, seed)
    seconds = time.perf_counter() - begin
    return Result(task, side, steps, seed, mean_return(make, choose, episodes, first_seed), seconds)


def note(results: list[Result], file: Path | None) -> None:
    """Print the last result; write all, so that a series that is cut off leaves what it measured."""
    last = results[-1]
    print(
        f"{last.task}, {last.side}, {last.steps:,} steps, seed {last.seed}: {last.score:.4g}, {last.seconds:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    if file:
        file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


def table(results: list[Result]) -> str:
    """Return a line of Markdown for each task, side and number of steps, with the scores of all seeds."""
    lines = ["| task | side | steps | scores, seed by seed | mean | s |", "|---|---|---|---|---|---|"]
    for key in dict.fromkeys((result.task, result.side, result.steps) for result in results):
        own = [result for result in results if (result.task, result.side, result.steps) == key]
        scores, seconds = [result.score for result in own], max(result.seconds for result in own)
        listed = ", ".join(f"{score:.4g}" for score in scores)
        lines.append(f"| {key[0]} | {key[1]} | {key[2]:,} | {listed} | {np.mean(scores):.4g} | {seconds:.0f} |")
    return "\n".join(lines)
