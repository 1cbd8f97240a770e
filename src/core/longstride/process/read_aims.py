"""Reads due dates, costs and targets in the words of settings: ``5 days``, ``40``, ``95% within 10 days``."""

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path
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

_QUANTILES = 41
"""Quantiles that describe the allowances of a log's cases."""


def with_aims(
    scenario: Scenario,
    due: str = "",
    cost: str = "",
    target: str = "",
    main_metric: str = "",
    read_column: Callable[[str], np.ndarray] | None = None,
) -> Scenario:
    """Return a scenario with the aims that settings name; those that are empty stay as they are.

    Args:
        scenario: scenario to change.
        due: ``5 days``, or ``column NAME``.
        cost: an amount for an hour of each person, or a CSV file.
        target: ``95% within 10 days``.
        main_metric: name of a metric.
        read_column: returns the allowances in a column of the event log, hours, in the order of its cases' first
            starts; None without a log.

    Raises:
        UserError: a text is something else, or does not fit the scenario.
    """
    given: dict[str, Any] = {}
    if due:
        given["due"] = _due(scenario, due, read_column)
    if cost:
        given["costs"] = _costs(scenario, cost)
    if target:
        given["target"] = _target(scenario, target)
    if main_metric:
        given["main_metric"] = main_metric
    return changed(scenario, given) if given else scenario


def changed(scenario: Scenario, aims: dict[str, Any]) -> Scenario:
    """Return a scenario with some of its aims replaced.

    Raises:
        UserError: they do not fit the scenario.
    """
    content = scenario_content(scenario.model_copy(update={"aims": scenario.aims.model_copy(update=aims)}))
    return parse_scenario(content, scenario.name)


def allowances(log: EventLog, due: EventLog) -> np.ndarray:
    """Return float64[cases], hours from the first start of each case to its due date, by first start.

    ``due`` is the same log, read with the column of due dates in place of the times; the latest of a case counts.
    """
    ends = dict(zip(due.cases, due.case_times()[1] + due.monday.timestamp(), strict=True))
    first = log.case_times()[0]
    order = np.argsort(first, kind="stable")
    dates = np.array([ends.get(log.cases[i], math.nan) for i in order])
    hours = (dates - log.monday.timestamp() - first[order]) / 3600.0
    return np.asarray(hours[np.isfinite(hours)])


def _due(scenario: Scenario, text: str, read_column: Callable[[str], np.ndarray] | None) -> Due:
    column = _COLUMN.fullmatch(text.strip())
    if column is None:
        return Due(after=_time(scenario, text, "DUE", "'5 days' or 'column NAME'"))
    if read_column is None:
        raise UserError(f"DUE is {text!r}, but there is no EVENT_LOG with columns; name one, or write '5 days'.")
    hours = read_column(column[1].strip()) * length_of_hour(scenario)
    times = scenario.arrivals.times
    if times is not None and len(times) == len(hours):
        return Due(each=[float(hour) for hour in hours])
    return Due(quantiles=[float(q) for q in np.quantile(hours, np.linspace(0.0, 1.0, _QUANTILES))])


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


def _costs(scenario: Scenario, text: str) -> Costs:
    try:
        amount = float(text)
    except ValueError:
        return _costs_of_file(scenario, Path(text))
    if not 0.0 <= amount < math.inf:
        raise UserError(f"COST is {text}; expected an amount, 0 or more, or a CSV file.")
    return (scenario.aims.costs or Costs()).model_copy(update={"everyone": amount})


def _costs_of_file(scenario: Scenario, path: Path) -> Costs:
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
        elif len(fitting) != 1:
            known = [*scenario.resources, *scenario.activities, EVERYONE]
            what = "both a person and an activity" if fitting else "neither a person nor an activity of the process"
            raise UserError(f"{path}, line {number}: {name!r} is {what}{suggestion(name, known)}")
        else:
            costs[fitting[0]][name] = cost
    return Costs.model_validate({"everyone": everyone, **costs})
