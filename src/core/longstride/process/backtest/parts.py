"""The parts of a log before and after a moment, and scenarios that have what is known of each."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.process.changes.people import typical
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.resample import cases_of
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content

HOUR = 3600.0
WEEK = 168 * HOUR

FEWEST_CASES = 30
"""Fewest cases of a part that is mined, or whose figures are compared."""

_MOST_WARMUP = 0.5
"""Longest warm-up, as a share of the mined part."""


@dataclass(frozen=True)
class Parts:
    """A log before and after a moment; the later part begins with a warm-up, so that people have work at its begin."""

    before: EventLog  # cases that end by the moment
    after: EventLog  # cases that start from the beginning of the warm-up on
    counted: np.ndarray  # bool[cases of after], whether a case starts after the moment
    since: float  # hours from the later part's Monday to the moment


def cut(log: EventLog, moment: float) -> Parts:
    """Cut a log at a moment, in seconds since its Monday.

    Raises:
        UserError: a part has too few cases.
    """
    first, last = log.case_times()
    before, later = last <= moment, first >= moment
    for name, count in (("before", int(before.sum())), ("after", int(later.sum()))):
        if count < FEWEST_CASES:
            raise UserError(
                f"{log.source}: {count} cases lie {name} {date_of(log, moment)}, and a backtest needs {FEWEST_CASES}; "
                "set another --share, or take a longer log."
            )
    long = float(np.quantile((last - first)[before], 0.95))
    warmup = min(max(long, WEEK), _MOST_WARMUP * (moment - float(first.min())))
    kept = np.flatnonzero(first >= moment - warmup)
    after, weeks = _own_weeks(log, kept)
    return Parts(_own_weeks(log, np.flatnonzero(before))[0], after, later[kept], (moment - weeks * WEEK) / HOUR)


def date_of(log: EventLog, moment: float) -> str:
    """Return the day of a moment, in seconds since a log's Monday."""
    return f"{log.monday + timedelta(seconds=moment):%Y-%m-%d}"


def _own_weeks(log: EventLog, cases: np.ndarray) -> tuple[EventLog, int]:
    """Return the log of some cases with the Monday of its first week, and by how many weeks that is later."""
    kept = np.isin(log.case, cases)
    weeks = int(min(log.start[kept].min(), log.clock_start[kept].min()) // WEEK)
    part = cases_of(log, cases, np.full(len(cases), -weeks * WEEK))
    return replace(part, monday=log.monday + timedelta(weeks=weeks)), weeks


def there(part: EventLog) -> Scenario:
    """Return the scenario of a part, for its arrivals and its staff; nothing else of it is used."""
    return mine_scenario(part, name="part", arrivals="replay", calibrate=False).scenario


def staged(model: Scenario, part: Scenario) -> Scenario:
    """Return a mined scenario with the arrivals and the staff of a part of the log.

    A person whom the model does not know does what it did in the part, as fast as the typical person of the model.

    Raises:
        UserError: the model knows nobody for an activity.
    """
    content, people = scenario_content(model), scenario_content(part)
    at_work = [name for name in model.resources if name in part.resources]
    new = [name for name in part.resources if name not in model.resources]
    service = [entry for entry in content["service"] if entry["resource"] in at_work]
    service += [known for entry in people["service"] if entry["resource"] in new and (known := _known(model, entry))]
    there_are = {entry["resource"] for entry in service}
    content["resources"] = [name for name in (*at_work, *new) if name in there_are]
    content["service"] = service
    able = {entry["activity"] for entry in service}
    if lost := [entry.activity for entry in model.service if entry.activity not in able]:
        raise UserError(f"nobody who did {lost[0]!r} in the earlier part is seen in the later one")
    for key in ("rosters", "working_hours", "absences", "holidays"):
        content.pop(key, None)
        if key in people:
            content[key] = people[key]
    for key in ("rosters", "working_hours"):
        content[key] = {name: plan for name, plan in content.get(key, {}).items() if name in there_are}
    content |= {"arrivals": people["arrivals"], "horizon": people["horizon"], "begins": people["begins"]}
    for key in ("waiting", "logged"):
        content.pop(key, None)
    return parse_scenario(content, "the later part of the log")


def _known(model: Scenario, entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a new person does, by the times of the model; None for an activity that it does not know."""
    able = [service for service in model.service if service.activity == entry["activity"]]
    if not able:
        return None
    like = typical(model, [service.resource for service in able])
    times = next(service for service in able if service.resource == like)
    known = times.model_dump(exclude_none=True) | {"resource": entry["resource"]}
    return known | ({"observations": entry["observations"]} if "observations" in entry else {})
