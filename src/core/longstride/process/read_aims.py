"""Reads what settings say about a process: ``5 days``, ``40``, ``95% within 10 days``, who begins batches."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.kernel.aims.arrays import length_of_hour
from longstride.process.mining.classes.choose import AUTO
from longstride.process.read_costs import COLUMN, costs_of
from longstride.process.scenario.aims import Due, Target
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.simulators.hooks import parse_objective
from longstride.text import agreeing

_HOURS = {"minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*?)s?(?:\s+after\s+(?:its\s+)?arrival)?", re.IGNORECASE)
_TARGET = re.compile(r"(\d+(?:\.\d+)?)\s*%\s+within\s+(.+)", re.IGNORECASE)
OTHER = "other"
"""Name in a list of due dates or weights for the classes that it does not name."""

_QUANTILES = 41
"""Quantiles that describe the allowances of a log's cases."""


@dataclass(frozen=True)
class AimSettings:
    """What settings say about the aims of a process and the start of its batches; empty if a scenario keeps its own.

    Attributes:
        due: ``5 days``, ``column NAME``, or ``gold=1 day, other=5 days`` for classes of cases.
        cost: an amount for an hour of each person, a CSV file, or ``column NAME``.
        target: ``95% within 10 days``.
        main_metric: name of the metric that chooses the best policy.
        class_weights: ``gold=3``, how often a case of a class counts.
        late_cases: ``in turn`` or ``last``, when queues serve cases that can no longer be in time.
        batch_start: ``ready`` or ``policy``, when batches begin.
        objective: ``cost=1 tardiness=20``.
    """

    due: str = ""
    cost: str = ""
    target: str = ""
    main_metric: str = ""
    class_weights: str = ""
    late_cases: str = ""
    batch_start: str = ""
    objective: str = ""


def with_aims(scenario: Scenario, aims: AimSettings, log: LogColumns | None = None) -> Scenario:
    """Return a scenario with the aims and the start of batches that settings name; what is empty stays as it is.

    Args:
        scenario: scenario to change.
        aims: texts of the settings.
        log: columns of the event log; None without a log.

    Raises:
        UserError: a text is something else, or does not fit the scenario.
    """
    given: dict[str, Any] = {}
    if aims.batch_start:
        scenario = with_batch_start(scenario, aims.batch_start)
    if aims.due:
        given["due"] = _due(scenario, aims.due, log)
    if aims.cost:
        given["costs"] = costs_of(scenario, aims.cost, log)
    if aims.target:
        given["target"] = _target(scenario, aims.target)
    if aims.main_metric:
        given["main_metric"] = aims.main_metric
    if aims.class_weights:
        given["class_weights"] = _weights(scenario, aims.class_weights)
    if aims.late_cases:
        given["late_cases"] = aims.late_cases
    if aims.objective:
        given["objective"] = parse_objective(aims.objective)
    return changed(scenario, given) if given else scenario


def require_classes(scenario: Scenario, classes: str, aims: AimSettings) -> None:
    """Refuse due dates and weights of classes if ``auto`` has found no class.

    Raises:
        UserError: it has found none; the sentence says how to choose a column.
    """
    named = "CLASS_WEIGHTS" if aims.class_weights else "DUE" if "=" in aims.due else ""
    if named and classes == AUTO and not scenario.classes:
        raise UserError(
            f"{named} names a class, but CLASSES = 'auto' has found no column on which routing or times depend in "
            "held-out cases; name the column, such as --classes segment."
        )


def with_batch_start(scenario: Scenario, start: str) -> Scenario:
    """Return a scenario whose batches begin when they are ``ready``, or when the ``policy`` begins them.

    Raises:
        UserError: the scenario has no batches.
    """
    if not scenario.batches:
        raise UserError(f"BATCH_START is {start!r}, but {scenario.name} has no batches; leave it out.")
    return scenario.model_copy(update={"batches": [b.model_copy(update={"start": start}) for b in scenario.batches]})


def changed(scenario: Scenario, aims: dict[str, Any]) -> Scenario:
    """Return a scenario with some of its aims replaced.

    Raises:
        UserError: they do not fit the scenario.
    """
    content = scenario_content(scenario.model_copy(update={"aims": scenario.aims.model_copy(update=aims)}))
    return parse_scenario(content, scenario.name)


def _due(scenario: Scenario, text: str, log: LogColumns | None) -> Due:
    column = COLUMN.fullmatch(text.strip())
    if column is None and "=" in text:
        expected = "'1 day' for each class"
        own = {name: Due(after=_time(scenario, time, "DUE", expected)) for name, time in _by_class(text, "DUE")}
        return _of_classes(scenario, own)
    if column is None:
        return Due(after=_time(scenario, text, "DUE", "'5 days' or 'column NAME'"))
    if log is None:
        raise UserError(f"DUE is {text!r}, but there is no EVENT_LOG with columns; name one, or write '5 days'.")
    return _due_of_column(scenario, column[1].strip(), log)


def _due_of_column(scenario: Scenario, name: str, columns: LogColumns) -> Due:
    """Return the allowances in a column of a log: those of the replayed cases, or else their quantiles by class."""
    log, order = columns.log, np.argsort(columns.log.case_times()[0], kind="stable")
    hours = columns.allowances(name)[order] * length_of_hour(scenario)
    has_date, times = np.isfinite(hours), scenario.arrivals.times
    is_replayed = times is not None and len(times) == len(hours)
    if missing := int((~has_date).sum()):
        drawn = "the median allowance of the others" if is_replayed else "allowances like the others"
        some = agreeing(missing, len(hours), "case", "has", "have")
        columns.notes.append(f"{some} no due date in {name!r}: these get {drawn}.")
    if is_replayed:
        own = np.where(has_date, hours, np.median(hours[has_date]))
        return Due(each=[float(hour) for hour in own])
    by_class = {}
    for c, of in enumerate(log.classes.names if log.classes else ()):
        assert log.classes is not None
        mine = hours[has_date & (log.classes.of_case[order] == c)]
        if of in scenario.classes and len(mine):
            by_class[of] = _quantiles(mine)
    return _quantiles(hours[has_date]).model_copy(update={"by_class": by_class})


def _quantiles(hours: np.ndarray) -> Due:
    return Due(quantiles=[float(q) for q in np.quantile(hours, np.linspace(0.0, 1.0, _QUANTILES))])


def _of_classes(scenario: Scenario, own: dict[str, Due]) -> Due:
    """Return due dates of classes; those of the scenario stay for classes without one."""
    rest = own.pop(OTHER, None) if OTHER not in scenario.classes else None
    before = rest or scenario.aims.due or Due()
    return before.model_copy(update={"by_class": {**before.by_class, **own}})


def _weights(scenario: Scenario, text: str) -> dict[str, float]:
    weights = {name: _number_of(weight) for name, weight in _by_class(text, "CLASS_WEIGHTS")}
    for name, weight in weights.items():
        if not 0.0 < weight < math.inf:
            raise UserError(
                f"CLASS_WEIGHTS is {text!r}; expected a number above 0 for {name!r}, such as 'gold=3, silver=2'."
            )
    rest = weights.pop(OTHER, None) if OTHER not in scenario.classes else None
    return ({} if rest is None else dict.fromkeys(scenario.classes, rest)) | weights


def _by_class(text: str, setting: str) -> list[tuple[str, str]]:
    """Return class and value of each part of ``gold=1 day, other=5 days``."""
    parts = [[side.strip() for side in part.rpartition("=")] for part in text.split(",")]
    if any(not name or not value for name, _, value in parts):
        raise UserError(f"{setting} is {text!r}; expected a value for each class, such as 'gold=..., other=...'.")
    return [(name, value) for name, _, value in parts]


def _number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _target(scenario: Scenario, text: str) -> Target:
    found = _TARGET.fullmatch(text.strip())
    if found is None or not 0.0 < float(found[1]) < 100.0:
        raise UserError(f"TARGET is {text!r}; expected a share and a time, such as '95% within 10 days'.")
    within = _time(scenario, found[2], "TARGET", "a time such as '10 days'")
    return Target(share=float(found[1]) / 100.0, within=within)


def _time(scenario: Scenario, text: str, setting: str, expected: str) -> float:
    """Return a time in the scenario's time units; one of abstract units has no other unit."""
    found = _TIME.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    is_abstract = scenario.time_unit == "abstract"
    if (
        found is None
        or not 0.0 < float(found[1]) < 1e9
        or (unit not in _HOURS) != is_abstract
        or (is_abstract and unit)
    ):
        units = (
            "a number of time units"
            if is_abstract
            else f"{expected}; units are {', '.join(f'{word}s' for word in _HOURS)}"
        )
        raise UserError(f"{setting} is {text!r}; expected {units}.")
    return float(found[1]) * _HOURS.get(unit, 1.0) * length_of_hour(scenario)
