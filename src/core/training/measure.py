"""How many training episodes a time budget holds: simulation measured here, updates measured or predicted."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.config import Config
from core.hardware.machine import detect_machine
from core.simulators.gymnasium_bridge import GymnasiumSimulator
from core.simulators.loading import LoadedSimulator
from core.simulators.simulator import Simulator
from core.training.builder import Say, build_model, build_trainer
from core.training.plan_report import PlanReport
from core.training.planning import apply_plan, plan_run
from core.training.rollouts import copies_per_update, decisions_per_update

_MEASURED_SAMPLES = 8192
"""Of the update that is measured."""

_SPREAD = {"measured": 1.5, "predicted": 3.0}
"""By what factor an estimate may be wrong either way: a judgement, not a statistic."""


@dataclass(frozen=True)
class Estimate:
    """Training episodes inside a budget.

    Attributes:
        episodes: None where nothing is known of the update's time.
        low: with everything slower.
        high: with everything faster.
        startup_seconds: until the first round.
        simulation_seconds: of a round.
        update_seconds: of a round.
        basis: where the figures come from, for people.
    """

    episodes: int | None
    low: int
    high: int
    startup_seconds: float
    simulation_seconds: float
    update_seconds: float | None
    basis: str


def estimate_budget(config: Config, loaded: LoadedSimulator, report: PlanReport, budget: float, say: Say) -> Estimate:
    """Play one copy here, update on it where the run would update on this CPU, and divide the budget by a round.

    Args:
        config: of the run.
        loaded: its simulator.
        report: of the plan.
        budget: seconds.
        say: prints a line.
    """
    say("Measuring one copy of the simulation on this machine ...")
    on_gpu = report.gpu is not None and report.fits
    startup, copy, per_sample = measure(config, loaded, not on_gpu)
    waves = _waves(config, loaded.simulator, report)
    simulation = copy * waves
    samples = decisions_per_update(config, loaded.simulator)
    update = report.update_seconds if on_gpu else per_sample * samples * config.num_epochs
    basis = f"the simulation measured on this machine ({simulation:.2f} s a round)"
    if update is None:
        return Estimate(None, 0, 0, startup, simulation, None, "no figures of this GPU are known")
    spread = _SPREAD["predicted" if on_gpu else "measured"]
    basis += f", updates {'predicted' if on_gpu else 'measured on it too'} ({update:.3g} s)"
    return Estimate(*rounds_in(budget - startup, simulation + update, spread), startup, simulation, update, basis)


def rounds_in(seconds: float, a_round: float, spread: float) -> tuple[int, int, int]:
    """Return how many rounds fit into a time, and how many if each were slower or faster by a factor."""
    usable = max(seconds, 0.0)
    return int(usable / a_round), int(usable / (a_round * spread)), int(usable / a_round * spread)


def _waves(config: Config, simulator: Simulator, report: PlanReport) -> int:
    """Return how many copies a thread plays one after the other; an environment in Python has one thread."""
    threads = 1 if isinstance(simulator, GymnasiumSimulator) else report.plan.simulation_threads
    return -(-copies_per_update(config, simulator) // threads)


def measure(config: Config, loaded: LoadedSimulator, with_update: bool) -> tuple[float, float, float]:
    """Return the seconds of compiling, of playing one copy, and of an update on the CPU for each sample and epoch."""
    changes = {"episodes_per_update": 1, "num_epochs": 1, "device": "cpu", "precision": "auto"}
    one = config.model_copy(update=changes)
    simulator = loaded.simulator
    plan = apply_plan(plan_run(one, simulator, detect_machine()))
    with tempfile.TemporaryDirectory() as nowhere:
        trainer = build_trainer(one, plan, build_model(one, simulator, False), loaded, Path(nowhere), None)
        startup = trainer.collector.compile(trainer.cpu_copy())
        played, seconds = trainer.collector.collect(trainer.cpu_copy(), 0, 1)
        if not with_update:
            return startup, seconds, 0.0
        trajectory = played[0].trajectory
        trajectory = trajectory.first(min(trajectory.steps, _MEASURED_SAMPLES))
        discounts = [np.full(trajectory.steps, config.gamma)]
        report = trainer.updater.update([trajectory], discounts, np.random.default_rng(0))
    return startup, seconds, report.update_seconds / trajectory.steps
