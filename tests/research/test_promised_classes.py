"""The optimum of two classes with due dates, against all orders of cases that are there from the beginning."""

from itertools import permutations, product

import pytest

from research.processes import promised_classes as study


def best_order(of, classes, objective):
    """Return the least cost of cases that all arrive at 0, over all their orders."""
    costs = []
    for order in permutations(classes):
        now, cost = 0.0, 0.0
        for c in order:
            now += of.times[c]
            beyond = now - of.allowances[c]
            cost += of.weights[c] * (max(beyond, 0.0) if objective == "tardiness" else beyond > 1e-9)
        costs.append(cost)
    return min(costs)


@pytest.mark.parametrize("objective", ["tardiness", "late"])
@pytest.mark.parametrize("allowances", [(4.0, 1.5), (2.0, 5.0), (1.0, 3.1)])
def test_cases_that_are_all_there_have_the_best_of_all_orders(objective, allowances):
    of = study.Instance((0.0,) * 5, (2.0, 0.7), allowances, (3.0, 1.0))
    expected = 0.0
    for classes in product((0, 1), repeat=5):
        chance = study.GOLD ** classes.count(0) * (1.0 - study.GOLD) ** classes.count(1)
        expected += chance * best_order(of, classes, objective)
    for waits, any_order in product((True, False), repeat=2):
        assert study.optimum(of, objective, waits, any_order) == pytest.approx(expected / 5)


def test_a_late_case_blocks_its_class():
    """One of the first two is late; the third is in time if it may go before that one.

    If the first two differ, plain goes first: the third is more often plain, and then not behind the late one.
    """
    of = study.Instance((0.0, 0.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
    assert study.optimum(of, "late", any_order=True) == pytest.approx(1.0 / 3.0)
    assert study.optimum(of, "late") == pytest.approx((1.0 + 0.48 * 0.4 + 0.16 * 0.4 + 0.36 * 0.6) / 3.0)


def test_waiting_for_a_case_pays_if_the_other_one_is_late_anyway():
    """A gold case takes 9 and is late; a plain one after it is in time only if the person waits for it."""
    of = study.Instance((0.0, 0.5), (9.0, 1.0), (1.0, 1.5), (1.0, 1.0))
    assert study.optimum(of, "late") == pytest.approx((0.6 * 0.4 + 0.4 * 1.4) / 2.0)
    assert study.optimum(of, "late", waits=False) == pytest.approx((0.6 * 0.4 + 0.4 * 2.0) / 2.0)
