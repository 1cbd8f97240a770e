"""A trained policy, heuristics and bounds on the same random streams: what ``evaluate`` has in both its forms."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from longstride.config import Config, load_values
from longstride.errors import UserError, suggestion
from longstride.hardware.cpu import detect_cores
from longstride.policies.make_spec import spec_on
from longstride.settings import Settings
from longstride.simulators.hooks import naming_the_hook
from longstride.simulators.simulator import Simulator
from longstride.text import Say
from longstride.training.assembly.last_check import with_untrained
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.evaluation.acting import acting_sentence, draws_against_likeliest
from longstride.training.evaluation.comparison import comparison_sentence
from longstride.training.evaluation.evaluate import Evaluation, evaluate
from longstride.training.evaluation.plain_words import plain_words
from longstride.training.evaluation.trained_policy import TrainedPolicy, trained_policy
from longstride.training.run_directory.directory import run_directory_of


def with_episodes_of_run(settings: Settings, checkpoint: Path) -> Settings:
    """Return settings with the number of episodes that the run was set to, where this command sets none.

    Raises:
        UserError: the run's config.json is damaged.
    """
    if settings.sources["evaluation_episodes"] != "default":
        return settings
    return settings.changed({"evaluation_episodes": episodes_of(checkpoint)}, "run")


def episodes_of(checkpoint: Path) -> int:
    """Return the episodes of an evaluation that a run was set to.

    Raises:
        UserError: the run's config.json is damaged.
    """
    directory = run_directory_of(checkpoint)
    values = values_of_a_run(directory)
    names = ("evaluation_episodes",)
    return load_values({n: values[n] for n in names if n in values}, str(directory.config)).evaluation_episodes


def policy_on(
    simulator: Simulator, tensors: Mapping[str, Any], metadata: Mapping[str, Any], checkpoint: Path
) -> TrainedPolicy:
    """Return the policy of a checkpoint for a simulator, with what its run began with where that is known.

    Raises:
        UserError: the checkpoint is damaged, or of other sizes.
    """
    trained = trained_policy(tensors, metadata)
    trained = replace(trained, spec=spec_on(trained.spec, simulator))
    return with_untrained(trained, checkpoint, simulator)


def closing_lines(result: Evaluation, simulator: Simulator, with_policy: bool = True) -> list[str]:
    """Return the lines below the table: comparison, what can change at all, what does in plain words, messages."""
    lines = [comparison_sentence(result, simulator)] if with_policy else []
    try:
        with naming_the_hook(simulator, "evaluation_note"):
            lines += filter(None, [simulator.hooks.evaluation_note(simulator, result.records)])
    except UserError as error:  # the episodes are played: a sentence about them must not lose them
        lines.append(str(error))
    lines += filter(None, [acting_sentence(draws_against_likeliest(result, simulator))])
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
