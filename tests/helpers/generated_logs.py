"""Event logs of processes whose delays, waits and shifts are known."""

from datetime import datetime
from typing import NamedTuple

import numpy as np
from oracles.process_play import scenario, service

from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.mining.play_logged import play_logged
from core.simulators.process.parameters import as_record, build_parameters

SERVICE, DELAY = 6.0, 36.0
"""Mean hours of a task, and of the delay before the second one."""


class Generated(NamedTuple):
    """A log, and the mean hours before the second task of a case."""

    log: EventLog
    rest: float  # in which the case waits for nobody
    people: float  # in which it waits for people


def log_of(case, activity, resource, start, end):
    """Return a log; times in hours since a Monday."""
    names = [
        tuple(f"{kind}{i}" for i in range(int(max(column)) + 1))
        for kind, column in zip("cab", (case, activity, resource), strict=True)
    ]
    start, end = (3600.0 * np.asarray(t, float) for t in (start, end))
    columns = [np.asarray(column, np.int64) for column in (case, activity, resource)]
    monday = datetime(2024, 3, 4)
    named = [value for pair in zip(names, columns, strict=True) for value in pair]
    return EventLog("generated", *named, start, end, start, end, monday)


def two_tasks(load: float, delays: bool, cases: int, seed: int) -> Generated:
    """Return a log of two activities in a row, each done by two people who are always there."""
    made = scenario(
        horizon={"value": 4.0 * SERVICE * cases / load},
        arrivals={"process": "poisson", "rate": 2.0 * load / SERVICE},
        activities=["A", "B"],
        resources=["R", "S", "T", "U"],
        service=[
            {**service(a, r, "exponential", mean=SERVICE), "observations": 1}
            for a, rs in (("A", "RS"), ("B", "TU"))
            for r in rs
        ],
        flow={"seq": [{"task": "A"}, {"task": "B"}]},
        delays=[{"activity": "B", "distribution": "exponential", "mean": DELAY}] if delays else [],
    )
    parameters, sizes = build_parameters(made)
    played = play_logged(as_record(parameters), parameters, sizes, seed, cases=cases)
    second = parameters.node_target[played.node] == 1
    first_end = np.zeros(cases)
    first_end[played.case[~second]] = played.end[~second]
    log = log_of(played.case, second.astype(int), played.resource, played.start, played.end)
    people = float((played.start - played.queued)[second].mean())
    return Generated(log, float((played.queued - first_end[played.case])[second].mean()), people)
