"""What a checkpoint holds of a training run, and the way back."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from core.errors import UserError
from core.learning.oom_recovery import is_gpu_lost
from core.policies.networks import ActorCritic
from core.rollout.collector import CollectorState
from core.training.best import Best

if TYPE_CHECKING:
    from core.training.trainer import Trainer


def state_of(trainer: "Trainer") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return all that the rest of the run depends on: tensors by name, and JSON values."""
    unfinished = trainer.collector.state_dict()
    facts = {
        **trainer.facts,
        "rollout": unfinished.metadata,
        "episode": trainer.episode,
        "best": trainer.best.value,
        "best_judged_by": trainer.best.judged_by,
        "main_metric": trainer.simulator.main_metric,
        "grad_scaler": trainer.updater.stepper.scaler.state_dict(),
        "recovery": trainer.updater.recovery_facts(),
        **({} if trainer.budget is None else {"time_budget": trainer.budget.facts()}),
    }
    return _tensors(trainer, unfinished), facts


def _tensors(trainer: "Trainer", unfinished: CollectorState) -> dict[str, Tensor]:
    tensors = {f"model.{name}": tensor for name, tensor in trainer.model.tensors.items()}
    tensors |= {name: torch.from_numpy(record) for name, record in unfinished.records.items()}
    tensors |= {f"statistics.{name}": torch.from_numpy(value) for name, value in vars(trainer.statistics).items()}
    tensors |= {f"rewards.{name}": torch.from_numpy(value) for name, value in trainer.reward_scale.arrays().items()}
    return tensors | trainer.updater.stepper.optimizer_tensors()


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
    restore_model(trainer.model, tensors)
    trainer.updater.receive()
    for name in vars(trainer.statistics):
        setattr(trainer.statistics, name, tensors[f"statistics.{name}"].numpy())
    trainer.updater.stepper.load_optimizer_tensors(tensors)
    trainer.updater.restore_recovery(facts.get("recovery", {}))
    if facts["grad_scaler"]:  # empty where the run did not compute in FP16 then
        trainer.updater.stepper.scaler.load_state_dict(facts["grad_scaler"])
    records = {name: t.numpy() for name, t in tensors.items() if name.startswith("rollout.")}
    trainer.collector.load_state_dict(CollectorState(records, facts.get("rollout", [])))
    rewards = {n.removeprefix("rewards."): t.numpy() for n, t in tensors.items() if n.startswith("rewards.")}
    trainer.reward_scale.restore(rewards, goes_on=bool(records))  # environments begin new episodes
    trainer.episode = facts["episode"]
    trainer.best = Best(facts["best"], facts.get("best_judged_by", "rounds"))
    if trainer.budget is not None:
        trainer.budget.restore(facts.get("time_budget", {}))


def restore_model(model: ActorCritic, tensors: dict[str, Tensor]) -> None:
    """Copy the weights of a checkpoint into a model.

    Raises:
        UserError: the checkpoint has other tensors or shapes.
    """
    for name, target in model.tensors.items():
        source = tensors.get(f"model.{name}")
        if source is None or source.shape != target.shape:
            found = "is missing" if source is None else f"has shape {list(source.shape)}"
            raise UserError(
                f"The checkpoint does not fit: {name} {found}, expected {list(target.shape)}; use the network "
                "sizes that it was trained with (they are in the run's config.json)."
            )
        with torch.no_grad():
            target.copy_(source)
