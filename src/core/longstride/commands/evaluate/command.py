"""--mode evaluate: compare a trained policy, heuristics and bounds; print a table and write evaluation.json."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from longstride.api.checkpoint_simulator import refuse_unread, simulator_of
from longstride.api.compare_policies import (
    closing_lines,
    compare_policies,
    policy_on,
    split_names,
    with_episodes_of_run,
)
from longstride.api.report import report_at_the_end
from longstride.config import Config
from longstride.errors import UserError
from longstride.own_files.marker import mark_folder
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator
from longstride.text import Say
from longstride.training.assembly.run_settings import simulator_for
from longstride.training.evaluation.acting import draws_against_likeliest, keep_verdict
from longstride.training.evaluation.comparison import as_json
from longstride.training.evaluation.table import evaluation_tables
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.checkpoint import load_run, policy_folder
from longstride.training.run_directory.directory import RunDirectory, run_directory_of
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import require_replaceable, require_run_directory
from longstride.training.run_directory.plots import plot_learning_curve
from longstride.training.run_directory.read_json import object_in

_KEYS = "episodes", "policies"
"""Keys that every evaluation.json has."""


@dataclass(frozen=True)
class EvaluateOptions:
    """What the command line says of an evaluation beside the settings."""

    checkpoint: str | None = None  # run directory or checkpoint folder; None for heuristics alone
    policies: str | None = None  # names of heuristics with commas; None for all
    report: bool = True  # whether the run's report.html is written again
    trust: bool = False  # whether the simulator's source may run although it is not the one that was named


def run_evaluate(settings: Settings, options: EvaluateOptions, console: Console, say: Say) -> int:
    """Evaluate a checkpoint beside heuristics, or these alone; return the exit code.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    checkpoint, policies = options.checkpoint, options.policies
    if checkpoint is None and policies is None:
        raise UserError(
            "--mode evaluate needs --checkpoint DIR (a run or one of its checkpoints) or --policy NAME,NAME."
        )
    names = split_names(policies) if policies is not None else None
    if checkpoint:
        settings = with_episodes_of_run(settings, Path(checkpoint))
        loaded, trained = _load(settings, Path(checkpoint), options.trust, say)
    else:
        loaded, trained = simulator_for(settings, say), None
    config = settings.config
    for line in loaded.notes:
        say(line)
    directory = run_directory_of(Path(checkpoint)) if checkpoint else RunDirectory(".")
    path = (RunDirectory(config.run_directory) if config.run_directory else directory).evaluation
    _require_own(config, path)
    result = compare_policies(config, loaded.simulator, trained, names, say)
    if config.run_directory:
        mark_folder(path.parent, "run")
    content = as_json(result, loaded.simulator)
    content["messages"] = [*loaded.remarks, *content["messages"]]
    written = _write(RunDirectory(path.parent), content)
    for table in evaluation_tables(result, loaded.simulator, console.width):
        console.print(table)
    for line in closing_lines(result, loaded.simulator, trained is not None):
        say(line)
    say(written)
    if trained and path == directory.evaluation and directory.metrics.is_file():
        keep_verdict(directory, draws_against_likeliest(result, loaded.simulator), trained.actor_params)
        metric = loaded.simulator.main_metric
        plot_learning_curve(directory.path, metric, loaded.simulator.unit_of(metric))
        if options.report:
            report_at_the_end(directory.path, say, loaded.simulator, play_after=0.0)
    return 0


def _write(directory: RunDirectory, content: dict[str, Any]) -> str:
    """Write evaluation.json and return a line about it; one of more episodes that was there is kept beside it."""
    path, before = directory.evaluation, object_in(directory.evaluation).get("episodes")
    kept = ""
    if isinstance(before, int) and before > content["episodes"]:
        beside = directory.kept_evaluation(before)
        require_replaceable(beside, _KEYS)
        try:
            os.replace(path, beside)
        except OSError as error:
            raise UserError(f"Cannot keep {path} as {beside}: {error.strerror}.") from None
        kept = f" The evaluation of {before} episodes that was there is now {beside}."
    write_json(path, content)
    return f"Written to {path}.{kept}"


def _require_own(config: Config, path: Path) -> None:
    """Check, before anything is played, that evaluation.json may be written.

    Raises:
        UserError: the directory that was named holds something else, or a file of the user's has that name.
    """
    if config.run_directory:
        require_run_directory(path.parent)
    require_replaceable(path, _KEYS)


def _load(settings: Settings, checkpoint: Path, trust: bool, say: Say) -> tuple[LoadedSimulator, TrainedPolicy]:
    """Return simulator and policy of a checkpoint; flags name another simulator or change the options of its own."""
    refuse_unread(settings)
    tensors, metadata = load_run(policy_folder(checkpoint, say), say)
    loaded = simulator_of(settings, metadata, checkpoint, trust)
    return loaded, policy_on(loaded.simulator, tensors, metadata, checkpoint)
