"""A sweep as its flags describe it, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from longstride.commands.comparison_folder import ComparisonFolder
from longstride.commands.sweep.limits import Limits
from longstride.commands.sweep.runs import CommonSettings, Training
from longstride.commands.sweep.space import Dimension, read_space
from longstride.commands.sweep.study import Aim, Objectives
from longstride.config import Config
from longstride.errors import UserError
from longstride.simulators.simulator import Simulator
from longstride.training.assembly.run_settings import load_configured
from longstride.training.run_directory.directory import choose_directory
from longstride.training.time_budget import NO_LIMIT

BASE = "base settings"
"""Name of the settings that a sweep begins from: those of the command line and the file."""

_OWN = ("run_directory", "evaluate_every")
"""Settings that a sweep gives its trainings itself."""

RESULT, PAGE, JOURNAL = "sweep.json", "sweep.html", "journal.log"


@dataclass(frozen=True)
class SweepOptions:
    """What the command line says of a sweep beside the settings of all trials."""

    texts: list[str]  # of --sweep
    file: Path | None = None  # --sweep-file
    objectives: Objectives = "score"
    pruning: bool = True  # whether trials below the median are given up
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Sweep:
    """A search over settings."""

    directory: Path  # folder of the sweep
    space: list[Dimension]
    aim: Aim
    limits: Limits
    settings: CommonSettings
    simulator: Simulator
    fixed: dict[str, Any]  # settings of all trials, but not of the base
    values: dict[str, Any]  # every base setting, for comparison with those of an earlier call

    @property
    def base(self) -> Training:
        """The training with the base settings."""
        return Training(self.settings, {}, self.aim.seed, self.directory / "base")

    def trial(self, number: int, params: Mapping[str, Any]) -> Training:
        """Return the training of a trial."""
        return Training(self.settings, {**params, **self.fixed}, self.aim.seed, self.directory / trial_name(number))

    def held_out(self, name: str, params: Mapping[str, Any] | None, seed: int) -> Training:
        """Return a training of the comparison at the end; without ``params`` with the base settings."""
        values = {} if params is None else {**params, **self.fixed}
        return Training(self.settings, values, seed, self.directory / "held-out" / f"{name}-seed-{seed}")

    @property
    def held_out_seeds(self) -> list[int]:
        """The seeds of the comparison at the end, none of which a trial had."""
        return [self.aim.seed + 1 + i for i in range(self.limits.held_out_seeds)]

    @property
    def folder(self) -> ComparisonFolder:
        """The folder of the sweep."""
        space = {dimension.name: dimension.text for dimension in self.space}
        identity = {"space": space, "objectives": self.aim.objectives, "seed": self.aim.seed, "base": self.values}
        file, compared = self.directory / RESULT, itemgetter(*identity)
        return ComparisonFolder(self.directory, "sweep", file, identity, compared, "another sweep", "trials")


def trial_name(number: int) -> str:
    """Return the name of a trial's run directory."""
    return f"trial-{number:04d}"


def options_of(own: Mapping[str, Any]) -> SweepOptions:
    """Return what the flags of a mode ask of a sweep; those that are None have their defaults.

    Raises:
        UserError: a number is out of range.
    """
    names = {
        "trials": "trials",
        "sweep_minutes": "minutes",
        "finalists": "finalists",
        "held_out_seeds": "held_out_seeds",
    }
    given = {field: own[flag] for flag, field in names.items() if own[flag] is not None}
    objectives: Objectives = own["sweep_objective"] or "score"
    return SweepOptions(own["sweep"] or [], own["sweep_file"], objectives, not own["no_pruning"], Limits(**given))


def read_sweep(options: SweepOptions, config: Config, flags: Mapping[str, Any], file: Path | None) -> Sweep:
    """Read and check a sweep; nothing runs yet. Settings, their flags and file are those of all trials.

    Raises:
        UserError: a flag, a value or the simulator is not right.
    """
    space = read_space(options.texts, options.file)
    if config.time_budget:
        raise UserError("--mode sweep compares trainings of one length; give --training-episodes, not --time-budget.")
    simulator = load_configured(config).simulator
    lower, pruning = simulator.main_metric_lower_is_better, options.pruning and options.objectives == "score"
    common = {name: value for name, value in flags.items() if name not in _OWN}
    settings = CommonSettings(file, common, max(config.evaluate_every, 0) or NO_LIMIT, simulator.main_metric)
    values = config.model_dump(mode="json", exclude={*_OWN, "seed"})
    directory = Path(config.run_directory or "runs/sweep")
    return Sweep(
        directory=choose_directory(str(directory), "sweep").path,
        space=space,
        aim=Aim(options.objectives, lower, pruning, config.seed),
        limits=options.limits,
        settings=settings,
        simulator=simulator,
        fixed=_fixed(space, config),
        values=values,
    )


def _fixed(space: list[Dimension], config: Config) -> dict[str, Any]:
    """Return what all trials need so that the settings that are varied have an effect.

    Raises:
        UserError: another setting takes the effect away.
    """
    names = {dimension.name for dimension in space}
    if "horizon" not in names or "gamma" in names:
        return {}
    if config.gamma:
        raise UserError("--sweep: horizon has no effect if GAMMA is set; leave out one of them.")
    return {"gamma": "0"}
