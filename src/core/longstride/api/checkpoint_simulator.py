"""The simulator that the policy of a checkpoint plays: its own, or another one that flags name."""

from pathlib import Path
from typing import Any

from longstride.config import AIMS, PROCESS_OPTIONS, flag_of
from longstride.errors import UserError
from longstride.policies.families.families import family_of
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator, built_in_from_source, from_source
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import SOURCE_FILE, SOURCE_SHA256, located
from longstride.training.assembly.run_settings import load_configured
from longstride.training.assembly.simulator_trust import Consent, require_trusted

_OF_A_SIMULATOR = ("observation_size", "actions", "action_features", "simulator")
"""What must be the same of a checkpoint's simulator and of the one that its policy plays."""

_VERDICTS = "log_tolerance"
"""Setting that changes verdicts and nothing of the simulator, so that it may differ from the checkpoint's."""

SIMULATOR_FLAGS = ("simulator", "scenario", "event_log")
"""Flags that name another simulator than that of a checkpoint."""


def simulator_of(
    settings: Settings, metadata: dict[str, Any], checkpoint: Path, trusted: bool = False
) -> LoadedSimulator:
    """Return the simulator of a checkpoint's metadata, or the one that flags name, with the options that they name.

    A user's source runs if the user has named it and it is that of the checkpoint, or if it is ``trusted``.

    Raises:
        UserError: it cannot be built here, may not run, or is another one than that of the checkpoint.
    """
    config, source = settings.config, source_of_checkpoint(metadata, checkpoint)
    if names_simulator(settings):
        consent = Consent(named=True, trusted=trusted)
        present = {"simulator": config.simulator, "options": config.simulator_options}
        recorded = {key: source[key] for key in (SOURCE_SHA256, SOURCE_FILE) if key in source}
        require_trusted({**present, **recorded}, checkpoint, consent)
        loaded = with_settings_of(load_configured(config), source).compared_with(source)
    else:
        refuse_aims(settings, "the checkpoint's simulator")
        named = settings.sources["simulator"] == "file" and config.simulator == source.get("simulator")
        found, note = located(source)
        require_trusted(found, checkpoint, Consent(named, trusted))
        changes = dict(config.simulator_options) if settings.is_flag("simulator_options") else {}
        if settings.is_flag(_VERDICTS):
            changes[_VERDICTS] = getattr(config, _VERDICTS)
        loaded = from_source(found, changes).compared_with(source, note)
    require_same_simulator(loaded.simulator, metadata, checkpoint)
    return loaded


def built_in_simulator_of(settings: Settings, metadata: dict[str, Any], checkpoint: Path) -> LoadedSimulator:
    """Return the simulator as :func:`simulator_of` does, but run nothing of a user's that this command does not name.

    One that it names need not be unchanged: it is only compared with, or refused for other sizes.

    Raises:
        UserError: the simulator is a user's own, cannot be built here, or is another one than that of the checkpoint.
    """
    if not names_simulator(settings):
        built_in_from_source(source_of_checkpoint(metadata, checkpoint))
    return simulator_of(settings, metadata, checkpoint, trusted=names_simulator(settings))


def with_settings_of(loaded: LoadedSimulator, source: dict[str, Any]) -> LoadedSimulator:
    """Return a simulator with those settings of a checkpoint's that belong to its policy."""
    if not loaded.simulator.hooks.own_settings or source.get("simulator") != loaded.source["simulator"]:
        return loaded
    return loaded.with_options(loaded.simulator.hooks.settings_of(source))


def names_simulator(settings: Settings) -> bool:
    """Return whether flags name another simulator than that of a checkpoint."""
    return any(settings.is_flag(name) for name in SIMULATOR_FLAGS)


def refuse_aims(settings: Settings, process: str) -> None:
    """Check that no flag changes what a process is measured by or what is decided: ``process`` keeps its own.

    Raises:
        UserError: one does.
    """
    for name in ("objective", *AIMS):
        if settings.is_flag(name):
            raise UserError(f"{flag_of(name)}: {process} keeps its own; leave this out.")


def refuse_unread(settings: Settings) -> None:
    """Check that no flag says how a log is read or mined, or where a policy starts, where no simulator is named.

    Raises:
        UserError: one does.
    """
    if names_simulator(settings):
        return
    for name in PROCESS_OPTIONS:
        if settings.is_flag(name) and name not in (*AIMS, _VERDICTS):
            problem = "the checkpoint's simulator was made before and is not made again"
            raise UserError(f"{flag_of(name)}: {problem}; leave this out, or name the log with --event-log.")


def source_of_checkpoint(metadata: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    """Return the JSON values that a checkpoint's simulator is built from.

    Raises:
        UserError: the checkpoint has none.
    """
    source = metadata["source"]
    if not isinstance(source, dict):
        raise UserError(f"The checkpoint in {checkpoint} is damaged: it does not say what it was trained on.")
    return source


def require_same_simulator(simulator: Simulator, metadata: dict[str, Any], checkpoint: Path) -> None:
    """Check that a checkpoint's policy can play a simulator; its class may have moved to another module.

    Raises:
        UserError: the simulator is another one, or its observations or actions are.
    """
    description, policy = simulator.description(), metadata["policy"]
    pairs = {name: (metadata["simulator"].get(name), description.get(name)) for name in _OF_A_SIMULATOR}
    if family_of(policy.get("family", "mlp")).scores_actions:  # which plays with any number of actions
        sizes = {"observation_size": simulator.summary_size, "action_features": simulator.description_size}
        pairs = {**{name: (policy.get(name), size) for name, size in sizes.items()}, "simulator": pairs["simulator"]}
    for name, (saved, present) in pairs.items():
        same = _class_name(saved) == _class_name(present) if name == "simulator" else saved == present
        if not same:
            raise UserError(
                f"The checkpoint in {checkpoint} belongs to a different simulator: "
                f"{name} is {saved} there and {present} here."
            )


def _class_name(simulator: object) -> str:
    return str(simulator).rpartition(":")[2]
