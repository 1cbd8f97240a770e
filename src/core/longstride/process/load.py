"""Builds a process simulator with its hooks from options or from a checkpoint."""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from longstride.config import LOG_LIMITS, PROCESS_OPTIONS, Config, validated
from longstride.errors import UserError, suggestion
from longstride.process.choose_prior import AUTO, prior_of
from longstride.process.event_logs.event_log import EventLog, read_event_log
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.event_logs.reading.attributes import read_attributes
from longstride.process.event_logs.reading.limits import LogLimits
from longstride.process.event_logs.reading.options import LogReading, parse_log_columns
from longstride.process.fidelity.base import logged_figures
from longstride.process.hooks import Origin, ProcessHooks
from longstride.process.kernel.policy_prior import PRIORS, RULE
from longstride.process.mining.classes.choose import AUTO as AUTO_CLASSES
from longstride.process.mining.classes.choose import with_classes
from longstride.process.mining.data_warnings import data_warnings, too_many_activities
from longstride.process.mining.delays.service_order import with_column
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.read_aims import require_classes, with_aims
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import load_scenario, parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.settings import Settings
from longstride.slow_steps import SlowSteps
from longstride.text import Say

PROCESS = "process"
_TOLERANCE = float(Config.model_fields["log_tolerance"].default)
_READING = tuple(field.name for field in fields(LogReading) if field.name != "limits")
LOG_SETTINGS = (*_READING, *LOG_LIMITS, "log_columns", "log_arrivals", "classes")
"""Settings that decide what is mined from a log, and the limits of reading it."""


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


def make_process(
    *,
    scenario: str = "loan_desk",
    event_log: str = "",
    log_columns: str = "",
    log_arrivals: str = "weekly",
    log_tolerance: float = _TOLERANCE,
    policy_prior: str = AUTO,
    due: str = "",
    cost: str = "",
    target: str = "",
    main_metric: str = "",
    class_weights: str = "",
    batch_start: str = "",
    classes: str = "",
    say: Say | None = None,
    **log_options: Any,
) -> ProcessSimulator:
    """Build the process simulator of a scenario, or mine its scenario from an event log.

    Args:
        scenario: bundled name or file.
        event_log: file to mine the scenario from; empty for none.
        log_columns: ``case=..,activity=..`` for columns that are not recognised.
        log_arrivals: ``"weekly"`` or ``"replay"``.
        log_tolerance: difference of the simulation from the log beyond which no verdict is given.
        policy_prior: prior of an untrained policy; ``"auto"`` to let a run choose.
        due: due dates, such as ``"5 days"`` or ``"column NAME"`` of the log; see :mod:`longstride.process.read_aims`
            for this and the next two.
        cost: costs, such as ``"40"``, a CSV file or ``"column NAME"`` of the log.
        target: a promise, such as ``"95% within 10 days"``.
        main_metric: metric that chooses the best policy; empty for that of the objective.
        class_weights: how often a case of a class counts, such as ``"gold=3"``.
        batch_start: ``"ready"`` or ``"policy"``, when batches begin; empty for what the scenario says.
        classes: column of the log whose values are classes of cases, or ``"auto"``; empty for none.
        say: prints lines about steps that take longer than some seconds; None for none.
        log_options: settings of :func:`log_reading`.

    Raises:
        UserError: an option is unknown, or a file cannot be used.
    """
    reading = log_reading(log_options)
    if policy_prior not in (AUTO, *PRIORS):
        raise UserError(f"policy_prior is {policy_prior!r}; expected {', '.join((AUTO, *PRIORS))}.")
    columns: LogColumns | None = None
    if classes and not event_log:
        raise UserError(f"CLASSES is {classes!r}, but there is no EVENT_LOG with columns; name one.")
    if not event_log:
        made, origin = find_scenario(scenario), Origin(scenario_file=scenario)
    else:
        made, origin = _mine(Path(event_log), log_columns, log_arrivals, reading, classes, say)
        assert origin.log is not None  # it has just been mined
        named = parse_log_columns(log_columns) if log_columns else {}
        require_classes(made, classes, due, class_weights)
        columns = LogColumns(origin.log, Path(event_log), named, reading, origin.notes)
    if event_log or log_tolerance != _TOLERANCE:  # else a file keeps its own
        made = with_tolerance(made, log_tolerance)
    made = with_aims(made, due, cost, target, main_metric, class_weights, batch_start, columns)
    return with_hooks(made, RULE if policy_prior == AUTO else policy_prior, origin, is_open=policy_prior == AUTO)


def log_reading(options: Mapping[str, Any]) -> LogReading:
    """Return the options of reading logs in some settings: times, object type, bad rows, limits.

    Args:
        options: settings by name, such as ``time_format``; ``log_max_...`` for limits.

    Raises:
        UserError: there is no such setting.
    """
    for name in options:
        if name not in (*_READING, *LOG_LIMITS):
            known = ", ".join(PROCESS_OPTIONS)
            raise UserError(f"process has no option {name} (there are {known}){suggestion(name, PROCESS_OPTIONS)}")
    limits = {name.removeprefix("log_"): options[name] for name in LOG_LIMITS if name in options}
    return LogReading(**{name: options[name] for name in _READING if name in options}, limits=LogLimits(**limits))


def reading_of(config: Config) -> LogReading:
    """Return the options of reading logs in a Config."""
    return log_reading({name: getattr(config, name) for name in (*_READING, *LOG_LIMITS)})


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


def with_hooks(
    scenario: Scenario, prior: str = RULE, origin: Origin | None = None, is_open: bool = False
) -> ProcessSimulator:
    """Return a process simulator with its hooks; ``is_open`` if the run is to choose the prior."""
    simulator = ProcessSimulator(scenario, prior)
    simulator.hooks = ProcessHooks(simulator, origin or Origin(), is_open)
    return simulator


def read_classified_log(path: Path, columns: str, reading: LogReading, classes: str) -> EventLog:
    """Return an event log, its activities split by the classes of its cases if the setting CLASSES names some.

    Raises:
        UserError: the log cannot be read, or has no such column.
    """
    named = parse_log_columns(columns) if columns else {}
    log = with_column(read_event_log(path, named or None, reading), partial(read_attributes, path, named, reading))
    if not classes:
        return log
    wanted = "" if classes == AUTO_CLASSES else classes
    return with_classes(log, read_attributes(path, named, reading, wanted), classes)


def _mine(
    path: Path, columns: str, arrivals: str, reading: LogReading, classes: str, say: Say | None
) -> tuple[Scenario, Origin]:
    """Return the scenario of an event log, and its origin."""
    with SlowSteps(say) as steps:
        steps.begin(f"Reading {path.name}")
        log = read_classified_log(path, columns, reading, classes)
        early = too_many_activities(log) if say else ""
        if say and early:
            say(f"Warning: {early}")  # before the minutes that it is about
        mined = mine_scenario(log, name=path.name.split(".")[0], arrivals=arrivals, steps=steps)
        steps.begin("Making the simulator")
        warnings = data_warnings(log)
        notes = [*mined.notes, *(note for note in warnings if note != f"Warning: {early}")]
        of_mining = [note for note in mined.notes if note.startswith("Warning: ")]
        logged = logged_figures(log, mined.scenario, [*of_mining, *warnings])
        return mined.scenario.model_copy(update={"logged": logged}), Origin(event_log=str(path), log=log, notes=notes)
