"""--mode evaluate: from a checkpoint or names of heuristics to a table."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from core.config import Config
from core.errors import UserError
from core.hardware.cpu import detect_cores
from core.policies.compiled.forward import align_params
from core.simulators.loading import from_source
from core.simulators.simulator import Simulator
from core.training.build.run_settings import load_configured
from core.training.evaluation.evaluate import Evaluation, TrainedPolicy, evaluate, paired_values
from core.training.evaluation.gymnasium import evaluate_environment
from core.training.evaluation.statistics import paired_difference
from core.training.run_directory.checkpoint import load_run
from core.training.run_directory.trained_actor import trained_actor

_SIMULATOR_FLAGS = ("simulator", "scenario", "event_log")


def run_evaluation(
    config: Config,
    sources: dict[str, str],
    checkpoint: Path | None,
    names: list[str] | None,
    say: Callable[[str], None],
) -> tuple[Evaluation, Simulator]:
    """Evaluate a checkpoint beside heuristics, or heuristics alone.

    The simulator is the checkpoint's own unless a flag names another one; options given alone change the checkpoint's.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    named = any(sources[name] == "flag" for name in _SIMULATOR_FLAGS)
    trained = None
    if checkpoint is not None:
        tensors, facts = load_run(checkpoint, say)
        changes = config.simulator_options if sources["simulator_options"] == "flag" else {}
        loaded = load_configured(config) if named else from_source(facts["source"], changes)
        require_same_simulator(loaded.simulator, facts, checkpoint)
        spec, params = trained_actor(tensors, facts)
        trained = TrainedPolicy(align_params(params, spec), spec)
    else:
        loaded = load_configured(config)
    result = compare_policies(config, loaded.simulator, trained, names, say)
    if trained is not None:
        say(comparison_sentence(result, loaded.simulator))
    return result, loaded.simulator


def compare_policies(
    config: Config,
    simulator: Simulator,
    trained: TrainedPolicy | None,
    names: list[str] | None,
    say: Callable[[str], None],
) -> Evaluation:
    """Play a trained policy, heuristics and bounds on the same random streams.

    Args:
        config: settings with the episodes, the seed and the threads.
        simulator: simulator to play.
        trained: trained policy; None for heuristics alone.
        names: heuristics to play; None for all.
        say: function that prints a line.

    Raises:
        UserError: a heuristic is unknown, or there is nothing to play.
    """
    chosen = names if names is not None else list(simulator.heuristics)
    if not chosen and trained is None:
        raise UserError(f"--policy names no heuristic; there are {', '.join(simulator.heuristics) or 'none'}.")
    for name in chosen:
        if name not in simulator.heuristics:
            near = get_close_matches(name, simulator.heuristics, 1)
            known = f"did you mean {near[0]}?" if near else f"there are {', '.join(simulator.heuristics) or 'none'}."
            raise UserError(f"The simulator has no heuristic {name}; {known}")
    say(f"Evaluating on {config.evaluation_episodes} episodes, the same random streams for every policy.")
    return _evaluate(config, simulator, chosen, trained, lambda name: say(f"  playing {name}"))


def _evaluate(
    config: Config,
    simulator: Simulator,
    names: list[str],
    trained: TrainedPolicy | None,
    progress: Callable[[str], None],
) -> Evaluation:
    what = (names, trained, config.evaluation_episodes, config.seed)
    if not simulator.compiled:
        return evaluate_environment(simulator, *what, progress)
    return evaluate(simulator, *what, config.simulation_threads or detect_cores().usable, progress)


def evaluation_table(
    result: Evaluation, simulator: Simulator, more: Mapping[str, Mapping[str, str]] | None = None
) -> Table:
    """Return the table of a finished evaluation: a row for each policy, a column for each metric that is one number.

    Args:
        result: finished evaluation.
        simulator: simulator that was played.
        more: further columns: header -> policy -> cell.
    """
    more = more or {}
    summary = result.as_json()["policies"]
    metrics = [name for name, value in next(iter(summary.values())).items() if not isinstance(value["mean"], list)]
    metrics = [name for name in metrics if name != "return" or simulator.main_metric == "return"] or metrics
    metrics.sort(key=lambda name: name != simulator.main_metric)
    table = Table(title=f"Mean and 95 % interval over {result.episodes} episodes")
    table.add_column("policy", no_wrap=True)
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right", no_wrap=True)
    for header in more:
        table.add_column(header, justify="right", no_wrap=True)
    for name, values in summary.items():
        cells = []
        for metric in metrics:
            value = values.get(metric)
            half = (value["high"] - value["low"]) / 2 if value else 0.0
            cells.append(f"{_rounded(value['mean'])} ± {_rounded(half, 2)}" if value else "-")
        table.add_row(name, *cells, *(column[name] for column in more.values()))
    return table


def _rounded(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits, never fewer than those before the point."""
    if 0.0 < abs(value) < 1.0:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"


def comparison_sentence(result: Evaluation, simulator: Simulator) -> str:
    """Say how the trained policy does against the best heuristic, episode by episode on the same streams."""
    metric, lower = simulator.main_metric, simulator.main_metric_lower_is_better
    sign = 1.0 if lower else -1.0
    means = {
        name: float(np.mean([record[metric] for record in records if metric in record]))
        for name, records in result.records.items()
        if name in simulator.heuristics
    }
    if not means:
        return "No heuristic to compare with."
    best = min(means, key=lambda name: sign * means[name])
    difference = paired_difference(*paired_values(result.records["trained"], result.records[best], metric))
    low, high, interval = difference.low, difference.high, "one episode, no interval"
    separate = False
    if low is not None and high is not None:
        separate, interval = high < 0 if lower else low > 0, f"95 % interval {low:.4g} to {high:.4g}, paired"
    verdict = "better than" if separate else "not shown to be better than"
    return (
        f"The trained policy is {verdict} the best heuristic, {best}: {metric.replace('_', ' ')} differs by "
        f"{difference.value:.4g} ({interval})."
    )


def require_same_simulator(simulator: Simulator, facts: dict[str, Any], checkpoint: Path) -> None:
    """Check that a checkpoint's policy can play a simulator; its class may have moved to another module.

    Raises:
        UserError: the simulator is another one, or its observations or actions are.
    """
    compared = ("observation_size", "actions", "action_features", "simulator")
    for name, value in simulator.description().items():
        before = facts["simulator"].get(name)
        same = _class_name(before) == _class_name(value) if name == "simulator" else before == value
        if name in compared and not same:
            raise UserError(
                f"The checkpoint in {checkpoint} is of another simulator: {name} is {before} there and {value} here."
            )


def _class_name(simulator: object) -> str:
    return str(simulator).rpartition(":")[2]
