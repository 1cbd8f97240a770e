"""The process that a search is about: a scenario, an event log, or the process of a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.config import AIMS
from longstride.errors import UserError
from longstride.process.load import PROCESS, bundled_scenarios, from_source
from longstride.process.read_aims import AimSettings, changed, with_aims
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.settings import Settings
from longstride.text import Say
from longstride.training.assembly.run_settings import load_configured
from longstride.training.evaluation.trained_policy import TrainedPolicy, trained_policy
from longstride.training.run_directory.checkpoint import load_run, policy_folder
from longstride.training.run_directory.read_json import object_in

_SCHEMA = "resource-allocation-scenario/"


@dataclass(frozen=True)
class Run:
    """The policy of a run directory or checkpoint."""

    directory: str
    simulator: ProcessSimulator  # of the scenario that it was trained on
    policy: TrainedPolicy


def load_process_run(directory: str, say: Say) -> Run:
    """Read the policy of a run directory or checkpoint.

    Raises:
        UserError: there is none, or it plays no process.
    """
    tensors, metadata = load_run(policy_folder(Path(directory), say), say)
    source = metadata["source"]
    if not isinstance(source, dict) or source.get("simulator") != PROCESS:
        raise UserError(f"The run in {directory} simulates no process.")
    return Run(directory, from_source(source, {}), trained_policy(tensors, metadata))


def process_of(mode: str, settings: Settings, named: str | None, run: Run | None, say: Say) -> Scenario:
    """Return the scenario that a command names, else that of a run, with the aims that settings name.

    Its objective and main metric are left out, since a search sets them.

    Raises:
        UserError: it is named twice, or cannot be read, or is no process.
    """
    flags = [name for name in ("scenario", "event_log") if settings.is_flag(name)]
    if settings.is_flag("objective") or settings.is_flag("main_metric"):
        raise UserError(f"--mode {mode} sets the objective by --metrics; leave --objective and --main-metric out.")
    if named and flags:
        raise UserError(f"The process is named twice; leave out --{flags[0].replace('_', '-')}.")
    if run is not None and not named and not flags:
        c = settings.config
        own = {name: getattr(c, name) for name in AIMS if settings.is_flag(name)}
        return _without_objective(with_aims(run.simulator.scenario, AimSettings(**own)))
    values: dict[str, Any] = {"objective": "", "main_metric": ""}
    if named:
        is_scenario = _is_scenario(named)
        values |= {"scenario": named} if is_scenario else {}
        values["event_log"] = "" if is_scenario else named
    elif flags == ["scenario"]:
        values["event_log"] = ""
    loaded = load_configured(settings.config.model_copy(update=values), say)
    if not isinstance(loaded.simulator, ProcessSimulator):
        raise UserError(f"--mode {mode} is about processes; SIMULATOR has to be process.")
    for line in loaded.notes:
        say(line)
    return _without_objective(loaded.simulator.scenario)


def _is_scenario(name: str) -> bool:
    """Return whether a name is that of a scenario, bundled or in a file, and not that of an event log."""
    if name in bundled_scenarios():
        return True
    path = Path(name)
    if not path.suffix and not path.exists():
        return True  # whose error lists the bundled ones
    content: Mapping[str, Any] = object_in(path) if path.suffix.lower() == ".json" else {}
    return str(content.get("schema", "")).startswith(_SCHEMA)


def _without_objective(scenario: Scenario) -> Scenario:
    return changed(scenario, {"objective": {}, "main_metric": None})
