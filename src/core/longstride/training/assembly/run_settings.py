"""Settings of a run: its simulator, and those it was trained with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longstride.config import LOG_LIMITS, PROCESS_OPTIONS, Config, load_values
from longstride.errors import UserError
from longstride.escaping import shell_word
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator, load_simulator
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.read_json import SETTINGS, read_json

_NOT_LEARNED = (
    *("simulation_threads", "update_threads", "episode_time_limit", "checkpoints_kept"),
    *("evaluate_every", "evaluation_episodes", "gradient_checkpointing", "rollout_hosts"),
    *LOG_LIMITS,
)
"""Settings that change no bit of the parameters on the CPU."""

_ORIGINS = {
    "preset": "preset",
    "prior": "the policy's rule",
    "actions": "real-valued actions",
    "bonus": "no entropy bonus",
    "time_budget": "time budget",
}
"""Sources of a value that no flag named, in words."""


def load_configured(config: Config, say: Say | None = None) -> LoadedSimulator:
    """Load the simulator that a Config names; ``say`` prints lines about what takes longer than some seconds.

    Raises:
        UserError: there is none, or it cannot be built.
    """
    return load_simulator(config.simulator, config.options_of_simulator, say).with_objective(config.weights)


def simulator_for(settings: Settings, say: Say | None = None, loaded: LoadedSimulator | None = None) -> LoadedSimulator:
    """Return the simulator of a command, loaded unless it is given, with a remark about settings that it does not use.

    These are settings of a file that only processes have.

    Raises:
        UserError: it cannot be loaded, or a flag gave one of them.
    """
    loaded = loaded or load_configured(settings.config, say)
    if loaded.simulator.hooks.own_settings:
        return loaded
    for name in filter(settings.is_flag, PROCESS_OPTIONS):
        problem = f"{name.upper()} is for processes, and {loaded.source['simulator']} is none"
        raise UserError(f"{problem}; leave it out, or choose the simulator process.")
    chosen = [name.upper() for name in PROCESS_OPTIONS if settings.is_chosen(name)]
    line = f"Settings that only a process has, not used: {', '.join(chosen)}."
    return replace(loaded, remarks=[*loaded.remarks, line]) if chosen else loaded


def settings_of_a_run(given: Settings) -> Settings:
    """Return the complete settings of the run in the given run directory, with the given flags, and a note about them.

    The given settings are returned as they are where that directory holds no run.

    Raises:
        UserError: the run's config.json is damaged, or from a version with other settings.
    """
    directory = RunDirectory(given.config.run_directory)
    values = values_of_a_run(directory) if given.config.run_directory else {}
    if not values:
        return given
    file, flags = directory.config, given.flags()
    if "rollout_hosts" not in flags:
        values.pop("rollout_hosts", None)  # settings of a run are looked at here; its cluster is not asked
    changed = ", ".join(sorted(name.upper() for name in flags))
    line = f"Settings are those of the run in {directory} (its {file.name})"
    run = load_values(values | {**flags, "run_directory": given.config.run_directory}, str(file))
    sources = dict.fromkeys(values, "run") | dict.fromkeys(flags, "flag")
    return Settings(run, sources, (f"{line}{f', but for {changed}' if changed else ''}.",), is_complete=True)


def require_own_hosts(run: Config, given: Config, directory: Path) -> None:
    """Check that a run joins no Ray cluster by an address that only its directory names.

    The processes of a cluster run what the others send them, and a run directory may come from anybody.

    Raises:
        UserError: it would.
    """
    address = run.rollout_hosts
    if address in ("", "auto", given.rollout_hosts) or address.startswith("local:"):
        return
    raise UserError(
        f"The run in {directory} collected on the Ray cluster {address}, whose processes may run code here; if it is "
        f"yours, name it again with --rollout-hosts {shell_word(address)}, else name another or --rollout-hosts ''."
    )


def values_of_a_run(directory: RunDirectory) -> dict[str, Any]:
    """Return the settings in a run directory's config.json; none where there is no such file.

    Raises:
        UserError: the file is damaged.
    """
    return dict(read_config(directory)["values"])


def read_config(directory: RunDirectory) -> dict[str, Any]:
    """Return values, sources and resumes in a run directory's config.json; none where there is no such file.

    Raises:
        UserError: the file is damaged.
    """
    file = directory.config
    if not file.is_file():
        return {"values": {}, "sources": {}, "resumed": []}
    try:
        content = read_json(file, SETTINGS)
        more = {"sources": content.get("sources", {}), "resumed": content.get("resumed", [])}
        return {"values": content["values"], **more}
    except (ValueError, KeyError):
        raise UserError(f"{file} is damaged; name another --run-directory, or remove the file.") from None


def config_content(
    settings: Settings,
    earlier: Mapping[str, Any] | None,
    iteration: int,
    damaged: Sequence[str],
    extensions: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what config.json holds, of a run with so many iterations done and perhaps an earlier config.json.

    These are values, sources, resumes, damaged checkpoints, and the names of a program's parts.
    """
    content = {"values": settings.config.model_dump(), "sources": settings.sources, "passed_over": damaged}
    resumes = resumes_of(settings.config, earlier, iteration) if earlier else []
    return {**content, "resumed": resumes, "extensions": extensions}


def resumes_of(config: Config, earlier: Mapping[str, Any], iteration: int) -> list[dict[str, Any]]:
    """Return the resumes of a run that changed what it learns, with one after so many iterations.

    Each has the iterations that were done (``after_iteration``) and the earlier values (``before``), those of the
    run's earlier config.json.
    """
    left_out, now = (*_NOT_LEARNED, "run_directory"), config.model_dump(mode="json")
    before = {n: v for n, v in earlier["values"].items() if n in now and n not in left_out and now[n] != v}
    changed = [{"after_iteration": iteration, "before": before}] if before else []
    return [*earlier["resumed"], *changed]


def changed_settings(settings: Settings, before: Mapping[str, Any]) -> list[str]:
    """Return lines about the settings that a resume changes; ``before`` are the run's earlier values."""
    sources = settings.sources
    changes = {
        name: f"{name.upper()} {value!r} by {_ORIGINS.get(sources.get(name, ''), 'flag')}, {before[name]!r} in the run"
        for name, value in settings.config.model_dump().items()
        if name in before and before[name] != value and name != "run_directory"
    }
    same = [changes.pop(name) for name in _NOT_LEARNED if name in changes]
    lines = [f"Other settings from here on: {'; '.join(changes.values())}."] if changes else []
    return lines + ([f"Other settings, which change nothing in what is learned: {'; '.join(same)}."] if same else [])
