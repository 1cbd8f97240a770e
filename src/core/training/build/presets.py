"""Presets: how long a run trains and how often it is evaluated, and nothing else.

A preset adjusts what the user left at its default. It knows no machine, and no machine setting is in it.
"""

from typing import NamedTuple

from core.config import Config


class Preset(NamedTuple):
    """Decisions played in the whole run, passes over each round's samples, rounds from one evaluation to the next."""

    decisions: int
    epochs: int
    evaluate_every: int


PRESETS = {
    "quick_test": Preset(10_000_000, 10, 25),
    "standard": Preset(50_000_000, 12, 50),
    "production": Preset(200_000_000, 15, 100),
    "extended": Preset(500_000_000, 20, 200),
}


def with_preset(
    config: Config, sources: dict[str, str], decisions_per_round: int
) -> tuple[Config, dict[str, str], list[str]]:
    """Adjust a Config by its preset.

    Args:
        config: with the name of the preset, or none.
        sources: where each value comes from.
        decisions_per_round: of a training episode.

    Returns:
        The Config, the sources with ``"preset"`` for what changed, and a line for each value: set, or left alone.
    """
    if not config.preset:
        return config, sources, []
    wanted = _values(PRESETS[config.preset], decisions_per_round)
    changes = {name: value for name, (value, _) in wanted.items() if not set_by_user(name, config, sources)}
    lines = [
        f"Preset {config.preset}: {name.upper()} = {value}{why}."
        if name in changes
        else f"Preset {config.preset} leaves {name.upper()} = {getattr(config, name)} alone, set by {sources[name]}."
        for name, (value, why) in wanted.items()
    ]
    return config.model_copy(update=changes), sources | dict.fromkeys(changes, "preset"), lines


def set_by_user(name: str, config: Config, sources: dict[str, str]) -> bool:
    """Return whether a user chose a value: by flag, or in a file by another value than the default.

    hyperparameters.py lists every name, so that a default stands in it says nothing.
    """
    changed = getattr(config, name) != Config.model_fields[name].default
    return sources.get(name) == "flag" or (sources.get(name) == "file" and changed)


def _values(preset: Preset, decisions_per_round: int) -> dict[str, tuple[int, str]]:
    rounds = -(-preset.decisions // decisions_per_round)
    why = f", {preset.decisions:,} decisions at about {decisions_per_round:,} each"
    rest = {"num_epochs": (preset.epochs, ""), "evaluate_every": (preset.evaluate_every, "")}
    return {"training_episodes": (rounds, why), **rest}
