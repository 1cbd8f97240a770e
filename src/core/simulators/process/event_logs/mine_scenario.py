"""Learns a scenario from an event log: arrivals, cases with their delays, service times, who can do what, rosters.

A is the number of activities of the log, R of resources. ``pairs``, bool[A, R], are the (activity, resource) pairs of
the scenario. Functions that return notes return them last, as sentences about their decisions.
"""

from typing import Any, NamedTuple

import numpy as np

from core.errors import UserError
from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.event_logs.working_hours import HOUR, WorkedTime, open_time, worked_time
from core.simulators.process.mining.arrivals import mine_arrivals
from core.simulators.process.mining.machines import without_machines
from core.simulators.process.mining.service_means import credible_means
from core.simulators.process.mining.world import mine_world
from core.simulators.process.scenario import Scenario
from core.simulators.process.scenario_file import parse_scenario
from core.simulators.process.service_times import table_mean

MIN_OBSERVATIONS = 20
"""Events below which a pair takes the shape of its activity's service times."""

MIN_PAIR_EVENTS = 5
"""Events below which a pair is left out, if the other pairs cover enough."""

MIN_COVERAGE = 0.95
"""Share of the events with a resource that the kept pairs must cover."""

_INSTANT = 1.0
"""Seconds up to which an event takes no time."""

_MOSTLY = 0.95
"""Share of such events from which nobody is needed for an activity."""

_QUANTILES = 41
_SHORTEST = 1 / 3600
"""Hours; replaces service times that are all zero, which a scenario cannot hold."""

_DIGITS = 6
_TIME_DECIMALS = 6


class MinedScenario(NamedTuple):
    """A scenario, and notes about the decisions of its mining."""

    scenario: Scenario
    notes: list[str]


def mine_scenario(log: EventLog, *, name: str, arrivals: str = "weekly", close: bool = True) -> MinedScenario:
    """Learn a scenario in hours; it has the length of the log, and time 0 is the Monday 00:00 before the first event.

    ``arrivals`` are ``weekly`` (rate of each hour of the week) or ``replay`` (the logged times). ``close`` lets
    simulations decide how much of the unexplained waiting is the world's; without them all of it is.

    Raises:
        UserError: the log describes no possible process.
    """
    if arrivals not in ("weekly", "replay"):
        raise UserError(f"arrivals: expected weekly or replay, not {arrivals!r}.")
    if log.end.max() <= log.start.min():
        raise UserError(f"{log.source}: all events happen at one moment, so nothing can be learned about time.")
    log, of_machines, machine_notes = without_machines(log)
    work, automatic = worked_time(log), automatic_activities(log)
    if not (automatic | of_machines).all():  # somebody must be left to allocate work to
        automatic = automatic | of_machines
    pairs, notes = choose_pairs(log, automatic)
    resources = [log.resources[r] for r in range(len(log.resources)) if pairs[:, r].any()]
    services, service_notes = mine_services(log, work, pairs)
    arrival_data, arrival_notes = mine_arrivals(log, arrivals)
    data = {
        "schema": "resource-allocation-scenario/1",
        "name": name,
        "description": f"Learned from {len(log):,} events of {len(log.cases):,} cases since {log.monday:%Y-%m-%d}.",
        "time_unit": "hours",
        "begins": f"{log.monday:%Y-%m-%d}",
        "horizon": {"value": round(float(log.clock_end.max()) / HOUR, _TIME_DECIMALS)},
        "arrivals": arrival_data,
        "activities": list(log.activities),
        "resources": resources,
        "service": services,
    }
    if automatic.any():
        times = [service_distribution(work.hours[log.activity == a]) for a in np.flatnonzero(automatic)]
        names = [log.activities[a] for a in np.flatnonzero(automatic)]
        data["automatic"] = [{"activity": a} | t for a, t in zip(names, times, strict=True)]
        notes.append(f"Nobody is needed for {_some(names)}: nearly all logged times are zero, or no person does it.")
    source = f"the scenario learned from {log.source}"
    world, world_notes = mine_world(log, work, data, source, close)
    before = [*log.notes, *machine_notes, *_notes_on_time(log, work)]
    return MinedScenario(
        parse_scenario(data | world, source), [*before, *notes, *service_notes, *arrival_notes, *world_notes]
    )


def automatic_activities(log: EventLog) -> np.ndarray:
    """Return bool[A], activities that take no time in nearly all events, while others of the log do."""
    instant = log.end - log.start <= _INSTANT
    share = np.bincount(log.activity, instant, len(log.activities)) / np.bincount(log.activity)
    automatic = share >= _MOSTLY
    return automatic & ~automatic.all()


def choose_pairs(log: EventLog, automatic: np.ndarray | None = None) -> tuple[np.ndarray, list[str]]:
    """Decide who can do what: pairs with at least five events, or fewer if those cover under 95 % of the events.

    Each activity keeps its most frequent resource. If no named resource ever did it, all kept resources can do it.
    Nobody does ``automatic`` activities, bool[A]. Returns the pairs and notes.
    """
    counts = pair_counts(log)
    if automatic is not None:
        counts[automatic] = 0
    best = np.zeros(counts.shape, np.bool_)
    best[np.arange(len(counts)), counts.argmax(1)] = counts.max(1) > 0
    for least in range(MIN_PAIR_EVENTS, 0, -1):
        kept = best | (counts >= least)
        if counts[kept].sum() >= MIN_COVERAGE * counts.sum():
            break
    unassigned = ~kept.any(1) & (True if automatic is None else ~automatic)
    kept[unassigned] = kept.any(0)
    share = counts[kept].sum() / counts.sum()
    notes = [
        f"Who can do what: the {kept[~unassigned].sum()} pairs seen at least {least} times (or most often for their "
        f"activity) cover {share:.1%} of the events with a resource; "
        f"{((counts > 0) & ~kept).sum()} rarer pairs are left out."
    ]
    done = counts.any(0)
    rare, idle = ([log.resources[r] for r in np.flatnonzero(~kept.any(0) & of)] for of in (done, ~done))
    if rare:
        notes.append(f"Resources that have only such rarer pairs are left out: {_some(rare)}.")
    if idle:
        notes.append(f"Resources that do only what needs nobody are left out: {_some(idle)}.")
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
    """Return the services of a scenario, and notes.

    A pair with fewer than 20 events has the shape of its activity's times. Its mean is drawn towards that of the
    activity, the more the fewer its events are.
    """
    counts = pair_counts(log)
    services, own, zero = [], 0, set()
    for a, activity in enumerate(log.activities):
        of_activity = log.activity == a
        able = np.flatnonzero(pairs[a])
        means = _means(log, work, of_activity, pairs[a])
        for r in able:
            enough = counts[a, r] >= MIN_OBSERVATIONS
            own += enough
            hours = work.hours[of_activity & (log.resource == r)] if enough else work.hours[of_activity]
            service = service_distribution(_with_mean(hours, means[r]))
            if service["distribution"] == "constant":
                zero.add(activity)
            pair = {"activity": activity, "resource": log.resources[r], "observations": int(counts[a, r])}
            services.append(pair | service)
    notes = [
        f"Service times: {own} of {len(services)} pairs have at least {MIN_OBSERVATIONS} events and their own "
        "quantiles; the others take those of their activity. Means of few events are drawn towards the activity's, "
        "as far as the differences may be luck."
    ]
    if zero:
        notes.append(f"All logged times are zero for some of {_some(sorted(zero))}; one second is used.")
    return services, notes


def _means(log: EventLog, work: WorkedTime, of_activity: np.ndarray, able: np.ndarray) -> np.ndarray:
    """Return float64[R], mean service hours of an activity by each resource of ``able``, bool[R]."""
    by_able = of_activity & (log.resource >= 0) & able[log.resource]
    if not by_able.any():
        return np.full(len(able), float(work.hours[of_activity].mean()))
    return credible_means(work.hours[by_able], log.resource[by_able], len(able))


def _with_mean(hours: np.ndarray, mean: float) -> np.ndarray:
    """Return float64[n], the times scaled to a mean; those that are all zero stay."""
    total = float(hours.sum())
    return hours * (mean * len(hours) / total) if total > 0.0 else hours


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
    return notes


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
