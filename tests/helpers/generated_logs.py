"""Event logs of processes whose delays, waits and shifts are known."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from oracles.process_play import scenario, service

from longstride.process.event_logs.event_log import EventLog
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.clock import open_time_until
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.scenario.scenario import Scenario

SERVICE, DELAY = 6.0, 36.0
"""Mean hours of a task, and of the delay before the second one."""


class Generated(NamedTuple):
    """A log, and for how many open hours a case waits on average after its first start."""

    log: EventLog
    rest: float  # for nobody
    people: float  # for people


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
    return _played(made, cases, seed, np.ones(168))


def shifts_of_eight_hours(load: float, cases: int, seed: int) -> Generated:
    """Return a log of three activities in a row, each done by two people from 8 to 16; delays come before two."""
    rate = load * 2 * 40 / 1.5 / 168
    people, pairs = "RSTUVW", (("A", "RS"), ("B", "TU"), ("C", "VW"))
    weekday = [day < 5 for day in range(7) for _ in range(24)]
    clock = np.array([1.0 if on and 8 <= k % 24 < 16 else 0.0 for k, on in enumerate(weekday)])
    rates = [rate * 168 / 50 if on and 7 <= k % 24 < 17 else 0.0 for k, on in enumerate(weekday)]
    hours = [{"days": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"], "from": "08:00", "to": "16:00"}]
    made = scenario(
        time_unit="hours",
        horizon={"value": cases / rate},
        arrivals={"process": "weekly", "rates": rates},
        activities=list("ABC"),
        resources=list(people),
        service=[
            {**service(a, r, "lognormal", mean=1.5, cv=0.8), "observations": 1} for a, able in pairs for r in able
        ],
        flow={"seq": [{"task": a} for a in "ABC"]},
        working_hours=dict.fromkeys(people, hours),
        delay_clock=clock.tolist(),
        delays=[
            {"activity": "B", "distribution": "lognormal", "mean": 10.0, "cv": 1.0},
            {"activity": "C", "distribution": "exponential", "mean": 4.0},
        ],
    )
    return _played(made, cases, seed, clock)


def _played(made: Scenario, cases: int, seed: int, clock: np.ndarray) -> Generated:
    """Play a scenario whose activities follow one another; ``clock``, float64[168], tells what an open hour is."""
    parameters, sizes = build_parameters(made)
    played = play_logged(as_logged_record(parameters), parameters, sizes, seed, cases=cases)
    activity = parameters.node_target[played.node]
    queued, start = (open_time_until(clock, 3600.0 * times) for times in (played.queued, played.start))
    ends = np.zeros((cases, activity.max() + 1))
    ends[played.case, activity] = open_time_until(clock, 3600.0 * played.end)
    later = activity > 0
    rest = float((queued - ends[played.case, activity - 1])[later].sum()) / cases
    log = log_of(played.case, activity, played.resource, played.start, played.end)
    return Generated(log, rest, float((start - queued)[later].sum()) / cases)


def desk_log(seed: int, weeks: int = 10, gap=lambda week: 1.0, clerks: int = 2) -> EventLog:
    """Return a log of an office from 9 to 17 on weekdays, first come, first served: two clerks are about 70 % busy.

    A case has its arrival (a0, by nobody) and its work (a1). ``gap`` are the mean hours between cases, by the week.
    """
    rng, case, rows, free = np.random.default_rng(seed), 0, [], np.zeros(clerks)
    for day in range(7 * weeks):
        if day % 7 >= 5:
            continue
        opens = now = 24.0 * day + 9.0
        while (now := now + rng.exponential(gap(day // 7))) < opens + 7.0:
            clerk = int(free.argmin())
            begin = _open(max(now, free[clerk]))
            free[clerk] = begin + rng.exponential(1.6)
            rows += [(case, 0, -1, now, now), (case, 1, clerk, begin, free[clerk])]
            case += 1
    return log_of(*np.array(sorted(rows, key=lambda row: row[3])).T)


def _open(hour: float) -> float:
    """Return the hour, or the next morning of a weekday where the office of :func:`desk_log` is closed."""
    day, of_day = divmod(hour, 24.0)
    if 9.0 <= of_day < 17.0 and day % 7 < 5:
        return hour
    day += of_day >= 17.0
    while day % 7 >= 5:
        day += 1
    return 24.0 * day + 9.0


def written(folder: Path, log: EventLog) -> str:
    """Write a log as CSV, and return its file."""
    lines = ["case_id,activity,resource,start_time,end_time"]
    for c, a, r, start, end in zip(log.case, log.activity, log.resource, log.start, log.end, strict=True):
        times = ",".join((log.monday + timedelta(seconds=float(t))).isoformat() for t in (start, end))
        lines.append(f"{log.cases[c]},{log.activities[a]},{log.resources[r]},{times}")
    (folder / "desk.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "desk.csv")
