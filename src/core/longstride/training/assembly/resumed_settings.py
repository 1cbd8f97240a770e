"""Settings of a run that continues: its own from config.json, changed by the flags that are given now."""

from typing import Any

from longstride.config import Config, load_values
from longstride.errors import UserError
from longstride.setting_groups.former import REMOVED, sentences_about
from longstride.settings import Settings
from longstride.training.assembly.run_settings import read_config, require_own_hosts
from longstride.training.run_directory.directory import RunDirectory

_FIXED = (
    *("policy_network", "actor_hidden_size", "critic_hidden_size", "num_hidden_layers", "activation"),
    *("context_length", "attention_heads", "feed_forward_factor", "weight_init", "initial_log_std"),
    "policy_prior",
)
"""Settings of the network, which a run has from its beginning to its end."""


def resumed_settings(given: Settings, given_file: str = "hyperparameters.py") -> Settings:
    """Return the settings with which the run in the given run directory continues, with notes about what is not taken.

    Flags win over the run, and the run wins over the given file. Where the directory holds no run, the settings are
    those that were given.

    Raises:
        UserError: config.json is damaged, or a flag changes what cannot change in a run.
    """
    directory = RunDirectory(given.config.run_directory)
    if not given.config.run_directory or not directory.config.is_file():
        return given
    content, file = read_config(directory), str(directory.config)
    values = content["values"]
    run = load_values({name: value for name, value in values.items() if name in Config.model_fields}, file)
    flags = given.flags()
    _require_same_network(run, flags)
    if "rollout_hosts" not in flags:
        require_own_hosts(run, given.config, directory.path)
    origins = {name: content["sources"].get(name, "run") for name in Config.model_fields}
    if not flags.get("time_budget", run.time_budget) and origins["training_episodes"] == "time_budget":
        flags.setdefault("training_episodes", Config().training_episodes)  # else nothing would end the run
    if run.total_steps and "training_episodes" in flags:
        flags.setdefault("total_steps", 0)
    notes = _unknown(values, file) + sentences_about(values, file)
    if differing := _not_taken(given, run, origins):
        notes.append(f"The run keeps its own settings; {given_file} differs (a flag wins): {'; '.join(differing)}.")
    resumed = run.model_copy(update={**flags, "run_directory": given.config.run_directory})
    return Settings(resumed, origins | dict.fromkeys(flags, "flag"), tuple(notes), is_resumed=True)


def _require_same_network(run: Config, flags: dict[str, Any]) -> None:
    changes = [
        f"{name.upper()} is {flags[name]!r} now and {getattr(run, name)!r} in the run"
        for name in _FIXED
        if name in flags and flags[name] != getattr(run, name)
    ]
    if changes:
        raise UserError(
            f"{', '.join(changes)}: the network of a run cannot change; leave that out, or train a new run in another "
            "--run-directory."
        )


def _unknown(values: dict[str, Any], file: str) -> list[str]:
    """Return a sentence about settings of another version."""
    names = [name.upper() for name in values if name not in Config.model_fields and name not in REMOVED]
    return [f"{file} has settings that this version does not know: {', '.join(names)}."] if names else []


def _not_taken(given: Settings, run: Config, origins: dict[str, str]) -> list[str]:
    """Return the values in the given file that are not those of the run.

    A default there says nothing where a flag, a preset or a policy with a rule chose the run's value.
    """
    config = given.config
    return [
        f"{name.upper()} {getattr(config, name)!r} there, {getattr(run, name)!r} in the run"
        for name, field_ in Config.model_fields.items()
        if given.sources.get(name) == "file"
        and name != "run_directory"
        and getattr(config, name) != getattr(run, name)
        and (origins[name] in ("file", "default", "run") or getattr(config, name) != field_.default)
    ]
