"""What a Config names or where one comes from: its simulator, and the settings that a run was trained with."""

import json
from pathlib import Path
from typing import Any

from core.config import Config, load_values
from core.errors import UserError
from core.simulators.loading import LoadedSimulator, load_simulator

CONFIG_FILE = "config.json"
"""Of a run directory: every value of its Config, and where it came from."""


def load_configured(config: Config) -> LoadedSimulator:
    """Load the simulator that a Config names.

    Raises:
        UserError: there is none, or it cannot be built.
    """
    return load_simulator(
        config.simulator,
        config.scenario,
        config.event_log,
        config.log_columns,
        config.log_arrivals,
        config.simulator_options,
    )


def settings_of_a_run(config: Config, sources: dict[str, str]) -> tuple[Config, str]:
    """Return the settings of the run in a Config's run directory, with the flags of this command in their place.

    Args:
        config: of this command.
        sources: where its values come from.

    Returns:
        The Config, and a line that says so; the Config as it is and no line where that directory holds no run.

    Raises:
        UserError: the run's config.json is damaged, or from a version with other settings.
    """
    values = values_of_a_run(Path(config.run_directory)) if config.run_directory else {}
    if not values:
        return config, ""
    flags = {name: getattr(config, name) for name, source in sources.items() if source == "flag"}
    flags.pop("run_directory", None)
    named = ", ".join(sorted(name.upper() for name in flags))
    line = f"Settings are those of the run in {config.run_directory} (its {CONFIG_FILE})"
    values |= {**flags, "run_directory": config.run_directory}
    return load_values(
        values, str(Path(config.run_directory) / CONFIG_FILE)
    ), f"{line}{f', but for {named}' if named else ''}."


def values_of_a_run(directory: Path) -> dict[str, Any]:
    """Return the settings in a run directory's config.json; none where there is no such file.

    Raises:
        UserError: it is damaged.
    """
    file = directory / CONFIG_FILE
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))["values"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{file} is damaged; name another --run-directory, or remove the file.") from None
