"""Learns a scenario from an event log: arrivals, routing, service times, who can do what, working hours.

A is the number of activities of the log, R of resources. ``pairs``, bool[A, R], are the (activity, resource) pairs of
the scenario. Functions that return notes return them last, as sentences about their decisions.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from core.errors import UserError
from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.event_logs.working_hours import (
    HOUR,
    WorkedTime,
    choose_hours,
    open_time,
    shifts_of,
    worked_time,
)
from core.simulators.process.scenario import HOURS_PER_WEEK, Scenario
from core.simulators.process.scenario_file import parse_scenario
from core.simulators.process.service_times import table_mean

MIN_OBSERVATIONS = 20
"""Events below which a pair takes its activity's service times."""

MIN_PAIR_EVENTS = 5
"""Events below which a pair is left out, if the other pairs cover enough."""

MIN_COVERAGE = 0.95
"""Share of the events with a resource that the kept pairs must cover."""

_QUANTILES = 41
_SHORTEST = 1 / 3600
"""Hours; replaces service times that are all zero, which a scenario cannot hold."""

_DIGITS = 6
_TIME_DECIMALS = 6


class MinedScenario(NamedTuple):
    """A scenario, and notes about the decisions of its mining."""

    scenario: Scenario
    notes: list[str]


def mine_scenario(log: EventLog, *, name: str, arrivals: str = "weekly") -> MinedScenario:
    """Learn a scenario in hours; it has the length of the log, and time 0 is the Monday 00:00 before the first event.

    ``arrivals`` are ``weekly`` (rate of each hour of the week) or ``replay`` (the logged times).

    Raises:
        UserError: the log describes no possible process.
    """
    if arrivals not in ("weekly", "replay"):
        raise UserError(f"arrivals: expected weekly or replay, not {arrivals!r}.")
    if log.end.max() <= log.start.min():
        raise UserError(f"{log.source}: all events happen at one moment, so nothing can be learned about time.")
    work = worked_time(log)
    pairs, notes = choose_pairs(log)
    hours, hour_notes = mine_working_hours(log, work, pairs)
    resources = [r for r in range(len(log.resources)) if pairs[:, r].any()]
    services, service_notes = mine_services(log, work, pairs)
    data = {
        "schema": "resource-allocation-scenario/1",
        "name": name,
        "description": f"Learned from {len(log):,} events of {len(log.cases):,} cases since {log.monday:%Y-%m-%d}.",
        "time_unit": "hours",
        "horizon": {"value": round(float(log.clock_end.max()) / HOUR, _TIME_DECIMALS)},
        "arrivals": mine_arrivals(log, arrivals),
        "activities": list(log.activities),
        "resources": [log.resources[r] for r in resources],
        "service": services,
        "flow": mine_routing(log),
        "working_hours": {log.resources[r]: hours[log.resources[r]] for r in resources},
    }
    notes = [*log.notes, *_notes_on_time(log, work), *notes, *service_notes, *hour_notes]
    return MinedScenario(parse_scenario(data, f"the scenario learned from {log.source}"), notes)


def mine_arrivals(log: EventLog, process: str) -> dict[str, Any]:
    """Return the arrivals of a scenario; a case arrives at its first start.

    A weekly rate is the number of arrivals in an hour of the week, divided by how often the log touches that hour
    between its first start and its last end. ``process`` is ``weekly`` or ``replay``.
    """
    first = np.full(len(log.cases), np.inf)
    np.minimum.at(first, log.case, log.clock_start)
    first /= HOUR
    if process == "replay":
        return {"process": "replay", "times": [round(float(t), _TIME_DECIMALS) for t in np.sort(first)]}
    exposure = exposure_by_hour(float(first.min()), float(log.clock_end.max()) / HOUR)
    counts = np.bincount(first.astype(np.int64) % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    rates = np.divide(counts, exposure, out=np.zeros(HOURS_PER_WEEK), where=exposure > 0)
    return {"process": "weekly", "rates": [_rounded(rate) for rate in rates]}


def exposure_by_hour(start: float, end: float) -> np.ndarray:
    """Return int64[168], how often [start, end] (hours since a Monday 00:00) touches each hour of the week.

    A touched hour counts as a whole: a log that begins a second before ten must not get a rate per second.
    """
    touched = np.arange(int(start), max(math.ceil(end), int(start) + 1))
    return np.bincount(touched % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)


def mine_routing(log: EventLog) -> dict[str, Any]:
    """Return the flow of a scenario, the probabilities of the next activity, from :func:`order_of_events`."""
    order = order_of_events(log)
    case, activity = log.case[order], log.activity[order]
    end = len(log.activities)
    last = np.append(case[1:] != case[:-1], True)
    next_activity = np.where(last, end, np.append(activity[1:], end))
    counts = np.zeros((end + 1, end + 1), np.int64)
    np.add.at(counts, (activity, next_activity), 1)
    np.add.at(counts, (end, activity[np.append(True, last[:-1])]), 1)
    names = [*log.activities, None]

    def choices(row: np.ndarray) -> list[dict[str, Any]]:
        # In full precision, so that the probabilities add up to 1 far within the tolerance of scenarios.
        return [{"p": float(row[j] / row.sum()), "activity": names[j]} for j in np.flatnonzero(row)]

    return {"start": choices(counts[end]), "next": {log.activities[a]: choices(counts[a]) for a in range(end)}}


def order_of_events(log: EventLog) -> np.ndarray:
    """Return int64[n], the order of the events by case, start, end and place in the file."""
    return np.lexsort((np.arange(len(log)), log.end, log.start, log.case))


def choose_pairs(log: EventLog) -> tuple[np.ndarray, list[str]]:
    """Decide who can do what: pairs with at least five events, or fewer if those cover under 95 % of the events.

    Each activity keeps its most frequent resource. If no named resource ever did it, all kept resources can do it.
    Returns the pairs and notes.
    """
    counts = pair_counts(log)
    best = np.zeros(counts.shape, np.bool_)
    best[np.arange(len(counts)), counts.argmax(1)] = counts.max(1) > 0
    for least in range(MIN_PAIR_EVENTS, 0, -1):
        kept = best | (counts >= least)
        if counts[kept].sum() >= MIN_COVERAGE * counts.sum():
            break
    unassigned = ~kept.any(1)
    kept[unassigned] = kept.any(0)
    share = counts[kept].sum() / counts.sum()
    notes = [
        f"Who can do what: the {kept[~unassigned].sum()} pairs seen at least {least} times (or most often for their "
        f"activity) cover {share:.1%} of the events with a resource; "
        f"{((counts > 0) & ~kept).sum()} rarer pairs are left out."
    ]
    gone = [log.resources[r] for r in np.flatnonzero(~kept.any(0))]
    if gone:
        notes.append(f"{len(gone)} resources have only such rarer pairs and are left out: {_some(gone)}.")
    if unassigned.any():
        names = _some([log.activities[a] for a in np.flatnonzero(unassigned)])
        notes.append(f"The log never says who did {names}; everyone can do it in the scenario.")
    return kept, notes


def pair_counts(log: EventLog) -> np.ndarray:
    """Return int64[A, R], the number of events of each pair."""
    counts = np.zeros((len(log.activities), len(log.resources)), np.int64)
    named = log.resource >= 0
    np.add.at(counts, (log.activity[named], log.resource[named]), 1)
    return counts


def mine_services(log: EventLog, work: WorkedTime, pairs: np.ndarray) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the services of a scenario, and notes; a pair with fewer than 20 events gets its activity's times."""
    counts = pair_counts(log)
    services, own, zero = [], 0, set()
    for a, activity in enumerate(log.activities):
        of_activity = log.activity == a
        shared = service_distribution(work.hours[of_activity])
        for r in np.flatnonzero(pairs[a]):
            enough = counts[a, r] >= MIN_OBSERVATIONS
            own += enough
            service = service_distribution(work.hours[of_activity & (log.resource == r)]) if enough else shared
            if service["distribution"] == "constant":
                zero.add(activity)
            pair = {"activity": activity, "resource": log.resources[r], "observations": int(counts[a, r])}
            services.append(pair | service)
    notes = [
        f"Service times: {own} of {len(services)} pairs have at least {MIN_OBSERVATIONS} events and their own "
        "quantiles; the others take those of their activity."
    ]
    if zero:
        notes.append(f"All logged times are zero for some of {_some(sorted(zero))}; one second is used.")
    return services, notes


def service_distribution(hours: np.ndarray) -> dict[str, Any]:
    """Return a distribution of 41 quantiles of service times; the last one is set so that the mean is exact.

    Straight lines between quantiles lie above the long tail of service times. So the greatest time as the last
    quantile would overstate the work. ``hours`` is float64[n], n >= 1, not negative.
    """
    mean = float(hours.mean())
    if mean <= _SHORTEST / 1000:
        return {"distribution": "constant", "mean": _SHORTEST}
    quantiles = np.quantile(hours, np.linspace(0.0, 1.0, _QUANTILES))
    steps = _QUANTILES - 1
    quantiles[-1] = max(quantiles[-2], 2 * (steps * mean - quantiles[1:-1].sum()) - quantiles[0])
    quantiles *= mean / table_mean(quantiles)
    return {"distribution": "quantiles", "quantiles": [_rounded(q) for q in quantiles]}


def mine_working_hours(log: EventLog, work: WorkedTime, pairs: np.ndarray) -> tuple[dict[str, Any], list[str]]:
    """Return the shifts of each resource by name, and notes."""
    weeks = float(log.clock_end.max() - log.clock_start.min()) / HOUR / HOURS_PER_WEEK
    hours, total = {}, 0
    for r, name in enumerate(log.resources):
        seen = work.seen[r] if work.seen[r].any() else work.open_hours.astype(np.int64)
        chosen = choose_hours(seen, weeks)
        hours[name] = [shift.model_dump(by_alias=True) for shift in shifts_of(chosen)]
        total += int(chosen.sum()) * bool(pairs[:, r].any())
    return hours, [
        f"Working hours: each resource has as many hours a week as the log shows it at work on average, those it is "
        f"seen in most often; {total:,} hours a week in all."
    ]


def _notes_on_time(log: EventLog, work: WorkedTime) -> list[str]:
    """Return how logged durations became service times, and what of the log a scenario cannot express."""
    logged = float((log.end - log.start).sum()) / HOUR
    in_hours = float((open_time(work.open_hours, log.clock_end) - open_time(work.open_hours, log.clock_start)).sum())
    unnamed = float((log.resource < 0).mean())
    notes = [
        f"Of {logged:,.0f} logged hours, {in_hours:,.0f} lie within the {int(work.open_hours.sum())} hours of the week "
        f"in which the log works, and {work.hours.sum():,.0f} are left as service once records that a resource has "
        "open at the same time share it."
    ]
    if unnamed > 0:
        notes.append(
            f"{unnamed:.1%} of the events name no resource; they count for routing and their activity's times."
        )
    order = order_of_events(log)
    same_case = log.case[order][1:] == log.case[order][:-1]
    share = (same_case & (log.start[order][1:] < log.end[order][:-1])).sum() / len(log)
    if share > 0.01:
        notes.append(
            f"{share:.0%} of the events begin before the previous one of their case has ended; the routing does one "
            "after another, so cases can take longer in the scenario."
        )
    tail = (log.end.max() - log.case_times()[0].max()) / (log.end.max() - log.start.min())
    if tail > 0.02:
        notes.append(f"No case begins in the last {tail:.0%} of the log; rates are averages over the whole of it.")
    return notes


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
