"""A log whose activities are split by the classes of its cases, and service times that classes share."""

from dataclasses import replace
from typing import Any

import numpy as np

from longstride.process.event_logs.case_classes import CaseClasses
from longstride.process.event_logs.event_log import EventLog, compact
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.mining.mine_services import choose_pairs, mine_services
from longstride.process.mining.working_hours import WorkedTime
from longstride.process.scenario.classes import SEPARATOR


def split_log(log: EventLog, classes: CaseClasses, automatic: np.ndarray) -> EventLog:
    """Return a log with classes, in which each activity that people do for several classes has a part for each.

    Args:
        log: event log.
        classes: classes of its cases.
        automatic: bool[A], activities that need no person and stay whole.
    """
    of = classes.of_case[log.case]
    seen = np.zeros((len(log.activities), len(classes.names)), np.bool_)
    seen[log.activity, of] = True
    parts = (seen.sum(1) > 1) & ~automatic
    taken, names, before = set(log.activities), list(log.activities), dict[str, str]()
    number = np.tile(np.arange(len(names))[:, None], len(classes.names))
    for a in np.flatnonzero(parts).tolist():
        for c in np.flatnonzero(seen[a]).tolist():
            name = f"{log.activities[a]}{SEPARATOR}{classes.names[c]}"
            while name in taken:
                name += "'"
            taken.add(name)
            before[name] = log.activities[a]
            number[a, c] = len(names)
            names.append(name)
    split = compact(Coded(names, number[log.activity, of]))
    return replace(
        log,
        activities=tuple(split.values),
        activity=split.code,
        classes=replace(classes, before=before),
    )


def joined_log(log: EventLog) -> EventLog:
    """Return a log without classes, the parts of an activity together."""
    assert log.classes is not None
    names = [log.classes.before.get(name, name) for name in log.activities]
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    number = np.array([place[name] for name in names])
    return replace(log, activities=tuple(place), activity=number[log.activity], classes=None)


def pooled_services(
    log: EventLog, work: WorkedTime, automatic: np.ndarray, services: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return services in which the parts of an activity have those of the whole if the class does not matter for it.

    People who did a part keep their events of it as their habit.

    Args:
        log: event log.
        work: its working time.
        automatic: bool[A], activities that need no person.
        services: services of a scenario, mined for each part alone.
    """
    if log.classes is None or not log.classes.pooled:
        return services
    together, before = joined_log(log), log.classes.before
    needs_nobody = {before.get(log.activities[a], log.activities[a]) for a in np.flatnonzero(automatic)}
    pairs, _ = choose_pairs(together, np.array([name in needs_nobody for name in together.activities]))
    common: dict[str, list[dict[str, Any]]] = {}
    for service in mine_services(together, work, pairs)[0]:
        common.setdefault(service["activity"], []).append(service)
    habits = _habits(log)
    found = []
    for name in log.activities:
        whole = before.get(name, name)
        if name in before and whole in log.classes.pooled:
            found += [
                {**service, "activity": name, "observations": habits.get((name, service["resource"]), 0)}
                for service in common.get(whole, [])
            ]
        else:
            found += [service for service in services if service["activity"] == name]
    return found


def _habits(log: EventLog) -> dict[tuple[str, str], int]:
    """Return (activity, resource) -> events."""
    named = log.resource >= 0
    key, count = np.unique(log.activity[named] * len(log.resources) + log.resource[named], return_counts=True)
    pairs = zip(*np.divmod(key, len(log.resources)), count, strict=True)
    return {(log.activities[a], log.resources[r]): int(n) for a, r, n in pairs}
