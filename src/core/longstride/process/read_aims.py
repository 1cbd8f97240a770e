"""Reads what settings say about a process: ``5 days``, ``40``, ``95% within 10 days``, who begins batches."""

import csv
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from longstride.errors import UserError, reason, suggestion
from longstride.process.event_logs.event_log import EventLog
from longstride.process.kernel.aims.arrays import length_of_hour
from longstride.process.scenario.aims import Costs, Due, Target
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

_HOURS = {"minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*?)s?(?:\s+after\s+(?:its\s+)?arrival)?", re.IGNORECASE)
_TARGET = re.compile(r"(\d+(?:\.\d+)?)\s*%\s+within\s+(.+)", re.IGNORECASE)
_COLUMN = re.compile(r"column\s+(.+)", re.IGNORECASE)
EVERYONE = "everyone"
"""Name in a file of costs for people without a row of their own."""

OTHER = "other"
"""Name in a list of due dates or weights for the classes that it does not name."""

_QUANTILES = 41
"""Quantiles that describe the allowances of a log's cases."""


ReadColumn = Callable[[str], tuple[np.ndarray, np.ndarray]]
"""Returns the allowances in a column of a log, float64[*] in hours, and the class of each of these cases, int64[*]."""


@dataclass(frozen=True)
class AimSettings:
    """What settings say about the aims of a process and the start of its batches; empty if a scenario keeps its own.

    Attributes:
        due: ``5 days``, ``column NAME``, or ``gold=1 day, other=5 days`` for classes of cases.
        cost: an amount for an hour of each person, or a CSV file.
        target: ``95% within 10 days``.
        main_metric: name of the metric that chooses the best policy.
        class_weights: ``gold=3``, how often a case of a class counts.
        batch_start: ``ready`` or ``policy``, when batches begin.
    """

    due: str = ""
    cost: str = ""
    target: str = ""
    main_metric: str = ""
    class_weights: str = ""
    batch_start: str = ""


def with_aims(
    scenario: Scenario, aims: AimSettings, read_column: ReadColumn | None = None, of_log: Collection[str] = ()
) -> Scenario:
    """Return a scenario with the aims and the start of batches that settings name; what is empty stays as it is.

    Args:
        scenario: scenario to change.
        aims: texts of the settings.
        read_column: returns the allowances in a column of the event log, hours, in the order of its cases' first
            starts, and the classes of these cases; None without a log.
        of_log: names of the log's people and activities, whose costs may stand in a file although mining has left
            them out.

    Raises:
        UserError: a text is something else, or does not fit the scenario.
    """
    given: dict[str, Any] = {}
    if aims.batch_start:
        scenario = with_batch_start(scenario, aims.batch_start)
    if aims.due:
        given["due"] = _due(scenario, aims.due, read_column)
    if aims.cost:
        given["costs"] = _costs(scenario, aims.cost, of_log)
    if aims.target:
        given["target"] = _target(scenario, aims.target)
    if aims.main_metric:
        given["main_metric"] = aims.main_metric
    if aims.class_weights:
        given["class_weights"] = _weights(scenario, aims.class_weights)
    return changed(scenario, given) if given else scenario


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


def allowances(
    log: EventLog, due: EventLog, classes: Mapping[str, int] = MappingProxyType({})
) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[cases], hours from the first start of each case to its due date, by first start, and int64[cases].

    The second are the cases' classes, 0 without any. ``due`` is the same log, read with the column of due dates in
    place of the times; the latest of a case counts. ``classes`` is case -> number of its class.
    """
    ends = dict(zip(due.cases, due.case_times()[1] + due.monday.timestamp(), strict=True))
    first = log.case_times()[0]
    order = np.argsort(first, kind="stable")
    dates = np.array([ends.get(log.cases[i], math.nan) for i in order])
    hours = (dates - log.monday.timestamp() - first[order]) / 3600.0
    of = np.array([classes.get(log.cases[i], 0) for i in order], np.int64)
    has_date = np.isfinite(hours)
    return np.asarray(hours[has_date]), of[has_date]


def _due(scenario: Scenario, text: str, read_column: ReadColumn | None) -> Due:
    column = _COLUMN.fullmatch(text.strip())
    if column is None and "=" in text:
        expected = "'1 day' for each class"
        own = {name: Due(after=_time(scenario, time, "DUE", expected)) for name, time in _by_class(text, "DUE")}
        return _of_classes(scenario, own)
    if column is None:
        return Due(after=_time(scenario, text, "DUE", "'5 days' or 'column NAME'"))
    if read_column is None:
        raise UserError(f"DUE is {text!r}, but there is no EVENT_LOG with columns; name one, or write '5 days'.")
    found, classes = read_column(column[1].strip())
    hours, times = found * length_of_hour(scenario), scenario.arrivals.times
    if times is not None and len(times) == len(hours):
        return Due(each=[float(hour) for hour in hours])
    of_class = {name: hours[classes == c] for c, name in enumerate(scenario.classes)}
    by_class = {name: _quantiles(own) for name, own in of_class.items() if len(own)}
    return _quantiles(hours).model_copy(update={"by_class": by_class})


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


def _costs(scenario: Scenario, text: str, of_log: Collection[str]) -> Costs:
    try:
        amount = float(text)
    except ValueError:
        return _costs_of_file(scenario, Path(text), of_log)
    if not 0.0 <= amount < math.inf:
        raise UserError(f"COST is {text}; expected an amount, 0 or more, or a CSV file.")
    return (scenario.aims.costs or Costs()).model_copy(update={"everyone": amount})


def _costs_of_file(scenario: Scenario, path: Path, of_log: Collection[str]) -> Costs:
    """Return the costs in a CSV file with the columns ``name`` (a person, an activity or everyone) and ``cost``.

    The columns are parted by commas, semicolons or tabs; beside the last two, an amount may have a decimal comma.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            separator = max(",;\t", key=header.count)
            file.seek(0)
            rows = list(csv.DictReader(file, delimiter=separator))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(
            f"COST is {str(path)!r}, neither an amount nor a file that can be read: {reason(error)}."
        ) from None
    kinds = {"per_hour": scenario.resources, "per_task": scenario.activities}
    costs: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    everyone = scenario.aims.costs.everyone if scenario.aims.costs else 0.0
    for number, row in enumerate(rows, 2):
        name, amount = (row.get(column) for column in ("name", "cost"))
        if name is None or amount is None:
            raise UserError(f"{path}, line {number}: expected the columns name and cost.")
        try:
            cost = float(amount if separator == "," else amount.replace(",", "."))
        except ValueError:
            cost = math.nan
        if not 0.0 <= cost < math.inf:
            raise UserError(f"{path}, line {number}: the cost is {amount!r}; expected an amount, 0 or more.")
        fitting = [kind for kind, names in kinds.items() if name in names]
        if not fitting and name == EVERYONE:
            everyone = cost
        elif not fitting and name in of_log:
            continue
        elif len(fitting) != 1:
            known = [*scenario.resources, *scenario.activities, EVERYONE]
            what = "both a person and an activity" if fitting else "neither a person nor an activity of the process"
            raise UserError(f"{path}, line {number}: {name!r} is {what}{suggestion(name, known)}")
        else:
            costs[fitting[0]][name] = cost
    return Costs.model_validate({"everyone": everyone, **costs})
