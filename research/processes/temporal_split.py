"""Splits a log in time, as the literature does, and simulates events for comparison with logged ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.fidelity.log_distances import Events
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.scenario.scenario import Scenario

WEEK = 168 * 3600.0
_LONGER = 4.0
"""Length of a simulation that ends all of its cases, as a multiple of the scenario's horizon."""


def split_log(log: EventLog, share: float = 0.8) -> tuple[EventLog, EventLog]:
    """Return the first ``share`` of the events, by end, and the others; cases with events in both are in neither."""
    order = np.argsort(log.end, kind="stable")
    late = np.ones(len(log), np.bool_)
    late[order[: int(share * len(log))]] = False
    has_early, has_late = np.zeros((2, len(log.cases)), np.bool_)
    has_early[log.case[~late]] = True
    has_late[log.case[late]] = True
    return cases_of(log, has_early & ~has_late), cases_of(log, has_late & ~has_early)


def cases_of(log: EventLog, kept: np.ndarray) -> EventLog:
    """Return the log of some cases, bool[cases], as if it had been read from a file of its own."""
    of_event = kept[log.case]
    columns = {name: getattr(log, name)[of_event] for name in ("start", "end", "clock_start", "clock_end")}
    for column, names in (("case", "cases"), ("activity", "activities"), ("resource", "resources")):
        values = getattr(log, column)[of_event]
        seen = np.unique(values[values >= 0])
        columns[column] = np.where(values >= 0, np.searchsorted(seen, values), values)
        columns[names] = tuple(getattr(log, names)[i] for i in seen)
    number = np.full(len(log.resources) + 1, -1)
    number[[log.resources.index(name) for name in columns["resources"]]] = np.arange(len(columns["resources"]))
    pauses = log.pauses.taken(np.flatnonzero(of_event), len(log))
    return replace(log, **columns, pauses=pauses._replace(resource=number[pauses.resource]))


def logged_events(log: EventLog, activities: Sequence[str]) -> Events:
    """Return a log's events, by the wall clock; ``activities`` gives the numbers of the activities."""
    number = np.array([activities.index(name) for name in log.activities])
    return Events(log.case, number[log.activity], log.clock_start, np.maximum(log.clock_end, log.clock_start))


class SimulatedLogs:
    """Logs that a mined scenario generates under the logged habits, in the place of some logged ones.

    Args:
        scenario: scenario in hours.
        activities: names that give the numbers of the activities.
    """

    def __init__(self, scenario: Scenario, activities: Sequence[str]) -> None:
        self._number = np.array([activities.index(name) for name in scenario.activities])
        self._parameters, self._sizes = build_parameters(scenario)
        self._record = as_logged_record(self._parameters)
        self._record["horizon"] = _LONGER * scenario.horizon.value

    def like(self, log: EventLog, seed: int) -> Events:
        """Return the events of as many cases as a log has; the first arrives after the log's first start."""
        first = float(log.clock_start.min())
        monday = first // WEEK * WEEK
        begin, cases = (first - monday) / 3600.0, len(log.cases)
        played = play_logged(self._record, self._parameters, self._sizes, seed, begin=begin, cases=cases)
        activity = self._number[self._parameters.node_target[played.node]]
        done = np.isfinite(played.end)
        start, end = (3600.0 * t[done] + monday for t in (played.start, played.end))
        return Events(played.case[done], activity[done], start, end)


def cases_within(events: Events, end: float) -> Events:
    """Return the events of the cases that end by a time; all of them if none does."""
    _, case = np.unique(events.case, return_inverse=True)
    kept = (events.first_and_last()[1] <= end)[case]
    return Events(*(column[kept] for column in events)) if kept.any() else events
