"""Arrivals of cases: arrays of the parameters, the expected number, and the draw of the next arrival.

Compiled functions work on ``state``, the record of ``state.py``, and ``p``, the record of ``parameters.py``.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from longstride.process.kernel.counter_rng import advance, uniform
from longstride.process.kernel.service_times import QUANTILES, service_time, table_mean
from longstride.process.scenario.scenario import HOURS_PER_WEEK, Scenario

POISSON, WEEKLY, REPLAY = range(3)


def arrival_arrays(scenario: Scenario) -> dict[str, Any]:
    """Return the parameters' fields ``arrival...``."""
    arrivals = scenario.arrivals
    kind, rates, times, expected = POISSON, np.zeros(1), np.zeros(1), np.zeros(1)
    if arrivals.times is not None:
        kind, times = REPLAY, np.array(arrivals.times, np.float64)
    elif arrivals.rates is not None:
        kind, rates = WEEKLY, np.array(arrivals.rates, np.float64)
        expected = np.append(0.0, np.cumsum(rates * scenario.hour))
    else:
        rates = np.array([arrivals.rate], np.float64)
    gaps = np.array(arrivals.gaps or [0.0], np.float64)
    if arrivals.gaps:
        gaps /= table_mean(gaps)
    return {
        "arrival_kind": kind,
        "arrival_rates": rates,
        "arrival_times": times,
        "arrivals_expected": expected,
        "arrival_gaps": gaps,
    }


def expected_cases(scenario: Scenario) -> float:
    """Return the expected number of cases of an episode; infinity or NaN if it exceeds float64."""
    arrivals, horizon = scenario.arrivals, scenario.horizon.value
    if arrivals.times is not None:
        return float(max(1, sum(time < horizon for time in arrivals.times)))
    if arrivals.rates is None:
        assert arrivals.rate is not None  # the scenario was checked
        return arrivals.rate * horizon
    rates = np.array(arrivals.rates, np.float64)
    weeks, rest = divmod(min(horizon / scenario.hour, 1e300), HOURS_PER_WEEK)  # infinity has no remainder
    whole, part = divmod(rest, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        partial = rates[: int(whole)].sum() + rates[int(whole) % HOURS_PER_WEEK] * part
        return float((weeks * rates.sum() + partial) * scenario.hour)


@njit(nogil=True)
def draw_arrival(state, p):  # type: ignore[no-untyped-def]
    """Set the time of the next arrival; infinity if none comes before the horizon."""
    if p.arrival_kind == REPLAY:
        k = state.arrived
        state.next_arrival = p.arrival_times[k] if k < len(p.arrival_times) else math.inf
        return
    state.arrival_stream = advance(state.arrival_stream)
    u = uniform(state.arrival_stream)
    if len(p.arrival_gaps) > 1:
        exposure = service_time(QUANTILES, 1.0, 0.0, float(len(p.arrival_gaps)), p.arrival_gaps, u)
    else:
        exposure = -math.log1p(-u)
    if p.arrival_kind == POISSON:
        state.next_arrival += exposure / p.arrival_rates[0]
        return
    # Inversion: integral of rate(t) dt up to the next arrival = exposure. The rate is constant within each hour.
    time = state.next_arrival
    bin_ = np.int64(math.floor(time / p.hour))
    while time < p.horizon:
        rate = p.arrival_rates[bin_ % len(p.arrival_rates)]
        end = (bin_ + 1) * p.hour
        if exposure < rate * (end - time):
            state.next_arrival = time + exposure / rate
            return
        exposure -= rate * (end - time)
        time = end
        bin_ += 1
    state.next_arrival = math.inf


@njit(nogil=True)
def arrivals_in_excess(state, p):  # type: ignore[no-untyped-def]
    """Return arrivals so far minus those expected so far; 0 for arrivals from a log.

    With gaps that are not exponential, the horizon cuts off the last one: so the mean of whole episodes is up to half a
    case below 0.
    """
    if p.arrival_kind == REPLAY:
        return 0.0
    if p.arrival_kind == POISSON:
        return state.arrived - p.arrival_rates[0] * state.time
    time, arrived = state.time, state.arrived
    if len(p.arrival_gaps) > 1 and state.next_arrival < math.inf:
        # Gaps have memory, so only whole gaps have the expected number of arrivals: the current gap counts as a whole.
        time, arrived = state.next_arrival, state.arrived + 1
    bin_, bins = np.int64(math.floor(time / p.hour)), len(p.arrival_rates)
    expected = (bin_ // bins) * p.arrivals_expected[bins] + p.arrivals_expected[bin_ % bins]
    return arrived - expected - p.arrival_rates[bin_ % bins] * (time - bin_ * p.hour)
