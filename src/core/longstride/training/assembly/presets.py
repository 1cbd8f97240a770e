"""Settings that follow from others: presets, defaults of a policy with a rule, a time budget without a limit.

They adjust what the user left at its default. They know no machine and contain no machine setting.
"""

from typing import Any, NamedTuple

from longstride.config import Config
from longstride.simulators.simulator import Simulator
from longstride.text import format_bytes, format_duration
from longstride.training.assembly.setup import (
    LARGEST_ROLLOUT,
    MOST_INSTANCES,
    group_size,
    most_samples,
    names_a_size,
    whole_groups,
)
from longstride.training.time_budget import NO_LIMIT, Budget, parse_duration


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


GUIDE: dict[str, Any] = {"episodes_per_update": 1, "num_epochs": 10, "batch_size": 65_536}
"""Preset "guide": sizes of learning, one episode an iteration and few large minibatches, for comparisons of speed."""

LARGE_TRANSFORMER: dict[str, Any] = {
    **{"policy_network": "transformer", "actor_hidden_size": 1024, "critic_hidden_size": 1024},
    **{"num_hidden_layers": 8, "attention_heads": 16, "feed_forward_factor": 4, "context_length": 20},
    **{"episodes_per_update": 256, "rollout_steps": 128, "batch_size": 32_768},
}
"""Preset "large_transformer": sizes that a guide for trainers on an H100 arrives at, with rollouts of one minibatch."""

_SIZES = {
    "guide": (GUIDE, "sizes of learning, for comparisons of speed, not for results"),
    "large_transformer": (LARGE_TRANSFORMER, "sizes of a large policy for a GPU, on which it has not run yet"),
}
"""Presets that set sizes, and what for."""

WITH_PRIOR: dict[str, Any] = {
    **{"grow_rollouts": False, "gamma": 0.99, "gae_lambda": 0.97, "learning_rate_actor": 1.5e-3, "num_epochs": 1},
    **{"target_kl": 0.0, "entropy_coefficient": 0.0, "batch_size": 1024, "value_lambda": 0.99},
    **{"adam_epsilon_actor": 1e-3},
}
"""Defaults where a policy starts from a rule of its simulator: small steps, so that it loses nothing."""

_STEPS_WITH_PRIOR = 62_000
"""Environment steps of a rollout there, in whole episodes: at least one."""


def with_defaults(
    config: Config, sources: dict[str, str], simulator: Simulator
) -> tuple[Config, dict[str, str], list[str]]:
    """Take the sizes of a preset, then the defaults of :func:`with_prior`; return lines for people, too."""
    config, sources, size_lines = _with_sizes(config, sources)
    config, sources, prior_lines = with_prior(config, sources, simulator)
    return config, sources, [*size_lines, *prior_lines]


def _with_sizes(config: Config, sources: dict[str, str]) -> tuple[Config, dict[str, str], list[str]]:
    """Take the sizes of the preset that is chosen, if it sets any, where nobody chose others."""
    if config.preset not in _SIZES:
        return config, sources, []
    sizes, what = _SIZES[config.preset]
    changes = {name: value for name, value in sizes.items() if not set_by_user(name, config, sources)}
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in changes.items()}
    values = ", ".join(f"{name.upper()} {value}" for name, value in shown.items())
    line = f"Preset {config.preset} sets {what}: {values or 'none'}."
    return config.model_copy(update=changes), sources | dict.fromkeys(changes, "preset"), [line]


def with_prior(
    config: Config, sources: dict[str, str], simulator: Simulator
) -> tuple[Config, dict[str, str], list[str]]:
    """Take the defaults for a policy that starts from a rule, where it does and nobody chose others.

    Sources are ``"prior"`` for what changed, and a line for people says so.
    """
    scores_actions = config.policy_network == "pointer"
    rules = simulator.initial_logits, simulator.initial_feature_weights
    if all(rule is None for rule in ([simulator.initial_description_weights] if scores_actions else rules)):
        return config, sources, []
    fields = Config.model_fields
    free = [
        name
        for name in WITH_PRIOR
        if getattr(config, name) == fields[name].default and sources.get(name) not in ("flag", "run")
    ]
    changes = {name: WITH_PRIOR[name] for name in free}
    fewer: list[str] = []
    if "grow_rollouts" in changes and not names_a_size(config, simulator):
        sizes, fewer = _sizes_with_prior(config, simulator)
        changes |= sizes
    values = ", ".join(f"{name.upper()} {value}" for name, value in changes.items())
    lines = (
        [f"The policy starts from a rule of the simulator, so the defaults are others: {values}."] if changes else []
    )
    return config.model_copy(update=changes), sources | dict.fromkeys(changes, "prior"), [*lines, *fewer]


def _sizes_with_prior(config: Config, simulator: Simulator) -> tuple[dict[str, Any], list[str]]:
    """Return the size of rollouts as far as memory allows it, and a line where that makes them smaller."""
    episode, group = simulator.expected_steps or simulator.max_steps, group_size(config)
    most, usual = most_samples(config, simulator), round(_STEPS_WITH_PRIOR / episode)
    episodes = min(max(usual, 1), MOST_INSTANCES)
    fitting = min(episodes, max(most // episode, 1))
    sizes = {"episodes_per_update": whole_groups(fitting, group)}
    if episode > 2 * most and group == 1:  # a single trajectory is not copied for the update
        sizes["rollout_steps"] = 2 * most
        reason = f"a part of an episode, {2 * most:,} of about {episode:,} steps"
    elif fitting < episodes:
        reason = f"{fitting} of the usual {episodes} episodes"
    else:
        return sizes, []
    each = format_bytes(LARGEST_ROLLOUT // most)
    return sizes, [
        f"An iteration plays {reason}: each step takes {each} with its copy for the update "
        "(set EPISODES_PER_UPDATE or ROLLOUT_STEPS for another size)."
    ]


def with_preset(
    config: Config, sources: dict[str, str], iteration_steps: int
) -> tuple[Config, dict[str, str], list[str]]:
    """Adjust a Config by its preset, where TRAINING_EPISODES counts so many environment steps each.

    Sources are ``"preset"`` for what changed, and there is a line for each value: set, or left alone.
    """
    if config.preset not in PRESETS:
        return config, sources, []
    preset = PRESETS[config.preset]
    reason = f", {preset.steps:,} steps at about {iteration_steps:,} each"
    values = {
        "training_episodes": (-(-preset.steps // iteration_steps), reason),
        "num_epochs": (preset.epochs, ""),
        "evaluate_every": (preset.evaluate_every, ""),
    }
    changes = {name: value for name, (value, _) in values.items() if not set_by_user(name, config, sources)}
    lines = [
        f"Preset {config.preset}: {name.upper()} = {value}{reason}."
        if name in changes
        else f"Preset {config.preset} leaves {name.upper()} = {getattr(config, name)} alone, set by {sources[name]}."
        for name, (value, reason) in values.items()
    ]
    return config.model_copy(update=changes), sources | dict.fromkeys(changes, "preset"), lines


def with_budget(config: Config, sources: dict[str, str]) -> tuple[Config, dict[str, str], list[str]]:
    """Let a time budget alone end the run where nobody chose a number of iterations; return lines for people, too.

    Raises:
        UserError: the budget is no duration.
    """
    if not config.time_budget:
        return config, sources, []
    chosen = set_by_user("training_episodes", config, sources) or sources.get("training_episodes") == "preset"
    until = f"or {config.training_episodes:,} iterations, whichever comes first" if chosen else "alone"
    duration = format_duration(parse_duration(config.time_budget))
    lines = [f"Time budget {duration} {until}: how much is learned depends on the speed of the machine."]
    if chosen:
        return config, sources, lines
    changed = config.model_copy(update={"training_episodes": NO_LIMIT})
    return changed, {**sources, "training_episodes": "time_budget"}, lines


def budget_of(config: Config) -> Budget | None:
    """Return the time budget of a run, which begins now; None without one."""
    return Budget(parse_duration(config.time_budget)) if config.time_budget else None


def set_by_user(name: str, config: Config, sources: dict[str, str]) -> bool:
    """Return whether a user chose a value: by flag, or in a file by a value other than the default.

    hyperparameters.py lists every name, so a default in it says nothing.
    """
    changed = getattr(config, name) != Config.model_fields[name].default
    return sources.get(name) == "flag" or (sources.get(name) == "file" and changed)
