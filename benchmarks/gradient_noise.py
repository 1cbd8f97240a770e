"""How much of an actor's gradient is noise, by the lambda of its advantages: why GAE_LAMBDA is what it is.

A policy is trained for a while with the defaults. With its parameters fixed, rollouts of 8,192 steps are then played.
Of each the gradient's noise and signal are measured with several lambdas, from the same steps for all of them. What is
printed are the steps of a rollout whose gradient would be half noise, from the means over the rollouts.
Usage: python benchmarks/gradient_noise.py [--problems P ...] [--training-episodes 3] [--rollouts 32]
"""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from optima import PROBLEMS
from rich.console import Console
from rich.table import Table

import longstride
from core.learning.advantages import step_discounts
from core.learning.algorithms.interface import RolloutBatch
from core.learning.gradient_noise import gradient_noise
from core.learning.prepare_batch import prepare_batch, upload_observations
from core.training.build.run import build_run
from core.training.trainer import Trainer

LAMBDAS = (0.5, 0.8, 0.9, 0.95, 0.97, 1.0)
STEPS, BURN_IN = 256, 8


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = ["criss_cross-balanced-0.9", "reentrant_line-1-2", "lost_sales-poisson-4-39"]
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=usual)
    parser.add_argument("--training-episodes", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=32)
    options = parser.parse_args(arguments)
    table = Table("problem", *(f"lambda {each:g}" for each in LAMBDAS))
    for name in options.problems:
        with tempfile.TemporaryDirectory() as folder:
            trainer = trained(name, options.training_episodes, Path(folder) / "run")
            table.add_row(name, *(f"{each:,.0f}" for each in half_noise(trainer, options.rollouts)))
    Console(width=160).print(table)


def trained(name: str, episodes: int, directory: Path) -> Trainer:
    """Return the trainer of a run that is over."""
    simulator, options = PROBLEMS[name]
    hyperparameters = longstride.Hyperparameters(
        simulator=simulator, simulator_options=options, training_episodes=episodes, run_directory=str(directory)
    )
    run = build_run(hyperparameters, {}, False, lambda text: None)
    run.train(Console(quiet=True), lambda: False)
    return run.trainer


def half_noise(trainer: Trainer, rollouts: int) -> list[float]:
    """Return for each lambda the steps of a rollout whose gradient is half noise; not a number without any signal."""
    measured = np.zeros((len(LAMBDAS), 2))
    trainer.collector.resize(STEPS)
    for number in range(BURN_IN + rollouts):
        instances, _ = trainer.collector.collect(trainer.actor_params(), 0, trainer.settings.instances)
        if number >= BURN_IN:
            measured += noise_of([instance.trajectory for instance in instances], trainer)
    signal, noise = measured.T
    return list(np.where(signal > 0.0, noise / signal, np.nan) * STEPS * trainer.settings.instances)


def noise_of(trajectories: list, trainer: Trainer) -> np.ndarray:
    """Return float64[lambdas, 2], squared signal and noise of a rollout's gradient."""
    settings, interval, updater = trainer.settings, trainer.simulator.mean_interval, trainer.updater
    discounts, value_lambdas = (
        [step_discounts(per, t.elapsed, interval, settings.discount_per) for t in trajectories]
        for per in (trainer.gamma, settings.value_lambda)
    )
    rollout, stepper, usual = RolloutBatch(trajectories, discounts, value_lambdas), updater.stepper, updater.algorithm
    observations = upload_observations(stepper, rollout, updater.buffers)
    found = []
    for each in LAMBDAS:
        stepper.algorithm = dataclasses.replace(usual, gae_lambda=each)
        samples = prepare_batch(stepper, rollout, observations, updater.buffers).samples
        parts = torch.split(torch.arange(rollout.steps), [t.steps for t in trajectories])
        found.append(gradient_noise(stepper.actor_gradient(samples, part) for part in parts))
    return np.array(found)


if __name__ == "__main__":
    main()
