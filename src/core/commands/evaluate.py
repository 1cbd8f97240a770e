"""--mode evaluate: compare a trained policy, heuristics and bounds; print a table and write evaluation.json."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from core.config import Config
from core.errors import UserError, suggestion
from core.hardware.cpu import detect_cores
from core.simulators.loading import LoadedSimulator, from_source
from core.simulators.simulator import Simulator
from core.text import Say
from core.training.build.run_settings import load_configured
from core.training.evaluation.evaluate import Evaluation, best_heuristic, evaluate, paired_values
from core.training.evaluation.statistics import paired_difference
from core.training.evaluation.trained_policy import TrainedPolicy, trained_policy
from core.training.run_directory.checkpoint import load_run
from core.training.run_directory.directory import RunDirectory, run_directory_of
from core.training.run_directory.files import write_json

SIMULATOR_FLAGS = ("simulator", "scenario", "event_log")
"""Flags that name another simulator than that of a checkpoint."""


def run_evaluate(
    config: Config, sources: dict[str, str], checkpoint: str | None, policies: str | None, console: Console, say: Say
) -> int:
    """Evaluate a checkpoint beside heuristics (names with commas; None for all), or these alone; return the exit code.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    if checkpoint is None and policies is None:
        raise UserError(
            "--mode evaluate needs --checkpoint DIR (a run or one of its checkpoints) or --policy NAME,NAME."
        )
    names = [name.strip() for name in policies.split(",") if name.strip()] if policies is not None else None
    loaded, trained = _load(config, sources, Path(checkpoint), say) if checkpoint else (load_configured(config), None)
    for line in loaded.notes:
        say(line)
    result = compare_policies(config, loaded.simulator, trained, names, say)
    console.print(evaluation_table(result, loaded.simulator))
    if trained is not None:
        say(comparison_sentence(result, loaded.simulator))
    for message in result.messages[:3]:
        say(message)
    directory = run_directory_of(Path(checkpoint)) if checkpoint else RunDirectory(".")
    path = (RunDirectory(config.run_directory) if config.run_directory else directory).evaluation
    write_json(path, result.as_json())
    say(f"Written to {path}.")
    return 0


def _load(config: Config, sources: dict[str, str], checkpoint: Path, say: Say) -> tuple[LoadedSimulator, TrainedPolicy]:
    """Return simulator and policy of a checkpoint; flags name another simulator or change the options of its own."""
    tensors, metadata = load_run(checkpoint, say)
    return simulator_of(config, sources, metadata, checkpoint), trained_policy(tensors, metadata)


def simulator_of(
    config: Config, sources: dict[str, str], metadata: dict[str, Any], checkpoint: Path
) -> LoadedSimulator:
    """Return the simulator of a checkpoint's metadata, or the one that flags name, with the options that they name.

    Raises:
        UserError: it cannot be built here, or is another one than that of the checkpoint.
    """
    if any(sources[name] == "flag" for name in SIMULATOR_FLAGS):
        loaded = load_configured(config)
    else:
        changes = config.simulator_options if sources["simulator_options"] == "flag" else {}
        loaded = from_source(metadata["source"], changes)
    require_same_simulator(loaded.simulator, metadata, checkpoint)
    return loaded


def compare_policies(
    config: Config, simulator: Simulator, trained: TrainedPolicy | None, names: list[str] | None, say: Say
) -> Evaluation:
    """Play a trained policy, heuristics (``names``; None for all) and bounds on the same random streams.

    Raises:
        UserError: a heuristic is unknown, or there is nothing to play.
    """
    names = list(simulator.heuristics) if names is None else names
    known = f"there are {', '.join(simulator.heuristics) or 'none'}"
    if not names and trained is None:
        raise UserError(f"--policy names no heuristic; {known}.")
    for name in names:
        if name not in simulator.heuristics:
            raise UserError(f"The simulator has no heuristic {name}{suggestion(name, simulator.heuristics, known)}")
    say(f"Evaluating on {config.evaluation_episodes} episodes, the same random streams for every policy.")
    threads = config.simulation_threads or detect_cores().usable
    episodes, seed = config.evaluation_episodes, config.seed
    return evaluate(simulator, names, trained, episodes, seed, threads, lambda name: say(f"  playing {name}"))


def evaluation_table(
    result: Evaluation, simulator: Simulator, more: Mapping[str, Mapping[str, str]] | None = None
) -> Table:
    """Return a row for each policy and a column for each metric of one number; ``more`` is header -> policy -> cell.

    References have rows, too, and the gap of each mean to the first reference has a column.
    """
    more = {**(more or {}), **_gaps(result, simulator)}
    summary = result.as_json()["policies"]
    metrics = [name for name, value in next(iter(summary.values())).items() if not isinstance(value["mean"], list)]
    metrics = [name for name in metrics if name != "return" or simulator.main_metric == "return"] or metrics
    metrics.sort(key=lambda name: name != simulator.main_metric)
    table = Table(title=f"Mean and 95 % interval over {result.episodes} episodes")
    table.add_column("policy", no_wrap=True)
    for header in [*(metric.replace("_", " ") for metric in metrics), *more]:
        table.add_column(header, justify="right", no_wrap=True)
    for name, values in summary.items():
        cells = [_cell(values.get(metric)) for metric in metrics]
        table.add_row(name, *cells, *(column[name] for column in more.values()))
    for name, value in result.references.items():
        cells = [_rounded(value) if metric == simulator.main_metric else "-" for metric in metrics]
        table.add_row(name, *cells, *(column.get(name, "-") for column in more.values()))
    return table


def _gaps(result: Evaluation, simulator: Simulator) -> dict[str, dict[str, str]]:
    """Return a column with the distance of each mean of the main metric from the first reference; none without one."""
    if not result.references:
        return {}
    name, value = next(iter(result.references.items()))
    means = {
        policy: fmean(of) if (of := [r[simulator.main_metric] for r in records if simulator.main_metric in r]) else None
        for policy, records in result.records.items()
    }
    return {f"gap to {name}": {policy: _gap(mean, value) for policy, mean in {**means, **result.references}.items()}}


def _gap(mean: float | None, reference: float) -> str:
    if mean is None:
        return "-"
    return f"{100 * (mean - reference) / abs(reference):+,.3g} %" if reference else f"{mean - reference:+,.3g}"


def _cell(value: dict[str, float] | None) -> str:
    if value is None:
        return "-"
    return f"{_rounded(value['mean'])} ± {_rounded((value['high'] - value['low']) / 2, 2)}"


def _rounded(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits, but never fewer than those before the point."""
    if 0.0 < abs(value) < 1.0:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"


def comparison_sentence(result: Evaluation, simulator: Simulator) -> str:
    """Return how the trained policy compares with the best heuristic, episode by episode on the same streams."""
    metric, lower_is_better = simulator.main_metric, simulator.main_metric_lower_is_better
    best = best_heuristic(result.records, simulator)
    if best is None:
        return "No heuristic to compare with."
    trained, heuristic = paired_values(result.records["trained"], result.records[best], metric)
    if len(trained) < 2:
        return f"Too few episodes to compare with {best}."
    difference = paired_difference(trained, heuristic)
    low, high = difference.low or 0.0, difference.high or 0.0  # None only for a single pair
    base = abs(fmean(heuristic))
    factor, unit = (100.0 / base, " %") if base else (1.0, "")
    above, below = low > 0, high < 0
    better, worse = (below, above) if lower_is_better else (above, below)
    verdict = "Better than" if better else "Worse than" if worse else "Not shown to differ from"
    return (
        f"{verdict} the best heuristic, {best}: {fmean(trained):,.4g} against {fmean(heuristic):,.4g} "
        f"{metric.replace('_', ' ')} ({factor * difference.value:+.3g}{unit}, 95 % interval {factor * low:+.3g} to "
        f"{factor * high:+.3g}{unit}, paired)."
    )


def require_same_simulator(simulator: Simulator, metadata: dict[str, Any], checkpoint: Path) -> None:
    """Check that a checkpoint's policy can play a simulator; its class may have moved to another module.

    Raises:
        UserError: the simulator is another one, or its observations or actions are.
    """
    description = simulator.description()
    for name in ("observation_size", "actions", "action_features", "simulator"):
        saved, present = metadata["simulator"].get(name), description.get(name)
        same = _class_name(saved) == _class_name(present) if name == "simulator" else saved == present
        if not same:
            raise UserError(
                f"The checkpoint in {checkpoint} is of another simulator: {name} is {saved} there and {present} here."
            )


def _class_name(simulator: object) -> str:
    return str(simulator).rpartition(":")[2]
