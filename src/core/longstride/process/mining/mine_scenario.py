"""Mines a scenario from an event log: arrivals, cases with their delays, service times, skills, rosters.

A is the number of activities of the log. Functions that return notes return them last, as sentences about their
decisions.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import Pairs, rows_by
from longstride.process.mining.arrivals.mine_arrivals import mine_arrivals
from longstride.process.mining.arrivals.unseen import unseen_waits
from longstride.process.mining.batches import Batches, find_batches
from longstride.process.mining.case_order import order_cases
from longstride.process.mining.classes.split import pooled_services
from longstride.process.mining.data_warnings import giant_case
from longstride.process.mining.delays.service_order import find_order, keys_of_order
from longstride.process.mining.external_delays import EXTERNAL_STEPS, mine_external_delays
from longstride.process.mining.machines import split_jobs, without_machines
from longstride.process.mining.mine_services import (
    choose_pairs,
    mine_services,
    service_distribution,
    some,
)
from longstride.process.mining.working_hours import HOUR, WorkedTime, open_time, worked_time
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario
from longstride.slow_steps import SlowSteps
from longstride.text import counted

_INSTANT = 1.0
"""Seconds up to which an event takes no time."""

_MOSTLY = 0.95
"""Share of such events from which an activity needs no person."""

_TIME_DECIMALS = 6

_MOST_TASKS = 10_000_000
"""Most cases times the most events of a case, above which a log whose events are mostly of one case is refused."""

STEPS = 3 + EXTERNAL_STEPS
"""Steps reported while a log is mined."""


class MinedScenario(NamedTuple):
    """A scenario, and notes about the decisions of its mining."""

    scenario: Scenario
    notes: list[str]


def mine_scenario(
    log: EventLog, *, name: str, arrivals: str = "weekly", calibrate: bool = True, steps: SlowSteps | None = None
) -> MinedScenario:
    """Learn a scenario in hours; it has the length of the log, and time 0 is the Monday 00:00 before the first event.

    ``arrivals`` are ``weekly`` (rate of each hour of the week) or ``replay`` (the logged times). With ``calibrate``,
    simulations decide which part of the unexplained waiting is external; without it all is. ``steps`` is notified of
    each step.

    Raises:
        UserError: the log describes no possible process.
    """
    if arrivals not in ("weekly", "replay"):
        raise UserError(f"arrivals: expected weekly or replay, not {arrivals!r}.")
    if log.end.max() <= log.start.min():
        raise UserError(f"{log.source}: all events happen at one moment, so nothing can be learned about time.")
    _require_small_cases(log)
    steps = steps or SlowSteps()
    steps.begin("Mining the log", STEPS)
    steps.next("working hours")
    log, of_machines, machine_notes = without_machines(log)
    log, job_notes = split_jobs(log)
    work, automatic = worked_time(log), automatic_activities(log)
    if not (automatic | of_machines).all():  # at least one activity must need a person
        automatic = automatic | of_machines
    steps.next("service times")
    pairs, notes = choose_pairs(log, automatic)
    batches = find_batches(log)
    whole = work._replace(hours=batches.whole(log, work.hours))
    log, services, values, service_notes = _services(log, whole, batches, pairs, automatic)
    at_once, notes_at_once = _at_once(log, work, services)
    unseen = unseen_waits(log, work.own_hours)
    arrival_data, arrival_notes = mine_arrivals(log, arrivals, unseen.waited)
    data = {
        "schema": "resource-allocation-scenario/1",
        "name": name,
        "description": f"Learned from {len(log):,} events of {len(log.cases):,} cases since {log.monday:%Y-%m-%d}.",
        "time_unit": "hours",
        "begins": f"{log.monday:%Y-%m-%d}",
        "horizon": {"value": round(float(log.clock_end.max()) / HOUR, _TIME_DECIMALS)},
        "arrivals": arrival_data,
        "activities": list(log.activities),
        "resources": _able(log, services),
        "service": services,
        **batches.keys(log),
        "at_once": at_once,
        **values,
    }
    if automatic.any():
        rows = rows_by(log.activity, len(log.activities))
        times = [service_distribution(work.hours[rows[a]]) for a in np.flatnonzero(automatic)]
        names = [log.activities[a] for a in np.flatnonzero(automatic)]
        data["automatic"] = [{"activity": a} | t for a, t in zip(names, times, strict=True)]
        notes.append(f"No person is needed for {some(names)}: nearly all logged times are zero, or no person does it.")
    source = f"the scenario learned from {log.source}"
    external, external_notes = mine_external_delays(log, whole, batches, data, source, calibrate, steps)
    steps.next("check of the scenario")
    notes += [*service_notes, *notes_at_once, *batches.notes(log), *arrival_notes, *unseen.notes, *external_notes]
    before = [*log.notes, *(log.classes.notes if log.classes else ()), *machine_notes, *job_notes]
    return MinedScenario(parse_scenario(data | external, source), [*before, *_notes_on_time(log, work), *notes])


def _services(
    log: EventLog, work: WorkedTime, batches: Batches, pairs: Pairs, automatic: np.ndarray
) -> tuple[EventLog, list[dict[str, Any]], dict[str, Any], list[str]]:
    """Return a log with a column only if tasks are served by it, its services, the order of service, and notes."""
    order = find_order(log, batches.ready(log, order_cases(log))) if log.column else None
    values, order_notes = dict[str, Any](), list[str]()
    if order is None:
        log = replace(log, column=None)
    else:
        values, hours, order_notes = keys_of_order(log, order, work.hours)
        work = work._replace(hours=hours)
    services, notes = mine_services(log, work, pairs)
    return log, pooled_services(log, work, automatic, services), values, [*notes, *order_notes]


def _require_small_cases(log: EventLog) -> None:
    giant = giant_case(log)
    if giant and int(np.bincount(log.case).max()) * len(log.cases) > _MOST_TASKS:
        raise UserError(f"{log.source}: {giant}")


def _able(log: EventLog, services: list[dict[str, Any]]) -> list[str]:
    """Return the people of a log who have service times."""
    able = {service["resource"] for service in services}
    return [name for name in log.resources if name in able]


def _at_once(log: EventLog, work: WorkedTime, services: list[dict[str, Any]]) -> tuple[dict[str, int], list[str]]:
    """Return the people of a scenario who do several tasks at once, and how many, and a note about them."""
    most = dict(zip(log.resources, work.at_once.tolist(), strict=True))
    found = {name: most[name] for name in _able(log, services) if most[name] > 1}
    if not found:
        return found, []
    return found, [
        f"Several tasks at once: {some([f'{name} up to {count}' for name, count in found.items()])}. These tasks end "
        "at a rate in proportion to their number, so each has full speed. Open tasks of other people share their time."
    ]


def automatic_activities(log: EventLog) -> np.ndarray:
    """Return bool[A], activities that take no time in nearly all events, if other activities of the log do."""
    instant = log.end - log.start <= _INSTANT
    share = np.bincount(log.activity, instant, len(log.activities)) / np.bincount(log.activity)
    automatic = share >= _MOSTLY
    return automatic & ~automatic.all()


def _notes_on_time(log: EventLog, work: WorkedTime) -> list[str]:
    """Return sentences about the conversion of logged durations to service times, and about unnamed events."""
    unnamed, notes = float((log.resource < 0).mean()), list[str]()
    if not log.only_dates:
        stretches, until = log.stretches(), partial(open_time, work.open_hours)
        logged = float((stretches.end - stretches.start).sum()) / HOUR
        in_hours = float((until(stretches.clock_end) - until(stretches.clock_start)).sum())
        sharing = ", except for those of people who do several at once" if (work.at_once > 1).any() else ""
        notes.append(
            f"Logged time: {logged:,.0f} h, of which {in_hours:,.0f} h lie within the "
            f"{counted(int(work.open_hours.sum()), 'hour')} of the week in which the log works; service is "
            f"{work.hours.sum():,.0f} h of that, because records that a resource has open at the same time share "
            f"it{sharing}."
        )
    if unnamed > 0:
        notes.append(
            f"{unnamed:.1%} of the events name no resource; they count for routing and their activity's times."
        )
    return notes
