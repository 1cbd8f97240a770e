"""Estimates how many training episodes a time budget holds: simulation measured here, updates measured or predicted."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longstride.commands.plan.report import PlanReport
from longstride.hardware.detect import detect_machine
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.hooks import close_all
from longstride.text import Say, format_duration
from longstride.training.assembly.components import build_trainer
from longstride.training.assembly.plan import apply_plan, plan_run, require_memory
from longstride.training.assembly.setup import Setup
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.settings import Services
from longstride.training.trainer import Trainer

_MEASURED_SAMPLES = 16_384
"""Most samples of the update that is measured."""

_SPREAD = {"measured": 1.5, "predicted": 3.0}
"""Factor by which an estimate may be wrong either way: a judgement, not a statistic."""


@dataclass(frozen=True)
class Estimate:
    """Training episodes inside a budget."""

    episodes: int | None  # expected number; None where the update's time is not known
    low: int  # number if everything is slower
    high: int  # number if everything is faster
    startup_seconds: float  # time until the first iteration
    simulation_seconds: float  # time of an iteration's simulation
    update_seconds: float | None  # time of an iteration's update; None if it is not known
    basis: str  # source of the figures, for people


def estimate_budget(setup: Setup, report: PlanReport, budget: float, say: Say) -> Estimate:
    """Return how many episodes a budget (seconds) holds.

    A rollout is collected here. On a part of it an update is measured, where the run would update on this CPU.
    """
    say("Measuring the simulation of an iteration on this machine ...")
    on_gpu = report.gpu is not None and report.fits
    measured = measure(setup, not on_gpu)
    startup, simulation = measured.startup_seconds, measured.simulation_seconds
    if not on_gpu:
        update = measured.sample_seconds * measured.steps * setup.config.num_epochs
    elif report.prediction.update_seconds is not None:
        update = report.prediction.update_seconds * measured.steps / setup.size.samples
    else:
        return Estimate(None, 0, 0, startup, simulation, None, "no figures of this GPU are known")
    source = "predicted" if on_gpu else "measured on a part"
    basis = (
        f"an iteration's simulation was measured on this machine ({format_duration(simulation)}), its update is "
        f"{source} ({format_duration(update)})"
    )
    episode = (simulation + update) * (setup.size.counted / measured.steps if setup.size.first else 1.0)
    numbers = iterations_in(budget - startup, episode, _SPREAD["predicted" if on_gpu else "measured"])
    return Estimate(*numbers, startup, simulation, update, basis)


def iterations_in(seconds: float, iteration: float, spread: float) -> tuple[int, int, int]:
    """Return how many iterations fit into some seconds, and how many if each were slower or faster by a factor."""
    number = max(seconds, 0.0) / iteration
    return int(number), int(number / spread), int(number * spread)


class Measured(NamedTuple):
    """Measurements on this machine: seconds of compiling and of a rollout, its steps, an update's seconds a sample."""

    startup_seconds: float
    simulation_seconds: float
    steps: int
    sample_seconds: float


def measure(setup: Setup, with_update: bool) -> Measured:
    """Collect a rollout with an untrained policy; update on a part of it, twice, of which the second time counts."""
    machine = detect_machine()
    changes: dict[str, Any] = {"num_epochs": 1, "device": "cpu", "rollout_hosts": "", "rollout_lag": 0}
    if not with_update:  # a GPU will make it, and how is not for this CPU
        changes["precision"] = "auto"
        changes["update_execution"] = "eager" if setup.config.update_execution == "eager" else "auto"
    if setup.config.collect_on == "gpu":
        changes["collect_on"] = "cpu"
    setup = setup.changed(**changes)
    plan = apply_plan(plan_run(setup, machine), setup.spec)
    require_memory(setup, plan, machine)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(setup, plan, Path(folder), Services(CheckpointWriter(RunDirectory(folder))))
        startup = trainer.collector.compile(trainer.actor_params())
        try:
            played, seconds = trainer.collector.collect(trainer.actor_params(), 0, trainer.settings.instances)
        finally:
            close_all(setup.simulator)
    trajectories = [each.trajectory for each in played]
    steps = sum(t.steps for t in trajectories)
    return Measured(startup, seconds, steps, _sample_seconds(trainer, trajectories) if with_update else 0.0)


def _sample_seconds(trainer: Trainer, trajectories: list[Trajectory]) -> float:
    """Return the seconds of an update for each sample of one epoch."""
    part: list[Trajectory] = []
    for trajectory in trajectories:
        missing = _MEASURED_SAMPLES - sum(t.steps for t in part)
        if missing > 0:
            part.append(trajectory.first(min(trajectory.steps, missing)))
    settings = trainer.settings
    discounts, lambdas = ([np.full(t.steps, x) for t in part] for x in (settings.gamma, settings.value_lambda))
    rollout, coefficients = RolloutBatch(part, discounts, lambdas), settings.schedule.start
    reports = [trainer.updater.update(rollout, coefficients, np.random.default_rng(0)) for _ in range(2)]
    return reports[-1].update_seconds / sum(t.steps for t in part)
