"""From the names in a Config or a checkpoint to a simulator."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from longstride.errors import UserError, one_line, suggestion
from longstride.import_path import search_working_folder_last
from longstride.process.event_logs.event_log import EventLog, read_event_log
from longstride.process.event_logs.reading.options import LogReading, parse_log_columns
from longstride.process.kernel.policy_prior import PRIORS, RULE
from longstride.process.mining.data_warnings import doubts
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario.scenario_file import load_scenario, parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.earlier_names import hint_of, present_name
from longstride.simulators.gym.adapter import PREFIX, GymnasiumSimulator, is_gymnasiums_own
from longstride.simulators.instances import require_parameters, source_of
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import SOURCE_SHA256, source_sha256
from longstride.simulators.validate import require_complete
from longstride.slow_steps import SlowSteps
from longstride.text import Say

PROCESS = "process"
_PRIOR = "prior"
BUILT_IN = {
    "acrobot": "longstride.simulators.classic_control:Acrobot",
    "base_stock": "longstride.simulators.inventory:BaseStock",
    "cartpole": "longstride.simulators.classic_control:CartPole",
    "criss_cross": "longstride.simulators.queueing:CrissCross",
    "hospital": "longstride.simulators.queueing:Hospital",
    "lost_sales": "longstride.simulators.inventory:LostSales",
    "mountain_car": "longstride.simulators.classic_control:MountainCar",
    "mountain_car_continuous": "longstride.simulators.classic_control:MountainCarContinuous",
    "n_model": "longstride.simulators.queueing:NModel",
    "pendulum": "longstride.simulators.classic_control:Pendulum",
    "reentrant_line": "longstride.simulators.queueing:ReentrantLine",
    "tandem": "longstride.simulators.queueing:Tandem",
}


@dataclass(frozen=True)
class LoadedSimulator:
    """A simulator and its source.

    Attributes:
        simulator: complete simulator.
        source: JSON values from which :func:`from_source` builds it again.
        scenario: scenario of a process simulator, else None.
        notes: sentences for the user, for example decisions of the mining of a log.
        log: event log that the scenario was mined from, or None.
    """

    simulator: Simulator
    source: dict[str, Any]
    scenario: Scenario | None = None
    notes: list[str] = field(default_factory=list)
    log: EventLog | None = None


def is_built_in(name: str) -> bool:
    """Return whether a simulator's name runs code of this package or of Gymnasium alone."""
    return name == PROCESS or _built_in(name) is not None or is_gymnasiums_own(name)


def _built_in(name: str) -> str | None:
    """Return the class of a built-in simulator by its short name, or by the name of its class, however long."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, _, kind = present_name(name).rpartition(":")
    same = (path for path in BUILT_IN.values() if path.endswith(f":{kind}"))
    return next((path for path in same if f"{module}.".startswith(f"{path.rpartition(':')[0]}.")), None)


def bundled_scenarios() -> dict[str, Path]:
    """Return the files of the bundled scenarios by name."""
    folder = Path(str(files("longstride.process") / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def find_scenario(name: str) -> Scenario:
    """Read a bundled scenario or a scenario file.

    Raises:
        UserError: no scenario has this name, or it describes an impossible process.
    """
    bundled = bundled_scenarios()
    if name in bundled:
        return load_scenario(bundled[name])
    if not Path(name).suffix and not Path(name).exists():
        ending = suggestion(name, bundled, f"bundled are {', '.join(bundled)}")
        raise UserError(f"There is no scenario {name}, neither bundled nor as a file{ending}")
    return load_scenario(Path(name))


def load_simulator(
    name: str,
    scenario: str,
    event_log: str,
    log_columns: str,
    log_arrivals: str,
    options: Mapping[str, Any] | None = None,
    log_reading: LogReading | None = None,
    say: Say | None = None,
) -> LoadedSimulator:
    """Build the simulator that a Config names.

    Args:
        name: ``"process"``, one of ``BUILT_IN``, ``gymnasium:ID``, ``module:Class`` or ``file.py:Class``.
        scenario: bundled name or file, for the process simulator.
        event_log: file to mine the scenario from; empty for none.
        log_columns: ``case=..,activity=..`` for columns that are not recognised.
        log_arrivals: ``"weekly"`` or ``"replay"``.
        options: keyword arguments of the class or of ``gymnasium.make``, JSON values; the process simulator has none.
        log_reading: format and zone of the log's times, its cases' object type, and what happens to its bad rows.
        say: prints lines about what takes longer than some seconds; None for none.

    Raises:
        UserError: a named thing does not exist or is not usable.
    """
    if name != PROCESS:
        return _class_simulator(name, dict(options or {}))
    _refuse_options(options)
    if not event_log:
        return _process(find_scenario(scenario))
    path = Path(event_log)
    with SlowSteps(say) as steps:
        steps.begin(f"Reading {path.name}")
        log = read_event_log(path, parse_log_columns(log_columns) if log_columns else None, log_reading)
        mined = mine_scenario(log, name=path.name.split(".")[0], arrivals=log_arrivals, steps=steps)
        steps.begin("Making the simulator")
        return _process(mined.scenario, [*mined.notes, *doubts(log)], log)


def from_source(source: dict[str, Any], changes: Mapping[str, Any] | None = None) -> LoadedSimulator:
    """Build the simulator that a checkpoint was trained on.

    Args:
        source: JSON values of the checkpoint, from :class:`LoadedSimulator`.
        changes: options that replace the checkpoint's own of the same name.

    Raises:
        UserError: the simulator cannot be built here.
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
    loaded = _process(parse_scenario(source.get("scenario"), "the checkpoint's scenario"))
    return with_policy_prior(loaded, prior_of(source))


def built_in_from_source(source: Mapping[str, Any]) -> LoadedSimulator:
    """Build the simulator of a checkpoint as :func:`from_source` does, if that runs nothing of a user's.

    Raises:
        UserError: the simulator is a user's own, or cannot be built here.
    """
    name = str(source.get("simulator"))
    if not is_built_in(name):
        raise UserError(f"the run's simulator {name} is Python of its own, which is not run here")
    return from_source(dict(source))


def with_policy_prior(loaded: LoadedSimulator, prior: str) -> LoadedSimulator:
    """Return a process simulator whose untrained policy follows another prior; others as they are."""
    if loaded.scenario is None or getattr(loaded.simulator, "prior", prior) == prior:
        return loaded
    source = {name: value for name, value in loaded.source.items() if name != _PRIOR}
    source |= {} if prior == RULE else {_PRIOR: prior}
    return replace(loaded, simulator=ProcessSimulator(loaded.scenario, prior), source=source)


def prior_of(source: Mapping[str, Any]) -> str:
    """Return the policy prior of a checkpoint's source.

    Raises:
        UserError: no run writes it.
    """
    prior = source.get(_PRIOR, RULE)
    if prior not in PRIORS:
        raise UserError(f"The checkpoint's policy prior is {prior!r:.50}, which no run writes.")
    return str(prior)


def from_instance(simulator: Simulator) -> LoadedSimulator:
    """Return a simulator that a Python program made itself, with its class as its source.

    Raises:
        UserError: an attribute or function is missing or of the wrong kind.
    """
    require_complete(simulator)
    return LoadedSimulator(simulator, source_of(simulator))


def _process(scenario: Scenario, notes: list[str] | None = None, log: EventLog | None = None) -> LoadedSimulator:
    source = {"simulator": PROCESS, "scenario": scenario_content(scenario)}
    return LoadedSimulator(ProcessSimulator(scenario), source, scenario, notes or [], log)


def _class_simulator(name: str, options: dict[str, Any]) -> LoadedSimulator:
    """Build a simulator from the name of its class or environment, or its short name, and its arguments."""
    source: dict[str, Any] = {"simulator": name, "options": options}
    if not is_built_in(name) and (digest := source_sha256(name)):  # before it runs
        source[SOURCE_SHA256] = digest
    if name.startswith(PREFIX):
        if ":" in name.removeprefix(PREFIX):
            search_working_folder_last()
        return LoadedSimulator(GymnasiumSimulator(name.removeprefix(PREFIX), options), source)
    kind = _simulator_class(_built_in(name) or name)
    _check_option_names(name, kind, options)
    try:
        simulator = kind(**options)
    except UserError:
        raise
    except Exception as error:
        given = "with " + ", ".join(f"{option}={value}" for option, value in options.items())
        arguments = given if options else "without arguments (--simulator-option NAME=VALUE gives one)"
        raise UserError(f"{name} cannot be built {arguments}: {type(error).__name__}: {one_line(error)}.") from error
    require_complete(simulator)
    return LoadedSimulator(simulator, source)


def _check_option_names(name: str, kind: type[Simulator], options: Mapping[str, Any]) -> None:
    """Refuse an option that the class's constructor does not name."""
    parameters = inspect.signature(kind).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for option in options:
        if option not in known:
            names = f" (there are {', '.join(known)})" if known else "; it takes none"
            raise UserError(f"{name} has no option {option}{names}{suggestion(option, known)}")


def _refuse_options(options: Mapping[str, Any] | None) -> None:
    if options:
        raise UserError(f"The process simulator has no option {next(iter(options))}; its settings are in its scenario.")


def _simulator_class(name: str) -> type[Simulator]:
    """Import ``module:Class`` or ``file.py:Class``."""
    module_name, _, class_name = name.rpartition(":")
    if not module_name or not class_name:
        built_in = [PROCESS, *BUILT_IN]
        ending = suggestion(name.lower(), built_in, f"built in are {', '.join(built_in)}")
        raise UserError(f"SIMULATOR {name!r} is neither built in nor module:Class nor file.py:Class{ending}")
    module = _module_from_file(Path(module_name)) if module_name.endswith(".py") else _module(module_name)
    kind = getattr(module, class_name, None)
    if kind is None:
        raise UserError(f"{module_name} has no {class_name}{suggestion(class_name, dir(module))}")
    if not (isinstance(kind, type) and issubclass(kind, Simulator)):
        raise UserError(f"{name} is not a subclass of longstride.Simulator.")
    return kind


def _module(name: str) -> ModuleType:
    search_working_folder_last()
    try:
        return importlib.import_module(name)
    except Exception as error:
        sentence = f"Cannot import the simulator's module {name}: {type(error).__name__}: {error}."
        raise UserError(sentence + hint_of(error)) from error


def _module_from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no simulator file {path}.")
    name = f"simulator_file_{path.stem}"  # a name of its own: shop.py must not replace an installed module shop
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # what lies beside the file can be imported, as where Python runs it; the last to win
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        hint = hint_of(error)
        if "relative import" in str(error):
            hint = f" A file of a package is named as PACKAGE.{path.stem}:CLASS, from the folder above."
        raise UserError(f"Cannot run the simulator file {path}: {type(error).__name__}: {error}.{hint}") from error
    return module
