"""Builds a process simulator with its hooks from options or from a checkpoint."""

from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from longstride.config import validated
from longstride.errors import UserError, suggestion
from longstride.process.choose_prior import AUTO, prior_of
from longstride.process.event_logs.event_log import EventLog, read_event_log
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.event_logs.reading.attributes import read_attributes
from longstride.process.fidelity.base import logged_figures
from longstride.process.hooks import Origin, with_hooks
from longstride.process.kernel.policy_prior import RULE
from longstride.process.mining.classes.choose import AUTO as AUTO_CLASSES
from longstride.process.mining.classes.choose import with_classes
from longstride.process.mining.data_warnings import data_warnings, too_many_activities
from longstride.process.mining.delays.service_order import with_column
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.options import TOLERANCE, ProcessOptions, process_options
from longstride.process.read_aims import require_classes, with_aims
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import load_scenario, parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.settings import Settings
from longstride.slow_steps import SlowSteps
from longstride.text import Say

PROCESS = "process"


def bundled_scenarios() -> dict[str, Path]:
    """Return the files of the bundled scenarios by name."""
    folder = Path(str(files("longstride.process") / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def find_scenario(name: str) -> Scenario:
    """Read a bundled scenario or a scenario file.

    Raises:
        UserError: no scenario has this name, or the scenario describes an impossible process.
    """
    bundled = bundled_scenarios()
    if name in bundled:
        return load_scenario(bundled[name])
    if not Path(name).suffix and not Path(name).exists():
        ending = suggestion(name, bundled, f"bundled are {', '.join(bundled)}")
        raise UserError(f"There is no scenario {name}, neither bundled nor as a file{ending}")
    return load_scenario(Path(name))


def make_process(*, say: Say | None = None, **given: Any) -> ProcessSimulator:
    """Build the process simulator of a scenario, or mine its scenario from an event log.

    Args:
        say: prints lines about steps that take longer than some seconds; None for none.
        given: options by the names of :class:`longstride.process.options.ProcessOptions` and of its parts.

    Raises:
        UserError: an option is unknown, or a file cannot be used.
    """
    options = process_options(given)
    columns: LogColumns | None = None
    if options.classes and not options.event_log:
        raise UserError(f"CLASSES is {options.classes!r}, but there is no EVENT_LOG with columns; name one.")
    if not options.event_log:
        made, origin = find_scenario(options.scenario), Origin(scenario_file=options.scenario)
    else:
        made, origin = _mine(options, say)
        assert origin.log is not None  # it has just been mined
        require_classes(made, options.classes, options.aims)
        columns = LogColumns(origin.log, Path(options.event_log), options.columns, options.reading, origin.notes)
    if options.event_log or options.log_tolerance != TOLERANCE:  # else a file keeps its own
        made = with_tolerance(made, options.log_tolerance)
    made = with_aims(made, options.aims, columns)
    is_open = options.policy_prior == AUTO
    return with_hooks(made, RULE if is_open else options.policy_prior, origin, is_open)


def from_source(source: Mapping[str, Any], changes: Mapping[str, Any]) -> ProcessSimulator:
    """Build the process simulator of a checkpoint; its source contains the scenario, so no file is read.

    Raises:
        UserError: the source is none that a run writes, or an option would change it.
    """
    for name in changes.keys() - {"log_tolerance"}:
        raise UserError(f"A run of a process keeps its scenario and prior; --simulator-option {name} cannot change it.")
    chosen = validated(dict(changes), {name: f"--simulator-option {name}" for name in changes})
    scenario = parse_scenario(source.get("scenario"), "the checkpoint's scenario")
    return with_hooks(with_tolerance(scenario, chosen.log_tolerance if changes else None), prior_of(source))


def chosen_tolerance(settings: Settings) -> float | None:
    """Return the tolerance of this command; None if none was chosen, so that a scenario keeps its own."""
    return settings.config.log_tolerance if settings.is_chosen("log_tolerance") else None


def with_tolerance(scenario: Scenario, tolerance: float | None) -> Scenario:
    """Return a scenario whose figures of a log have another tolerance, unless it has none or ``tolerance`` is None."""
    if scenario.logged is None or tolerance is None:
        return scenario
    return scenario.model_copy(update={"logged": scenario.logged.model_copy(update={"tolerance": tolerance})})


def read_classified_log(options: ProcessOptions) -> EventLog:
    """Return an event log, its activities split by the classes of its cases if the setting CLASSES names some.

    Raises:
        UserError: the log cannot be read, or has no such column.
    """
    path, columns, reading = Path(options.event_log), options.columns, options.reading
    log = with_column(read_event_log(path, columns, reading), partial(read_attributes, path, columns, reading))
    if not options.classes:
        return log
    wanted = "" if options.classes == AUTO_CLASSES else options.classes
    return with_classes(log, read_attributes(path, columns, reading, wanted), options.classes)


def _mine(options: ProcessOptions, say: Say | None) -> tuple[Scenario, Origin]:
    """Return the scenario of an event log, and its origin."""
    path = Path(options.event_log)
    with SlowSteps(say) as steps:
        steps.begin(f"Reading {path.name}")
        log = read_classified_log(options)
        early = too_many_activities(log) if say else ""
        if say and early:
            say(f"Warning: {early}")  # before the minutes that it is about
        mined = mine_scenario(log, name=path.name.split(".")[0], arrivals=options.log_arrivals, steps=steps)
        steps.begin("Making the simulator")
        warnings = data_warnings(log)
        notes = [*mined.notes, *(note for note in warnings if note != f"Warning: {early}")]
        of_mining = [note for note in mined.notes if note.startswith("Warning: ")]
        logged = logged_figures(log, mined.scenario, [*of_mining, *warnings])
        return mined.scenario.model_copy(update={"logged": logged}), Origin(event_log=str(path), log=log, notes=notes)
