"""Arrivals of a log: the rate in each hour of the week, and the regularity of the gaps between them."""

import math
from typing import Any

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.kernel.service_times import table_mean
from longstride.process.mining.mine_services import quantiles_with_mean
from longstride.process.mining.working_hours import HOUR
from longstride.process.scenario.scenario import HOURS_PER_WEEK

_EVIDENCE = 3.0
"""Difference of log-likelihoods from which a log's end is assumed to lack cases."""

_MIN_GAPS = 30
_QUANTILES = 101
_DIGITS = 6
_TIME_DECIMALS = 6


def mine_arrivals(log: EventLog, process: str, waited: np.ndarray) -> tuple[dict[str, Any], list[str]]:
    """Return the arrivals of a scenario, and notes; a case arrives ``waited``, float64[cases] hours, before its start.

    The rate of an hour of the week is its number of arrivals over the number of such hours between the log's first
    start and last end, corrected for a part at the end that lacks cases (:func:`_coverage`). ``process`` is ``weekly``
    or ``replay``.
    """
    first, last = np.full(len(log.cases), np.inf), np.full(len(log.cases), -np.inf)
    np.minimum.at(first, log.case, log.clock_start / HOUR)
    if log.only_dates:
        first = over_the_day(first)
    first = np.maximum(first - waited, 0.0)
    np.maximum.at(last, log.case, log.clock_end / HOUR)
    if process == "replay":
        return {"process": "replay", "times": [round(float(t), _TIME_DECIMALS) for t in np.sort(first)]}, []
    # An event without duration that begins on a full hour touches the hour after it.
    hours = touched_hours(float(first.min()), max(float(log.clock_end.max()) / HOUR, math.floor(first.max()) + 1))
    coverage, note = _coverage(first, last, hours)
    rates = _rates(first, hours, coverage)
    arrivals: dict[str, Any] = {"process": "weekly", "rates": [_rounded(rate) for rate in rates]}
    if len(first) > _MIN_GAPS:
        arrivals["gaps"] = gaps(np.sort(first), rates)
    return arrivals, [note] if note else []


def over_the_day(hours: np.ndarray) -> np.ndarray:
    """Return float64[n], moments in hours since a Monday, with those of a day at even distances over its 24 hours."""
    day = np.floor(hours / 24).astype(np.int64)
    order = np.lexsort((hours, day))
    _, begins, counts = np.unique(day[order], return_index=True, return_counts=True)
    rank = np.arange(len(day)) - np.repeat(begins, counts)
    even = np.empty(len(day))
    even[order] = 24.0 * (day[order] + (rank + 0.5) / np.repeat(counts, counts))
    return even


def touched_hours(start: float, end: float) -> np.ndarray:
    """Return int64[n], the hours since a Monday 00:00 that [start, end] touches.

    A touched hour counts as a whole: a log that begins a second before ten must not get a rate per second.
    """
    return np.arange(int(start), max(math.ceil(end), int(start) + 1))


def _rates(first: np.ndarray, hours: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Return float64[168], arrivals per covered hour of each hour of the week."""
    counts = np.bincount(first.astype(np.int64) % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    exposure = np.bincount(hours % HOURS_PER_WEEK, coverage, HOURS_PER_WEEK)
    return np.divide(counts, exposure, out=np.zeros(HOURS_PER_WEEK), where=(exposure > 0) & (counts > 0))


def _coverage(first: np.ndarray, last: np.ndarray, hours: np.ndarray) -> tuple[np.ndarray, str]:
    """Return float64[hours], the share of each hour's arrivals that is in the log, and a note if some are missing.

    A log may stop recording new cases before its end, or contain only finished cases. Each is assumed if it makes the
    arrivals much more likely than a complete log does.
    """
    cycles = np.sort(last - first)
    ended = np.searchsorted(cycles, hours[-1] + 1.0 - hours, side="right") / len(cycles)
    stops = (hours <= first.max()).astype(np.float64)
    whole = np.ones(len(hours))
    believed, note = whole, ""
    best = _likelihood(first, hours, whole) + _EVIDENCE
    for coverage, sentence in (
        (stops, "No case begins in the last {:.0%} of the log, so that part does not count for the rates."),
        (np.maximum(ended, 1e-3), "The log's end has few arrivals, as if it held only cases that have ended; {:.0%} of "
         "its arrivals are taken to be missing, and rates are higher by that."),
    ):  # fmt: skip
        likelihood = _likelihood(first, hours, coverage)
        if likelihood > best:
            believed, best, note = coverage, likelihood, sentence.format(1.0 - coverage.mean())
    return believed, note


def _likelihood(first: np.ndarray, hours: np.ndarray, coverage: np.ndarray) -> float:
    """Return the log-likelihood of arrivals, up to a constant, under the maximum-likelihood rates for a coverage."""
    rates = _rates(first, hours, coverage)
    at = first.astype(np.int64)
    return float(np.log(np.maximum(rates[at % HOURS_PER_WEEK] * coverage[at - hours[0]], 1e-12)).sum())


def gaps(first: np.ndarray, rates: np.ndarray) -> list[float]:
    """Return quantiles of the expected number of arrivals between successive arrivals; a Poisson process has Exp(1).

    ``first`` are the sorted arrivals in hours, ``rates`` the rates of the hours of the week.
    """
    upto = np.concatenate([[0.0], np.cumsum(rates)])
    weeks, rest = np.divmod(first, HOURS_PER_WEEK)
    expected = weeks * upto[-1] + np.interp(rest, np.arange(HOURS_PER_WEEK + 1), upto)
    between = np.diff(expected)
    if between.max() <= 0.0:
        return [1.0] * _QUANTILES
    values = quantiles_with_mean(between, _QUANTILES)
    return [_rounded(value) for value in values / table_mean(values)]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
