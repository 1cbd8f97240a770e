"""Continuing a run from its last intact checkpoint."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from longstride.errors import UserError
from longstride.learning.oom_recovery import is_gpu_lost
from longstride.simulators.instances import require_parameters
from longstride.simulators.source_files import source_change
from longstride.text import Say
from longstride.training.run_directory.checkpoint import load_run
from longstride.training.time_budget import iterations_done
from longstride.training.trainer import Trainer


def resume_run(trainer: Trainer, directory: Path, say: Say, before: int | None = None) -> list[str]:
    """Let a trainer with the run's settings continue from the last intact checkpoint, or the last before an iteration.

    Returns:
        A sentence about each later checkpoint, which is damaged.

    Raises:
        UserError: there is no checkpoint, or one of another simulator, of other options or of other instances.
    """
    ranks = trainer.ranks

    def load() -> tuple[dict[str, Tensor], dict[str, Any], list[str]]:
        damaged: list[str] = []
        return *load_run(directory, damaged.append, before), damaged

    tensors, metadata, damaged = ranks.from_first(load)
    try:
        _require_same_simulator(trainer, metadata, directory)
        _require_same_instances(trainer, metadata, directory)
        _require_same_algorithm(metadata.get("extensions", {}), trainer.metadata.get("extensions", {}), directory)
        require_parameters(trainer.simulator, metadata["source"])
        trainer.load_state_dict(tensors, metadata)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        if is_gpu_lost(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"The checkpoint contains data that no run writes ({type(error).__name__}: {reason})."
        ) from error
    for sentence in filter(None, (*damaged, source_change(metadata["source"], trainer.metadata["source"]))):
        say(sentence)
    say(f"Resuming after iteration {iterations_done(trainer.iteration, trainer.settings.iterations)}.")
    if (earlier := metadata.get("ranks", 1)) != ranks.size:
        say(
            f"Processes that train: {ranks.size} from here on, {earlier} until now. The minibatches stay the same; "
            "their gradients are added up in another order."
        )
    return damaged


def _require_same_simulator(trainer: Trainer, metadata: dict[str, Any], directory: Path) -> None:
    description = json.loads(json.dumps(trainer.metadata["simulator"]))
    if metadata["simulator"] != description:
        differing = [name for name, value in description.items() if metadata["simulator"].get(name) != value]
        raise UserError(
            f"The checkpoint in {directory} was trained on a different simulator "
            f"(these differ: {', '.join(differing)}); resume with the scenario or log that the run began with."
        )
    saved, present = (of["source"].get("options", {}) for of in (metadata, trainer.metadata))
    if saved != present:
        raise UserError(
            f"The run in {directory} began with the simulator options {json.dumps(saved)}, not {json.dumps(present)}; "
            "resume with those that it began with."
        )


def _require_same_instances(trainer: Trainer, metadata: dict[str, Any], directory: Path) -> None:
    """Refuse a resume that would drop unfinished episodes of some instances, or begin new ones."""
    saved, present = len(metadata.get("rollout", [])), len(trainer.collector.state_dict().metadata)
    present = trainer.settings.instances if present else 0
    if saved and present and saved != present:
        raise UserError(
            f"The run in {directory} has {saved} environment instances, each in an unfinished episode, not {present}; "
            f"resume with NUM_ENVS = {saved}."
        )
    if bool(saved) != bool(present):
        kind = "rollouts of ROLLOUT_STEPS steps" if saved else "whole episodes (ROLLOUT_STEPS = 0)"
        raise UserError(
            f"The run in {directory} collects {kind}; resume with GROW_ROLLOUTS, NUM_ENVS and ROLLOUT_STEPS "
            "of its config.json."
        )


def _require_same_algorithm(saved: dict[str, Any], given: dict[str, Any], directory: Path) -> None:
    """Check that a run that continues has the algorithm that it began with.

    Raises:
        UserError: one of a program is missing, new or another one.
    """
    before, now = (names.get("algorithm") for names in (saved, given))
    if before == now:
        return
    if before is None:
        raise UserError(f"The run in {directory} began without algorithm=; leave it out, or train a new run.")
    raise UserError(
        f"The run in {directory} was trained with algorithm={before} of a program; resume it there: "
        f"longstride.train(..., resume=True, algorithm={before})."
    )
