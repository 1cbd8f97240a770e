"""Delays that a generated log has are mined back; none are found where there are none."""

from datetime import datetime

import numpy as np
import pytest
from oracles.process_play import scenario, service

from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.event_logs.mine_scenario import mine_scenario
from core.simulators.process.mining import closure
from core.simulators.process.mining.case_order import concurrent_activities, order_cases
from core.simulators.process.mining.delays import free_between
from core.simulators.process.mining.play_logged import play_logged
from core.simulators.process.mining.weights import kaplan_meier
from core.simulators.process.parameters import as_record, build_parameters

CASES = 150
SERVICE = 6.0
DELAY = 36.0


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


def generated(load, delay):
    """Return a log of two activities in a row, each done by two people of its own, with a delay before the second."""
    made = scenario(
        horizon={"value": 4.0 * SERVICE * CASES / load},
        arrivals={"process": "poisson", "rate": 2.0 * load / SERVICE},
        activities=["A", "B"],
        resources=["R", "S", "T", "U"],
        service=[
            {**service(a, r, "exponential", mean=SERVICE), "observations": 1}
            for a, rs in (("A", "RS"), ("B", "TU"))
            for r in rs
        ],
        flow={"seq": [{"task": "A"}, {"task": "B"}]},
        delays=[{"activity": "B", "distribution": "exponential", "mean": DELAY}] if delay else [],
    )
    parameters, sizes = build_parameters(made)
    played = play_logged(as_record(parameters), parameters, sizes, 3, cases=CASES)
    activity = parameters.node_target[played.node]
    people = float((played.start - played.queued).mean() * 2)
    first_end = np.zeros(CASES)
    first_end[played.case[activity == 0]] = played.end[activity == 0]
    rest = float((played.queued - first_end[played.case])[activity == 1].mean())
    return log_of(played.case, activity, played.resource, played.start, played.end), people, rest


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5])
def test_known_delays_are_mined_back(load, monkeypatch):
    monkeypatch.setattr(closure, "_EVENTS", 1)
    log, _, rest = generated(load, True)
    found = mine_scenario(log, name="t").scenario.waiting
    assert rest == pytest.approx(DELAY, rel=0.25) and found.world_at_least < 1.1 * rest
    assert found.world == pytest.approx(rest, rel=0.1)


@pytest.mark.slow
def test_no_delays_are_found_where_there_are_none(monkeypatch):
    monkeypatch.setattr(closure, "_EVENTS", 1)
    log, people, _ = generated(0.8, False)
    found = mine_scenario(log, name="t").scenario.waiting
    assert found.waiting > 0.5 * people > 0.5 * SERVICE
    assert found.world_at_least < 0.02 * found.waiting


def test_free_moments_between_two_times():
    free = np.array([[0.0, 2.0], [5.0, 6.0], [9.0, 10.0]])
    enabled, start = np.array([1.0, 3.0, 7.0, 5.5, 20.0]), np.array([5.5, 8.0, 8.0, 5.8, 30.0])
    first, last = free_between(free, enabled, start)
    np.testing.assert_array_equal(first, [1.0, 5.0, 8.0, 5.5, 30.0])
    np.testing.assert_array_equal(last, [5.5, 6.0, 8.0, 5.8, 30.0])


def test_kaplan_meier_gives_the_weight_of_the_cut_to_the_longer():
    # The textbook: times 1, 2+, 3, 4 with the second censored: mass 1/4, 0, 3/8, 3/8.
    weights = kaplan_meier(np.array([3.0, 1.0, 2.0, 4.0]), np.array([1.0, 1.0, 0.0, 1.0])) / 4
    np.testing.assert_allclose(weights, [3 / 8, 1 / 4, 0, 3 / 8], atol=1e-6)


def test_events_that_overlap_follow_what_both_wait_for():
    # A, then B and C at once, then D; in a second case B ends before C begins, but the two are concurrent.
    case, activity = [0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]
    start, end = [0, 1, 1.5, 6, 10, 11, 13, 20], [1, 4, 5, 7, 11, 12, 15, 21]
    log = log_of(case, activity, [0] * 8, start, end)
    order = order_cases(log)
    assert order.after == [[], [0], [0], [1, 2], [], [4], [4], [5, 6]]
    np.testing.assert_allclose(order.enabled / 3600, [0, 1, 1, 5, 10, 11, 11, 15])
    pairs = np.argwhere(concurrent_activities(log, order.order)).tolist()
    assert pairs == [[1, 2], [2, 1]]
