"""--mode evaluate: compare a trained policy, heuristics and bounds; print a table and write evaluation.json."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from longstride.commands.checkpoint_simulator import simulator_of
from longstride.commands.report.command import report_at_the_end
from longstride.config import Config, load_values
from longstride.errors import UserError, suggestion
from longstride.hardware.cpu import detect_cores
from longstride.policies.make_spec import spec_on
from longstride.simulators.loading import LoadedSimulator
from longstride.simulators.simulator import Simulator
from longstride.text import Say
from longstride.training.assembly.run_settings import load_configured, values_of_a_run
from longstride.training.assembly.untrained import with_untrained
from longstride.training.evaluation.comparison import as_json, comparison_sentence
from longstride.training.evaluation.evaluate import Evaluation, evaluate
from longstride.training.evaluation.plain_words import plain_words
from longstride.training.evaluation.table import evaluation_tables
from longstride.training.evaluation.trained_policy import TrainedPolicy, trained_policy
from longstride.training.run_directory.checkpoint import load_run, policy_folder
from longstride.training.run_directory.directory import RunDirectory, run_directory_of
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import mark_run_directory, require_replaceable, require_run_directory
from longstride.training.run_directory.plots import plot_learning_curve


@dataclass(frozen=True)
class Asked:
    """What the command line says of an evaluation beside the settings."""

    checkpoint: str | None = None  # run directory or checkpoint folder; None for heuristics alone
    policies: str | None = None  # names of heuristics with commas; None for all
    report: bool = True  # whether the run's report.html is written again
    trust: bool = False  # whether the simulator's source may run although it is not the one that was named


def run_evaluate(config: Config, sources: dict[str, str], asked: Asked, console: Console, say: Say) -> int:
    """Evaluate a checkpoint beside heuristics, or these alone; return the exit code.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    checkpoint, policies = asked.checkpoint, asked.policies
    if checkpoint is None and policies is None:
        raise UserError(
            "--mode evaluate needs --checkpoint DIR (a run or one of its checkpoints) or --policy NAME,NAME."
        )
    names = split_names(policies) if policies is not None else None
    if checkpoint:
        config = with_episodes_of_run(config, sources, Path(checkpoint))
        loaded, trained = _load(config, sources, Path(checkpoint), asked.trust, say)
    else:
        loaded, trained = load_configured(config, say), None
    for line in loaded.notes:
        say(line)
    directory = run_directory_of(Path(checkpoint)) if checkpoint else RunDirectory(".")
    path = (RunDirectory(config.run_directory) if config.run_directory else directory).evaluation
    _require_own(config, path)
    result = compare_policies(config, loaded.simulator, trained, names, say)
    for table in evaluation_tables(result, loaded.simulator, console.width):
        console.print(table)
    for line in closing_lines(result, loaded.simulator, trained is not None):
        say(line)
    if config.run_directory:
        mark_run_directory(path.parent)
    write_json(path, as_json(result, loaded.simulator))
    say(f"Written to {path}.")
    if checkpoint and path == directory.evaluation and directory.metrics.is_file():
        metric = loaded.simulator.main_metric
        plot_learning_curve(directory.path, metric, loaded.simulator.unit_of(metric))
        if asked.report:
            report_at_the_end(directory.path, say, loaded.simulator, play_after=0.0)
    return 0


def _require_own(config: Config, path: Path) -> None:
    """Check, before anything is played, that evaluation.json may be written.

    Raises:
        UserError: the directory that was named holds something else, or a file of the user's has that name.
    """
    if config.run_directory:
        require_run_directory(path.parent)
    require_replaceable(path, ("episodes", "policies"))


def with_episodes_of_run(config: Config, sources: dict[str, str], checkpoint: Path) -> Config:
    """Return settings with the number of episodes that the run was set to, where this command sets none.

    Raises:
        UserError: the run's config.json is damaged.
    """
    if sources["evaluation_episodes"] != "default":
        return config
    return config.model_copy(update={"evaluation_episodes": episodes_of(checkpoint)})


def episodes_of(checkpoint: Path) -> int:
    """Return the episodes of an evaluation that a run was set to.

    Raises:
        UserError: the run's config.json is damaged.
    """
    directory = run_directory_of(checkpoint)
    values = values_of_a_run(directory.path)
    names = ("evaluation_episodes",)
    return load_values({n: values[n] for n in names if n in values}, str(directory.config)).evaluation_episodes


def _load(
    config: Config, sources: dict[str, str], checkpoint: Path, trust: bool, say: Say
) -> tuple[LoadedSimulator, TrainedPolicy]:
    """Return simulator and policy of a checkpoint; flags name another simulator or change the options of its own."""
    tensors, metadata = load_run(policy_folder(checkpoint, say), say)
    loaded = simulator_of(config, sources, metadata, checkpoint, trust)
    trained = trained_policy(tensors, metadata)
    trained = replace(trained, spec=spec_on(trained.spec, loaded.simulator))
    return loaded, with_untrained(trained, checkpoint, loaded.simulator)


def closing_lines(result: Evaluation, simulator: Simulator, with_policy: bool = True) -> list[str]:
    """Return the lines below the table: comparison, what can change at all, what does in plain words, messages."""
    lines = [comparison_sentence(result, simulator)] if with_policy else []
    if note := simulator.hooks.evaluation_note(simulator, result.records):
        lines.append(note)
    words = plain_words(result, simulator)
    return [*lines, *(["In plain words:"] if words else []), *(f"  {line}" for line in words), *result.messages[:3]]


def compare_policies(
    config: Config, simulator: Simulator, trained: TrainedPolicy | None, names: list[str] | None, say: Say
) -> Evaluation:
    """Play a trained policy, heuristics (``names``; None for all) and bounds on the same random streams.

    Raises:
        UserError: a heuristic is unknown, or there is nothing to play.
    """
    names = list(simulator.heuristics) if names is None else names
    require_heuristics(names, simulator, trained is not None)
    say(f"Evaluating on {config.evaluation_episodes} episodes, the same random streams for every policy.")
    threads = config.simulation_threads or detect_cores().usable
    episodes, seed = config.evaluation_episodes, config.seed
    return evaluate(simulator, names, trained, episodes, seed, threads, lambda name: say(f"  playing {name}"))


def split_names(policies: str) -> list[str]:
    """Return the names in the text of ``--policy``."""
    return [name.strip() for name in policies.split(",") if name.strip()]


def require_heuristics(names: list[str], simulator: Simulator, with_policy: bool) -> None:
    """Check that a simulator has some heuristics, and that there is anything to play.

    Raises:
        UserError: one is unknown, or there is none and no trained policy.
    """
    known = f"there are {', '.join(simulator.heuristics) or 'none'}"
    if not names and not with_policy:
        raise UserError(f"--policy names no heuristic; {known}.")
    for name in names:
        if name not in simulator.heuristics:
            raise UserError(f"The simulator has no heuristic {name}{suggestion(name, simulator.heuristics, known)}")
