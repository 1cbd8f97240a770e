"""Starts of completions against a queue with known service times, with and without delays that no person causes."""

import numpy as np
import pytest

from longstride.process.event_logs.estimate_starts import LONGEST_IN_MEDIANS, estimate_starts

HOUR, SERVICE = 3600.0, 0.8


def completions(delay, days=250, seed=0):
    """Play two tasks a case by one person each, 9 to 17 with overtime; the second is delayed by ``delay`` hours.

    Returns:
        Case, person, activity, end in seconds, and service in hours of each event; float64 or int64[n].
    """
    rng, rows = np.random.default_rng(seed), []
    arrivals = np.sort(24.0 * rng.integers(0, days, 8 * days) + rng.uniform(8.0, 16.0, 8 * days))
    ready = [(t, case) for case, t in enumerate(arrivals)]
    for step in (0, 1):
        free, following = 9.0, []
        for enabled, case in sorted(ready):
            begin = max(enabled, free)
            begin = begin if begin % 24.0 < 17.0 else (begin // 24.0 + 1.0) * 24.0 + 9.0
            begin = max(begin, begin // 24.0 * 24.0 + 9.0)
            service = rng.exponential(SERVICE)
            free = begin + service
            rows.append((case, step, step, free * HOUR, service))
            following.append((free + (rng.exponential(delay) if delay else 0.0), case))
        ready = following
    received = [(case, -1, 2, t * HOUR, 0.0) for case, t in enumerate(arrivals)]
    return [np.array(column) for column in zip(*[*rows, *received], strict=True)]


def test_where_people_alone_cause_waiting_estimates_are_the_service_times():
    case, who, activity, end, service = completions(0.0)
    hours = (end - estimate_starts(case, who, activity, end)) / HOUR
    assert (hours[activity == 2] == 0.0).all()
    for a in (0, 1):
        mine = activity == a
        assert hours[mine].mean() == pytest.approx(service[mine].mean(), rel=0.03)
        assert np.median(np.abs(hours[mine] - service[mine])) < 1e-6


def test_estimates_with_delays_are_cut():
    case, who, activity, end, service = completions(6.0)
    hours = (end - estimate_starts(case, who, activity, end)) / HOUR
    mine = activity == 1
    assert hours[mine].max() <= LONGEST_IN_MEDIANS * np.median(hours[mine]) + 1e-6
    assert hours[activity == 0].mean() == pytest.approx(service[activity == 0].mean(), rel=0.03)
