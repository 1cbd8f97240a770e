"""What share of a card an update would use, and which larger runs would use more of it; predicted, not measured."""

from dataclasses import dataclass

from longstride.hardware.planning.choices import has_room
from longstride.hardware.types import Gpu, Machine
from longstride.learning.step_costs.prediction import Prediction, predict_update
from longstride.text import counted, format_duration, percent
from longstride.training.assembly.plan import plan_run, plan_settings
from longstride.training.assembly.setup import Setup

_LARGER = 4
"""Factor by which the network, or the number of instances, is made larger."""


@dataclass(frozen=True)
class CardUse:
    """A run on a card: what is larger than planned, the seconds of an update, and their share of computing."""

    change: str  # what is larger, with its flags; empty for the run as it is planned
    seconds: float  # of an update
    samples: int  # of an update
    computing: float  # share of these seconds that the arithmetic would take at the card's peak


def use_of(prediction: Prediction, samples: int, change: str = "") -> list[CardUse]:
    """Return the use by an update in a list; an empty one if no figures of the card are known."""
    seconds = prediction.update_seconds
    return [CardUse(change, seconds, samples, prediction.seconds["arithmetic"] / seconds)] if seconds else []


def larger_uses(setup: Setup, machine: Machine, gpu: Gpu, minibatch: int) -> list[CardUse]:
    """Return what a larger network, larger minibatches and more instances would use, each alone, if they fit.

    Args:
        setup: run as it is planned.
        machine: machine with the card.
        gpu: the card.
        minibatch: largest minibatch that the plan could take.
    """
    config, found = setup.config, list[CardUse]()
    actor, critic = min(_LARGER * config.actor_hidden_size, 4096), min(_LARGER * config.critic_hidden_size, 16384)
    instances = _LARGER * setup.size.instances
    changes: dict[str, dict[str, int]] = {
        f"a wider network (--actor-hidden-size {actor} --critic-hidden-size {critic})": {
            "actor_hidden_size": actor,
            "critic_hidden_size": critic,
        },
        f"larger minibatches (--batch-size {minibatch})": {"batch_size": max(minibatch, config.batch_size)},
    }
    if not setup.size.first:  # a run whose rollouts grow chooses the number itself
        changes[f"more instances (--num-envs {instances})"] = {"num_envs": instances}
    for change, values in changes.items():
        larger = setup.changed(**values)
        settings = plan_settings(larger)
        if any(getattr(config, name) != value for name, value in values.items()) and has_room(gpu, settings):
            plan = plan_run(larger, machine)
            prediction = predict_update(larger.spec, plan, gpu, settings.samples, config.num_epochs)
            found += use_of(prediction, settings.samples, change)
    return found


def format_use(now: CardUse, binding: str, larger: list[CardUse]) -> list[str]:
    """Return sentences about the card's use, about the steps that updates allow, and about what would use more."""
    share = f"The card would compute for {_share(now.computing)} of an update"
    lines = [f"{share}; {binding} {_TAKE[binding]} longest (predicted).", _limit(now)]
    if larger:
        shown = [f"{each.change} {_share(each.computing)}{_cost(each, now)}" for each in larger]
        lines.append(f"Larger runs would compute for this share: {'; '.join(shown)}.")
    return lines


_TAKE = {"arithmetic": "takes", "traffic": "takes", "launches": "take", "transfers": "take"}


def _limit(use: CardUse) -> str:
    """Return the steps a second that updates would allow if collecting took no time."""
    predicted, at_peak = (use.samples / seconds for seconds in (use.seconds, use.seconds * use.computing))
    return f"Updates alone allow {_rounded(predicted)} steps/s, and {_rounded(at_peak)} at the card's peak (predicted)."


def _rounded(rate: float) -> str:
    """Return a rate with three digits that count."""
    return f"{float(f'{rate:.3g}'):,.0f}"


def _share(share: float) -> str:
    return percent(share, 1.0, 0 if share >= 0.1 else 1)


def _cost(use: CardUse, now: CardUse) -> str:
    samples = "" if use.samples == now.samples else f" for {counted(use.samples, 'sample')}"
    return f", {format_duration(use.seconds)} an update{samples}"
