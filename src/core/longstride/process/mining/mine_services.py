"""Mines the services of a scenario: skills of people, and their service times."""

from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import Pairs, pairs_of, rows_by
from longstride.process.kernel.service_times import table_mean
from longstride.process.mining.service_means import credible_means
from longstride.process.mining.working_hours import WorkedTime
from longstride.text import agreeing, counted, percent

MIN_OBSERVATIONS = 20
"""Events below which a pair has the shape of its activity's service times."""

MIN_PAIR_EVENTS = 5
"""Events below which a pair is left out, if the other pairs cover enough."""

MIN_COVERAGE = 0.95
"""Share of the events with a resource that the kept pairs must cover."""

MOST_PAIRS = 1_000_000
"""Most pairs of a scenario; a million have 41 million quantiles."""

_QUANTILES = 41
_SHORTEST = 1 / 3600
"""Hours; replaces service times that are all zero, which scenarios do not allow."""

_LEAST = _SHORTEST / 1000
"""Hours up to which a mean counts as zero."""

_DIGITS = 6


def choose_pairs(log: EventLog, automatic: np.ndarray | None = None) -> tuple[Pairs, list[str]]:
    """Choose the possible pairs: those with at least five events, or fewer if those cover under 95 % of the events.

    Each activity keeps its most frequent resource. If no named resource ever did it, all kept resources can do it.
    ``automatic`` activities, bool[A], have no pairs. Returns the pairs and notes.

    Raises:
        UserError: more than a million pairs would be kept.
    """
    seen, count = pairs_of(log.activity, log.resource, len(log.resources)), len(log.activities)
    needs_nobody = np.zeros(count, np.bool_) if automatic is None else automatic
    seen = seen.taken(~needs_nobody[seen.activity])
    least, which = _frequent(seen)
    kept, left_out = seen.taken(which), seen.taken(~which)
    unassigned = np.setdiff1d(np.flatnonzero(~needs_nobody), kept.activity)
    able = np.unique(kept.resource)
    _require_few_pairs(log, len(kept.activity), len(unassigned), len(able))
    notes = [
        f"Who can do what: {counted(len(kept.activity), 'pair')} of person and activity, seen at least "
        f"{counted(least, 'time')} or most often for the activity, with "
        f"{percent(kept.events.sum(), seen.events.sum(), 1)} of the events with a resource; "
        f"{counted(len(left_out.activity), 'rarer pair is', 'rarer pairs are')} left out."
    ]
    notes += _left_out(log, seen, able)
    if len(unassigned):
        names = some([log.activities[a] for a in unassigned])
        notes.append(f"The log never says who did {names}; everyone can do it in the scenario.")
    return _with_all(kept, unassigned, able), notes


def _frequent(seen: Pairs) -> tuple[int, np.ndarray]:
    """Return the number of events from which pairs are kept, and bool[P], the kept pairs."""
    first = np.flatnonzero(np.append(True, np.diff(seen.activity) > 0)) if len(seen.activity) else np.zeros(0, np.int64)
    most = np.repeat(np.maximum.reduceat(seen.events, first), np.diff(np.append(first, len(seen.events))))
    # If several are the most frequent, the first one in the order of resources.
    at_most = np.flatnonzero(seen.events == most)
    best = np.zeros(len(seen.events), np.bool_)
    best[at_most[np.unique(seen.activity[at_most], return_index=True)[1]]] = True
    kept, least = best, MIN_PAIR_EVENTS
    for least in range(MIN_PAIR_EVENTS, 0, -1):
        kept = best | (seen.events >= least)
        if seen.events[kept].sum() >= MIN_COVERAGE * seen.events.sum():
            break
    return least, kept


def _require_few_pairs(log: EventLog, kept: int, unassigned: int, able: int) -> None:
    """Refuse a number of pairs that is too large for training, before they are created."""
    if (pairs := kept + unassigned * able) > MOST_PAIRS:
        raise UserError(
            f"{log.source}: {counted(unassigned, 'activity names', 'activities name')} no person, so each of {able:,} "
            f"people could do them; with the others that makes {pairs:,} pairs of an activity and a person, more than "
            f"{MOST_PAIRS:,}. Name the columns with --log-columns activity=...,resource=..., or keep fewer people or "
            "activities."
        )


def _left_out(log: EventLog, seen: Pairs, able: np.ndarray) -> list[str]:
    """Return sentences about the resources that are left out of the scenario."""
    done = np.zeros(len(log.resources), np.bool_)
    done[seen.resource] = True
    gone = np.ones(len(log.resources), np.bool_)
    gone[able] = False
    rare, idle = ([log.resources[r] for r in np.flatnonzero(gone & of)] for of in (done, ~done))
    notes = []
    if rare:
        notes.append(f"Resources that have only such rarer pairs are left out: {some(rare)}.")
    if idle:
        notes.append(f"Resources that do only automatic activities are left out: {some(idle)}.")
    return notes


def _with_all(kept: Pairs, unassigned: np.ndarray, able: np.ndarray) -> Pairs:
    """Return the pairs, extended by all of some people for each of some activities."""
    activity = np.concatenate([kept.activity, np.repeat(unassigned, len(able))])
    resource = np.concatenate([kept.resource, np.tile(able, len(unassigned))])
    events = np.concatenate([kept.events, np.zeros(len(unassigned) * len(able), np.int64)])
    order = np.lexsort((resource, activity))
    return Pairs(activity[order], resource[order], events[order])


def mine_services(log: EventLog, work: WorkedTime, pairs: Pairs) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the services of a scenario, and notes.

    A pair with fewer than 20 events has the shape of its activity's times. Its mean is shrunk towards the activity's,
    the more the fewer events it has.
    """
    services, own, zero = list[dict[str, Any]](), 0, set()
    bounds = np.searchsorted(pairs.activity, np.arange(len(log.activities) + 1))
    for a, rows in enumerate(rows_by(log.activity, len(log.activities))):
        of_activity = pairs.taken(slice(bounds[a], bounds[a + 1]))
        for service in _services_of(log, work.hours[rows], log.resource[rows], of_activity):
            own += service["observations"] >= MIN_OBSERVATIONS
            if service["distribution"] == "constant":
                zero.add(service["activity"])
            services.append(service)
    measured = agreeing(own, len(services), "pair", "has", "have")
    notes = [
        f"Service times: {measured} at least {MIN_OBSERVATIONS} events, enough for own quantiles; the others take "
        "those of their activity. Means of few events are drawn towards the activity's, as far as the differences may "
        "be chance."
    ]
    if zero:
        notes.append(f"All logged times are zero for some of {some(sorted(zero))}; one second is used.")
    return services, notes


def _services_of(log: EventLog, hours: np.ndarray, resource: np.ndarray, pairs: Pairs) -> list[dict[str, Any]]:
    """Return the services of one activity from the ``hours``, float64[n], and resources, int64[n], of its events."""
    if len(pairs.resource) == 0:
        return []
    place = np.searchsorted(pairs.resource, resource)
    place[place == len(pairs.resource)] = 0
    place = np.where(pairs.resource[place] == resource, place, -1)
    able = place >= 0
    means = np.full(len(pairs.resource), float(hours.mean()))
    if able.any():
        means = credible_means(hours[able], place[able], len(pairs.resource))
    rows, table, services = rows_by(place, len(pairs.resource)), _table(hours), []
    for k, (a, r, events) in enumerate(zip(*(column.tolist() for column in pairs), strict=True)):
        own = table if events < MIN_OBSERVATIONS else _table(hours[rows[k]])
        pair = {"activity": log.activities[a], "resource": log.resources[r], "observations": events}
        services.append(pair | _distribution(own, float(means[k])))
    return services


def service_distribution(hours: np.ndarray) -> dict[str, Any]:
    """Return a distribution of 41 quantiles of service times, with their mean.

    ``hours`` is float64[n], n >= 1, not negative.
    """
    return _distribution(_table(hours), float(hours.mean()))


def _table(hours: np.ndarray) -> np.ndarray:
    """Return float64[41], the quantiles of times relative to their mean, or zeros; their own mean is 1."""
    if float(hours.mean()) <= _LEAST:
        return np.zeros(_QUANTILES)
    quantiles = quantiles_with_mean(hours, _QUANTILES)
    return np.asarray(quantiles / table_mean(quantiles))


def quantiles_with_mean(values: np.ndarray, count: int) -> np.ndarray:
    """Return float64[count], quantiles in even steps, the last one such that a table of them has the values' mean.

    Straight lines between quantiles lie above a long tail, so the largest value as the last quantile would overstate
    mean and variance.
    """
    quantiles = np.quantile(values, np.linspace(0.0, 1.0, count))
    inner = quantiles[1:-1].sum()
    quantiles[-1] = max(quantiles[-2], 2 * ((count - 1) * float(values.mean()) - inner) - quantiles[0])
    return np.asarray(quantiles)


def _distribution(table: np.ndarray, mean: float) -> dict[str, Any]:
    """Return the distribution of a scenario that has the shape of a table, with a mean in hours."""
    if mean <= _LEAST or table[-1] == 0.0:
        return {"distribution": "constant", "mean": _SHORTEST}
    return {"distribution": "quantiles", "quantiles": [float(f"{q:.{_DIGITS}g}") for q in (mean * table).tolist()]}


def some(names: list[str]) -> str:
    """Return names as text: the first five, and the number of others."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
