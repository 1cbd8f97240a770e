"""From the names in a Config or a checkpoint to a simulator."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from core.errors import UserError
from core.simulators.gym.adapter import PREFIX, GymnasiumSimulator
from core.simulators.instances import require_parameters, source_of
from core.simulators.process.scenario import Scenario, load_scenario, parse_scenario, scenario_content
from core.simulators.simulator import Simulator, require_complete

PROCESS = "process"
CLASSIC_CONTROL = {
    "acrobot": "core.simulators.classic_control:Acrobot",
    "cartpole": "core.simulators.classic_control:CartPole",
    "mountain_car": "core.simulators.classic_control:MountainCar",
    "mountain_car_continuous": "core.simulators.classic_control:MountainCarContinuous",
    "pendulum": "core.simulators.classic_control:Pendulum",
}


@dataclass(frozen=True)
class LoadedSimulator:
    """A simulator and where it comes from.

    Attributes:
        simulator: ready to be compiled.
        source: JSON values from which :func:`from_source` makes it again.
        scenario: of a process simulator, else None.
        notes: sentences for the user, for example what mining a log decided.
        log: the event log that the scenario was mined from, or None.
    """

    simulator: Simulator
    source: dict[str, Any]
    scenario: Scenario | None = None
    notes: list[str] = field(default_factory=list)
    log: Any = None


def bundled_scenarios() -> dict[str, Path]:
    """Return the scenarios that come with the project: name -> file."""
    folder = Path(str(files("core.simulators.process") / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def find_scenario(name: str) -> Scenario:
    """Read a bundled scenario or a scenario file.

    Raises:
        UserError: there is none of this name, or it describes an impossible process.
    """
    bundled = bundled_scenarios()
    if name in bundled:
        return load_scenario(bundled[name])
    if not Path(name).suffix and not Path(name).exists():
        near = get_close_matches(name, bundled, 1)
        hint = f"did you mean {near[0]}?" if near else f"bundled are {', '.join(bundled)}."
        raise UserError(f"There is no scenario {name}, neither bundled nor as a file; {hint}")
    return load_scenario(Path(name))


def load_simulator(
    name: str,
    scenario: str,
    event_log: str,
    log_columns: str,
    log_arrivals: str,
    options: Mapping[str, Any] | None = None,
) -> LoadedSimulator:
    """Build the simulator that a Config names.

    Args:
        name: ``"process"``, one of ``CLASSIC_CONTROL``, ``gymnasium:ID``, ``module:Class`` or ``file.py:Class``.
        scenario: bundled name or file, for the process simulator.
        event_log: file to mine the scenario from; empty for none.
        log_columns: ``case=..,activity=..`` for columns that are not recognised.
        log_arrivals: ``"weekly"`` or ``"replay"``.
        options: keyword arguments of the class or of ``gymnasium.make``, JSON values; the process simulator has none.

    Raises:
        UserError: something named does not exist or is not usable.
    """
    if name != PROCESS:
        return _class_simulator(name, dict(options or {}))
    _refuse_options(options)
    if event_log:
        return _from_log(Path(event_log), log_columns, log_arrivals)
    return _process(find_scenario(scenario))


def from_source(source: dict[str, Any], changes: Mapping[str, Any] | None = None) -> LoadedSimulator:
    """Build the simulator that a checkpoint was trained on.

    Args:
        source: of the checkpoint.
        changes: options that replace the checkpoint's own of the same name.

    Raises:
        UserError: it cannot be built here.
    """
    options = source.get("options", {})
    if not isinstance(options, dict):
        raise UserError(f"The checkpoint's simulator options are {options!r:.50}, which no run writes.")
    if source.get("simulator") != PROCESS:
        loaded = _class_simulator(str(source.get("simulator")), {**options, **(changes or {})})
        if not changes:
            require_parameters(loaded.simulator, source)
        return loaded
    _refuse_options(changes)
    return _process(parse_scenario(source.get("scenario"), "the checkpoint's scenario"))


def from_instance(simulator: Simulator) -> LoadedSimulator:
    """Return a simulator that a Python program made itself, with its class as its source.

    Raises:
        UserError: something is missing or of the wrong kind.
    """
    require_complete(simulator)
    return LoadedSimulator(simulator, source_of(simulator))


def _process(scenario: Scenario, notes: list[str] | None = None, log: Any = None) -> LoadedSimulator:
    from core.simulators.process.simulator import ProcessSimulator

    source = {"simulator": PROCESS, "scenario": scenario_content(scenario)}
    return LoadedSimulator(ProcessSimulator(scenario), source, scenario, notes or [], log)


def _from_log(path: Path, columns: str, arrivals: str) -> LoadedSimulator:
    from core.simulators.process.event_logs.event_log import parse_log_columns, read_event_log
    from core.simulators.process.event_logs.mine_scenario import mine_scenario

    log = read_event_log(path, parse_log_columns(columns) if columns else None)
    mined = mine_scenario(log, name=path.name.split(".")[0], arrivals=arrivals)
    return _process(mined.scenario, list(mined.notes), log)


def _class_simulator(name: str, options: dict[str, Any]) -> LoadedSimulator:
    """Build a simulator from the name of its class or environment, or its short name, and its arguments."""
    if name.startswith(PREFIX):
        environment = GymnasiumSimulator(name.removeprefix(PREFIX), options)
        return LoadedSimulator(environment, {"simulator": name, "options": options})
    kind = _simulator_class(CLASSIC_CONTROL.get(name, name))
    _check_option_names(name, kind, options)
    given = ", ".join(f"{option}={value}" for option, value in options.items())
    try:
        simulator = kind(**options)
    except UserError:
        raise
    except Exception as error:
        how = f"with {given}" if options else "without arguments (--simulator-option NAME=VALUE gives one)"
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(f"{name} cannot be built {how}: {type(error).__name__}: {reason}.") from error
    require_complete(simulator)
    return LoadedSimulator(simulator, {"simulator": name, "options": options})


def _check_option_names(name: str, kind: type[Simulator], options: Mapping[str, Any]) -> None:
    """Refuse an option that the class's constructor does not name."""
    parameters = inspect.signature(kind).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, 1)
            there = f" (there are {', '.join(known)})" if known else "; it takes none"
            raise UserError(f"{name} has no option {option}{there}" + (f"; did you mean {near[0]}?" if near else "."))


def _refuse_options(options: Mapping[str, Any] | None) -> None:
    if options:
        raise UserError(f"The process simulator has no option {next(iter(options))}; its settings are in its scenario.")


def _simulator_class(name: str) -> type[Simulator]:
    """Import ``module:Class`` or ``file.py:Class``."""
    module_name, _, class_name = name.rpartition(":")
    if not module_name or not class_name:
        built_in = [PROCESS, *CLASSIC_CONTROL]
        near = get_close_matches(name.lower(), built_in, 1)
        hint = f"did you mean {near[0]}?" if near else f"built in are {', '.join(built_in)}."
        raise UserError(f"SIMULATOR {name!r} is neither built in nor module:Class nor file.py:Class; {hint}")
    module = _module_from_file(Path(module_name)) if module_name.endswith(".py") else _module(module_name)
    kind = getattr(module, class_name, None)
    if kind is None:
        near = get_close_matches(class_name, dir(module), 1)
        raise UserError(f"{module_name} has no {class_name}" + (f"; did you mean {near[0]}?" if near else "."))
    if not (isinstance(kind, type) and issubclass(kind, Simulator)):
        raise UserError(f"{name} is not a subclass of core.simulators.simulator.Simulator.")
    return kind


def _module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UserError(f"Cannot import the simulator's module {name}: {type(error).__name__}: {error}.") from error


def _module_from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no simulator file {path}.")
    name = f"simulator_file_{path.stem}"  # a name of its own: shop.py must not replace an installed module shop
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"Cannot run the simulator file {path}: {type(error).__name__}: {error}.") from error
    return module
