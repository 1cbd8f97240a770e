"""Settings of a run that are not the defaults, and how to repeat it."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from longstride.escaping import shell_word
from longstride.report.page import Block, Code, Section, Table, Text, plain
from longstride.report.run_data import RunData
from longstride.version import __version__

_ORIGIN = {
    "flag": "flag, or set in Python",
    "file": "hyperparameters file",
    "preset": "preset",
    "prior": "policies that start from a rule",
    "simulation": "short simulation before the first iteration",
    "actions": "real-valued actions",
    "bonus": "no entropy bonus",
    "time_budget": "time budget",
    "run": "default, as an earlier version had no such setting",
    "default": "default",
}
"""Sources of config.json in words."""

_PACKAGES = "torch", "numpy", "numba"


def changed_settings(run: RunData, defaults: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return name -> (value, default) of the settings that differ from the defaults."""
    names = [name for name in run.settings if name != "run_directory"]
    return {n: (run.settings[n], defaults.get(n)) for n in names if n in defaults and run.settings[n] != defaults[n]}


def settings_section(run: RunData, defaults: Mapping[str, Any]) -> Section:
    """Return the settings that differ from the defaults."""
    if not run.settings:
        return Section(
            "settings", "Settings", [Text(["config.json is missing, so the settings are not known."], "missing")]
        )
    changed = changed_settings(run, defaults)
    rows = [
        plain(name.upper(), _show(value), _show(default), _ORIGIN.get(run.sources.get(name, ""), ""))
        for name, (value, default) in changed.items()
    ]
    block: Block = Text(["Every setting is the default."])
    if rows:
        headers = ["setting", "value", "default", "came from"]
        block = Table("Settings that are not the default", headers, rows, numeric=False)
    return Section("settings", "Settings", [block])


def reproduction_section(run: RunData, train: str, commands: Mapping[str, str]) -> Section:
    """Return the commands that repeat a run, and what has to be the same for it.

    Args:
        run: the run.
        train: command that trains it.
        commands: further commands by what they do.
    """
    rows = [plain("seed", run.settings.get("seed", "not known")), plain("Longstride", __version__)]
    rows += [plain(name, _version(name)) for name in _PACKAGES]
    rows += [plain("Python", platform.python_version()), plain("system", platform.platform())]
    source = run.checkpoint.get("simulator", {})
    rows += [plain("simulator", source["simulator"])] if "simulator" in source else []
    rows += (
        [plain("scenario", f"{source['scenario']}, SHA-256 {source['scenario_sha256']}")]
        if "scenario_sha256" in source
        else []
    )
    digest = run.records[-1].get("trajectory_sha256")
    rows += [plain("last trajectories", f"SHA-256 {digest}")] if digest else []
    words = [
        "The same seed, settings, versions and processor give bit-identical parameters on a CPU. "
        "Versions and system are those of the machine that wrote this page."
    ]
    blocks: list[Block] = [Text(words)]
    blocks += [Text([_of_resumes(run.resumed)], "warning")] if run.resumed else []
    blocks += [Code(title, [command]) for title, command in {"Train it again": train, **commands}.items() if command]
    blocks.append(Table("What it was made with", ["", ""], rows, numeric=False))
    return Section("reproduce", "How to reproduce it", blocks)


def _of_resumes(resumed: Sequence[Mapping[str, Any]]) -> str:
    """Return what the command that trains a run again cannot repeat."""
    parts = []
    for each in resumed:
        values = ", ".join(f"{name.upper()} {_show(value)}" for name, value in each["before"].items())
        parts.append(f"{values} until iteration {each['after_iteration']}")
    return (
        f"The run was resumed with other settings; it had {'; '.join(parts)}. The command below has the last ones from "
        "the first iteration on, so it trains another run."
    )


def quoted(path: Any) -> str:
    """Return a path for a shell."""
    return shell_word(str(path))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _show(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
