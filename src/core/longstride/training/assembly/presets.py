"""The completion of settings: presets, defaults of a policy with a rule, a time budget without a limit.

They adjust what the user left at its default. They know no machine and contain no machine setting.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from longstride.config import Config
from longstride.policies.families.families import FAMILIES
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator
from longstride.simulators.simulator import Simulator
from longstride.text import format_duration
from longstride.training.assembly.algorithm import build_algorithm
from longstride.training.assembly.setup import Setup, set_up
from longstride.training.assembly.sizes import names_a_size, sizes_with_prior
from longstride.training.extensions import NO_EXTENSIONS, Extensions
from longstride.training.time_budget import NO_LIMIT, Budget, NoBudget


class Preset(NamedTuple):
    """Environment steps of the whole run, epochs of an update, iterations from one evaluation to the next."""

    steps: int
    epochs: int
    evaluate_every: int


PRESETS = {
    "quick_test": Preset(10_000_000, 10, 25),
    "standard": Preset(50_000_000, 12, 50),
    "production": Preset(200_000_000, 15, 100),
    "extended": Preset(500_000_000, 20, 200),
}


GUIDE: dict[str, Any] = {"num_envs": 1, "num_epochs": 10, "batch_size": 65_536}
"""Preset "guide": sizes of learning, one episode an iteration and few large minibatches, for comparisons of speed."""

LARGE_TRANSFORMER: dict[str, Any] = {
    **{"policy_network": "transformer", "actor_hidden_size": 1024, "critic_hidden_size": 1024},
    **{"num_hidden_layers": 8, "attention_heads": 16, "feed_forward_factor": 4, "context_length": 20},
    **{"num_envs": 256, "rollout_steps": 128, "batch_size": 32_768},
}
"""Preset "large_transformer": sizes that a guide for trainers on an H100 arrives at, with rollouts of one minibatch."""

_SIZES = {
    "guide": (GUIDE, "sizes of learning, for comparisons of speed, not for results"),
    "large_transformer": (LARGE_TRANSFORMER, "sizes of a large policy for a GPU"),
}
"""Presets that set sizes, and what for."""

WITH_PRIOR: dict[str, Any] = {
    **{"grow_rollouts": False, "gamma": 0.99, "gae_lambda": 0.97, "learning_rate_actor": 1.5e-3, "num_epochs": 1},
    **{"target_kl": 0.0, "entropy_coefficient": 0.0, "entropy_target": 0.0, "batch_size": 1024, "value_lambda": 0.99},
    **{"adam_epsilon_actor": 1e-3},
}
"""Defaults where a policy starts from a rule of its simulator: small steps, so that it loses nothing."""

REAL_VALUED: dict[str, Any] = {"entropy_coefficient": 0.0}
"""Defaults for real-valued actions: a bonus would keep their deviations large, and a mean that is best with large ones
is not best with small ones."""

MANY_ACTIONS = 1_000
"""Actions from which a policy scores the feasible ones: an output for each makes a step's trajectory 14 kB or more."""


def with_defaults(settings: Settings, simulator: Simulator) -> Settings:
    """Take the sizes of a preset, a network for many actions, defaults without a bonus, for real actions, for rules."""
    settings = _with_sizes(settings)
    settings = with_network_for_many(settings, simulator)
    settings = without_bonus(settings)
    settings = with_real_defaults(settings, simulator)
    return apply_prior_defaults(settings, simulator)


def without_bonus(settings: Settings) -> Settings:
    """Take no target for the entropy where a user wants no bonus, unless they chose a target or a run goes on."""
    config = settings.config
    has_bonus = config.entropy_coefficient > 0.0 or config.entropy_coefficient_final > 0.0
    if has_bonus or settings.is_chosen("entropy_target") or settings.is_resumed:
        return settings
    return settings.changed({"entropy_target": 0.0}, "bonus")


def with_real_defaults(settings: Settings, simulator: Simulator) -> Settings:
    """Take the defaults for real-valued actions, where actions are, unless a user chose others or a run goes on."""
    asked = any(settings.is_chosen(name) for name in ("entropy_coefficient", "entropy_coefficient_final"))
    if simulator.action_space.choices or asked or settings.is_resumed:
        return settings
    return settings.changed(REAL_VALUED, "actions")


def with_network_for_many(settings: Settings, simulator: Simulator) -> Settings:
    """Take a network that scores descriptions, where actions are many, described, and no one chose a network."""
    actions = sum(simulator.action_space.choices) if simulator.description_size and simulator.compiled else 0
    chosen = any(settings.is_chosen(name) for name in ("policy_network", "kl_coefficient"))
    if actions < MANY_ACTIONS or chosen or settings.config.policy_network != Config().policy_network:
        return settings
    scoring = next(name for name, family in FAMILIES.items() if family.scores_actions)
    note = (
        f"POLICY_NETWORK = {scoring}, because a separate output for each of {actions:,} actions takes much time and "
        f"memory. It scores each feasible action, and also works with different people (--policy-network "
        f"{settings.config.policy_network} for the standard one)."
    )
    return settings.changed({"policy_network": scoring}, "simulation", [note])


def _with_sizes(settings: Settings) -> Settings:
    """Take the sizes of the preset that is chosen, if it sets any, where nobody chose others."""
    if settings.config.preset not in _SIZES:
        return settings
    sizes, what = _SIZES[settings.config.preset]
    changes = {name: value for name, value in sizes.items() if not settings.is_chosen(name)}
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in changes.items()}
    values = ", ".join(f"{name.upper()} {value}" for name, value in shown.items())
    return settings.changed(changes, "preset", [f"Preset {settings.config.preset} sets {what}: {values or 'none'}."])


def apply_prior_defaults(settings: Settings, simulator: Simulator) -> Settings:
    """Take the defaults for a policy that starts from a rule, where it does and nobody chose others."""
    config = settings.config
    if all(rule is None for rule in FAMILIES[config.policy_network].rules_of(simulator)):
        return settings
    fields = Config.model_fields
    free = [
        name
        for name in WITH_PRIOR
        if getattr(config, name) == fields[name].default and settings.sources.get(name) not in ("flag", "run")
    ]
    changes = {name: WITH_PRIOR[name] for name in free}
    fewer: list[str] = []
    if "grow_rollouts" in changes and not names_a_size(config, simulator):
        sizes, fewer = sizes_with_prior(config, simulator, build_algorithm(config).group_size)
        changes |= sizes
    values = ", ".join(f"{name.upper()} {value}" for name, value in changes.items())
    lines = (
        [f"The policy starts from a rule of the simulator, so these settings differ from the usual defaults: {values}."]
        if changes
        else []
    )
    return settings.changed(changes, "prior", [*lines, *fewer])


def with_preset(settings: Settings, iteration_steps: int) -> Settings:
    """Adjust settings by their preset, where TRAINING_EPISODES counts so many environment steps each.

    There is a note for each value: set, or left alone.
    """
    config = settings.config
    if config.preset not in PRESETS:
        return settings
    preset = PRESETS[config.preset]
    reason = f", {preset.steps:,} steps at about {iteration_steps:,} each"
    values = {
        "training_episodes": (-(-preset.steps // iteration_steps), reason),
        "num_epochs": (preset.epochs, ""),
        "evaluate_every": (preset.evaluate_every, ""),
    }
    by_rule = {name for name, source in settings.sources.items() if source == "prior"}
    free = [name for name in values if not settings.is_chosen(name) and name not in by_rule]
    changes = {name: values[name][0] for name in free}
    notes = [
        f"Preset {config.preset}: {name.upper()} = {value}{reason}."
        if name in changes
        else f"Preset {config.preset} leaves {name.upper()} = {getattr(config, name)} alone, set by "
        f"{'the rule that the policy starts from' if name in by_rule else settings.sources[name]}."
        for name, (value, reason) in values.items()
    ]
    return settings.changed(changes, "preset", notes)


def with_length(settings: Settings, counted: int) -> Settings:
    """Take the length of a run from its preset, from TOTAL_STEPS, or from its time budget alone.

    TRAINING_EPISODES counts so many environment steps each. A preset and a time budget leave a number that the user
    chose.
    """
    config, settings = settings.config, with_preset(settings, counted)
    if config.total_steps:
        episodes = -(-config.total_steps // counted)
        note = f"TOTAL_STEPS sets TRAINING_EPISODES = {episodes:,}, about {counted:,} steps each."
        return settings.changed({"training_episodes": episodes}, "total_steps", [note])
    by_preset = settings.sources.get("training_episodes") == "preset"
    if not config.time_budget or by_preset or settings.is_chosen("training_episodes"):
        return settings
    return settings.changed({"training_episodes": NO_LIMIT}, "time_budget")


def complete(settings: Settings, loaded: LoadedSimulator, extensions: Extensions = NO_EXTENSIONS) -> Setup:
    """Return the setup of a run with all that follows from its settings: defaults, preset, time budget, sizes.

    Settings that are complete already, as those of a run that is looked at, stay as they are.

    Raises:
        UserError: settings contradict each other or the simulator.
    """
    if not settings.is_complete:
        settings = with_defaults(settings, loaded.simulator)
        settings = replace(with_length(settings, set_up(settings, loaded).size.counted), is_complete=True)
    return set_up(settings, loaded, extensions)


def budget_lines(settings: Settings, budget: Budget | NoBudget) -> list[str]:
    """Return what :func:`with_length` let end a run, for people; nothing without a time budget."""
    if isinstance(budget, NoBudget):
        return []
    by_time = settings.sources.get("training_episodes") == "time_budget"
    iterations = f"or {settings.config.training_episodes:,} iterations, whichever comes first"
    duration = format_duration(budget.seconds)
    until = "alone" if by_time else iterations
    return [f"Time budget {duration} {until}: how much is learned depends on the speed of the machine."]
