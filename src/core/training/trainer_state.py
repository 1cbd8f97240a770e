"""What a checkpoint holds of a training run, and the way back."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from core.errors import UserError
from core.learning.oom_recovery import is_gpu_lost
from core.policies.networks import restore_model as restore_model
from core.rollout.episode_collector import CollectorState
from core.training.best import Best

if TYPE_CHECKING:
    from core.training.trainer import Trainer


def state_of(trainer: "Trainer") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return all that the rest of the run depends on: tensors by name, and JSON values."""
    unfinished = trainer.collector.unfinished()
    updater_tensors, updater_facts = trainer.updater.state_dict()
    facts = {
        **trainer.facts,
        "rollout": unfinished.facts,
        "episode": trainer.episode,
        "best": trainer.best.value,
        "best_judged_by": trainer.best.judged_by,
        "main_metric": trainer.simulator.main_metric,
        **updater_facts,
        **({} if trainer.budget is None else {"time_budget": trainer.budget.facts()}),
    }
    return _tensors(trainer, unfinished) | updater_tensors, facts


def _tensors(trainer: "Trainer", unfinished: CollectorState) -> dict[str, Tensor]:
    tensors = {name: torch.from_numpy(record) for name, record in unfinished.records.items()}
    tensors |= {f"statistics.{name}": torch.from_numpy(value) for name, value in vars(trainer.statistics).items()}
    return tensors | {f"rewards.{n}": torch.from_numpy(array) for n, array in trainer.reward_scale.arrays().items()}


def restore_state(trainer: "Trainer", tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Continue from what :func:`state_of` returned.

    Raises:
        UserError: the checkpoint has other tensors or shapes, or holds what no run writes.
    """
    try:
        _restore(trainer, tensors, facts)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        if is_gpu_lost(error):
            raise
        what = " ".join(str(error).split())[:200]
        raise UserError(f"The checkpoint holds what no run writes ({type(error).__name__}: {what}).") from error


def _restore(trainer: "Trainer", tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    trainer.updater.load_state_dict(tensors, facts)
    for name in vars(trainer.statistics):
        setattr(trainer.statistics, name, tensors[f"statistics.{name}"].numpy())
    records = {name: t.numpy() for name, t in tensors.items() if name.startswith("rollout.")}
    trainer.collector.restore(CollectorState(records, facts.get("rollout", [])))
    rewards = {n.removeprefix("rewards."): t.numpy() for n, t in tensors.items() if n.startswith("rewards.")}
    trainer.reward_scale.restore(rewards, episodes_continue=bool(records))  # environments begin new episodes
    trainer.episode = facts["episode"]
    trainer.best = Best(facts["best"], facts.get("best_judged_by", "rounds"))
    if trainer.budget is not None:
        trainer.budget.restore(facts.get("time_budget", {}))
