"""Waits, cases and their weights as a log shows them, by hand."""

import numpy as np
from helpers.generated_logs import log_of

from longstride.process.mining.case_order import Concurrency, order_cases
from longstride.process.mining.delays.waits import free_between
from longstride.process.mining.weights import kaplan_meier


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
    assert Concurrency(log, order.order).others == {1: {2}, 2: {1}}
