"""Reads what people and tasks cost: ``40``, a CSV file, or a column of the log."""

import csv
import math
import re
from collections.abc import Collection
from pathlib import Path

from longstride.errors import UserError, reason, suggestion
from longstride.process.event_logs.log_columns import LogColumns
from longstride.process.scenario.aims import Costs
from longstride.process.scenario.classes import SEPARATOR
from longstride.process.scenario.scenario import Scenario

COLUMN = re.compile(r"column\s+(.+)", re.IGNORECASE)
"""Settings that name a column of the log."""

EVERYONE = "everyone"
"""Name in a file of costs for people without a row of their own."""


def costs_of(scenario: Scenario, text: str, log: LogColumns | None) -> Costs:
    """Return the costs of a scenario's people and activities.

    Args:
        scenario: scenario; its costs stay for people whom ``text`` does not name.
        text: an amount for an hour of each person, a CSV file, or ``column NAME``.
        log: columns of the event log; None without a log.

    Raises:
        UserError: the text is something else, or names whom there is not.
    """
    before = scenario.aims.costs or Costs()
    if column := COLUMN.fullmatch(text.strip()):
        if log is None:
            raise UserError(f"COST is {text!r}, but there is no EVENT_LOG with columns; name one, or write an amount.")
        return before.model_copy(update={"per_hour": log.rates(column[1].strip(), scenario.resources)})
    try:
        amount = float(text)
    except ValueError:
        of_log = {*log.log.resources, *log.log.activities} if log else set()
        return _of_file(scenario, Path(text), of_log)
    if not 0.0 <= amount < math.inf:
        raise UserError(f"COST is {text}; expected an amount, 0 or more, or a CSV file.")
    return before.model_copy(update={"everyone": amount})


def _of_file(scenario: Scenario, path: Path, of_log: Collection[str]) -> Costs:
    """Return the costs in a CSV file with the columns ``name`` (a person, an activity or everyone) and ``cost``.

    The columns are parted by commas, semicolons or tabs; beside the last two, an amount may have a decimal comma. The
    name of an activity that classes of cases split is for all its parts that have no row of their own.
    """
    rows = _rows(path)
    parts = _parts(scenario)
    kinds = {"per_hour": scenario.resources, "per_task": scenario.activities}
    costs: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    wholes: dict[str, float] = {}
    everyone, seen = (scenario.aims.costs.everyone if scenario.aims.costs else 0.0), set[str]()
    for number, (name, cost) in rows:
        if name in seen:
            raise UserError(f"{path}, line {number}: {name!r} has two rows; keep one of them.")
        seen.add(name)
        fitting = [kind for kind, names in kinds.items() if name in names]
        if not fitting and name == EVERYONE:
            everyone = cost
        elif not fitting and name in parts:
            wholes |= dict.fromkeys(parts[name], cost)
        elif not fitting and name in of_log:
            continue
        elif len(fitting) != 1:
            known = [*scenario.resources, *scenario.activities, *parts, EVERYONE]
            what = "both a person and an activity" if fitting else "neither a person nor an activity of the process"
            raise UserError(f"{path}, line {number}: {name!r} is {what}{suggestion(name, known)}")
        else:
            costs[fitting[0]][name] = cost
    costs["per_task"] = wholes | costs["per_task"]
    return Costs.model_validate({"everyone": everyone, **costs})


def _rows(path: Path) -> list[tuple[int, tuple[str, float]]]:
    """Return line, name and cost of each row of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            separator = max(",;\t", key=header.count)
            file.seek(0)
            rows = list(csv.DictReader(file, delimiter=separator))
    except UnicodeDecodeError:
        raise UserError(f"COST is {str(path)!r}, a file that is not UTF-8; save it as CSV UTF-8.") from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(
            f"COST is {str(path)!r}, neither an amount nor a file that can be read: {reason(error)}."
        ) from None
    if not rows:
        raise UserError(f"{path} has no row with a cost; expected the columns name and cost.")
    found = []
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
        found.append((number, (name, cost)))
    return found


def _parts(scenario: Scenario) -> dict[str, list[str]]:
    """Return the activities that classes of cases split, whole -> its parts."""
    found: dict[str, list[str]] = {}
    for activity in scenario.activities:
        whole, separator, of = activity.rpartition(SEPARATOR)
        if separator and of.rstrip("'") in scenario.classes and whole not in scenario.activities:
            found.setdefault(whole, []).append(activity)
    return found
