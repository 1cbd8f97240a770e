"""Which directory a run is written to, and how one that is there goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.config import Config
from core.errors import UserError
from core.simulators.loading import LoadedSimulator
from core.training.build.run_settings import values_of_a_run
from core.training.run_directory.checkpoint import holds_checkpoint, load_run
from core.training.time_budget import NO_LIMIT
from core.training.trainer import Trainer

_NOTHING_LEARNED = (
    *("simulation_threads", "update_threads", "episode_time_limit", "checkpoints_kept"),
    *("evaluate_every", "evaluation_episodes", "gradient_checkpointing"),
)
"""Settings by which no bit of the weights changes on the CPU."""


def run_directory(config: Config, resume: bool, loaded: LoadedSimulator) -> Path:
    """Return the directory of a run, the user's or a free one in runs/.

    Raises:
        UserError: a resume names none, or it is a file.
    """
    directory = Path(config.run_directory)
    if not config.run_directory:
        if resume:
            raise UserError("--resume needs --run-directory DIR, the run to go on with.")
        base = loaded.scenario.name if loaded.scenario else loaded.source["simulator"].rpartition(":")[2].lower()
        base = base.replace("/", "-")
        names = [base, *(f"{base}-{i}" for i in range(2, 10_000))]
        directory = next(path for path in (Path("runs") / name for name in names) if not path.exists())
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file; --run-directory needs a folder.")
    return directory


def refuse_to_overwrite(directory: Path) -> None:
    """Check that a new run is not about to take the place of another.

    Raises:
        UserError: the directory holds one.
    """
    if holds_checkpoint(directory):
        raise UserError(
            f"{directory} already holds a run; add --resume to go on with it, or name another --run-directory."
        )


def resume_run(trainer: Trainer, directory: Path, say: Callable[[str], None], before: int | None = None) -> list[str]:
    """Let a trainer go on from the last checkpoint of a run that is intact.

    Args:
        trainer: of a run with the same settings.
        directory: of the run.
        say: prints a line.
        before: training episode before which the checkpoint has to be; None for the last one.

    Returns:
        A sentence about each later one, which is damaged.

    Raises:
        UserError: there is none, or it is one of another simulator, of other options or of other copies.
    """
    damaged: list[str] = []
    tensors, facts = load_run(directory, damaged.append, before)
    if facts["simulator"] != json.loads(json.dumps(trainer.facts["simulator"])):
        differing = [k for k, v in trainer.facts["simulator"].items() if facts["simulator"].get(k) != v]
        raise UserError(
            f"The checkpoint in {directory} was trained on another simulator (different: {', '.join(differing)}); "
            "resume with the scenario or log that the run began with."
        )
    before, now = (of["source"].get("options", {}) for of in (facts, trainer.facts))
    if before != now:
        raise UserError(
            f"The run in {directory} began with the simulator options {json.dumps(before)}, not {json.dumps(now)}; "
            "resume with those that it began with."
        )
    _refuse_other_copies(trainer, facts, directory)
    trainer.restore(tensors, facts)
    for sentence in damaged:
        say(sentence)
    say(f"Resuming after episode {trainer.episode}{of_how_many(trainer)}.")
    return damaged


def changed_settings(config: Config, directory: Path) -> list[str]:
    """Return lines about the settings in which a resume differs from the run so far; none where it does not.

    Args:
        config: of the resume.
        directory: of the run, whose config.json is still that of before.
    """
    before = values_of_a_run(directory)
    changed = {n: v for n, v in config.model_dump().items() if n in before and before[n] != v and n != "run_directory"}
    told = {name: f"{name.upper()} {value!r} (was {before[name]!r})" for name, value in changed.items()}
    same = [told.pop(name) for name in _NOTHING_LEARNED if name in told]
    lines = [f"Other settings than before, from here on: {', '.join(told.values())}."] if told else []
    return lines + ([f"Other settings, which change nothing in what is learned: {', '.join(same)}."] if same else [])


def of_how_many(trainer: Trainer) -> str:
    """Return how many training episodes the run has, for people; nothing where only time ends it."""
    return f" of {trainer.settings.episodes}" if trainer.settings.episodes != NO_LIMIT else ""


def _refuse_other_copies(trainer: Trainer, facts: dict[str, Any], directory: Path) -> None:
    """Refuse a resume that would drop the unfinished episodes of some copies or begin others."""
    before, now = len(facts.get("rollout", [])), len(trainer.collector.state_dict().metadata)
    if before and now and before != now:
        raise UserError(
            f"The run in {directory} plays {before} copies, each in an episode that goes on, not {now}; resume with "
            f"EPISODES_PER_UPDATE = {before}."
        )
    if bool(before) != bool(now):
        played = "rollouts of ROLLOUT_STEPS decisions" if before else "whole episodes (ROLLOUT_STEPS = 0)"
        raise UserError(f"The run in {directory} plays {played}; resume with the ROLLOUT_STEPS of its config.json.")
