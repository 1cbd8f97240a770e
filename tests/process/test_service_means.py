"""Means of service times of few records: published figures, the balance of hours, and error against known means."""

import numpy as np
import pytest

from longstride.process.mining.service_means import credible_means, mixed, variances


def test_the_estimates_of_hachemeisters_data_are_those_published():
    """Five states with twelve quarters each; figures of the R package actuar, function cm, Bühlmann-Straub."""
    means = np.array([2060.921, 1511.224, 1805.843, 1352.976, 1599.829])
    weights = np.array([100_155, 19_895, 13_735, 4_152, 36_110])
    squares = np.full(5, 139_120_026 * (weights.sum() - 5) / 5)
    within, between = variances(weights, means, squares)
    assert within == pytest.approx(139_120_026) and between == pytest.approx(89_638.73, rel=1e-4)
    estimates, common = mixed(weights, means, squares)
    assert common == pytest.approx(1683.713, rel=1e-6)
    np.testing.assert_allclose(estimates, [2055.165, 1523.706, 1793.444, 1442.967, 1603.285], rtol=1e-6)


def test_all_together_take_as_long_as_logged_and_a_stranger_takes_the_common_time():
    rng = np.random.default_rng(0)
    person = rng.choice(6, 200, p=[0.5, 0.3, 0.1, 0.07, 0.03, 0.0])
    hours = rng.exponential(1.0 + person)
    means = credible_means(hours, person, 6)
    counts = np.bincount(person, minlength=6)
    assert counts @ means == pytest.approx(hours.sum(), rel=1e-12)
    raw = np.bincount(person, hours, 6)[:5] / counts[:5]
    assert (np.sort([raw, means[:5], np.full(5, means[5])], axis=0)[1] == means[:5]).all()  # between own and common
    drawn = np.abs(means[:5] - raw) / np.abs(means[5] - raw)
    assert (np.diff(drawn[np.argsort(-counts[:5])]) > 0).all()  # the fewer records, the more


def test_people_who_differ_by_chance_alone_get_one_mean_and_otherwise_the_error_falls():
    rng = np.random.default_rng(1)
    raw_error = error = 0.0
    for _ in range(200):
        truth = rng.gamma(4.0, 0.25, 12)
        counts = rng.integers(3, 30, 12)
        person = np.repeat(np.arange(12), counts)
        hours = rng.exponential(truth[person])
        raw_error += ((np.bincount(person, hours) / counts - truth) ** 2).sum()
        error += ((credible_means(hours, person, 12) - truth) ** 2).sum()
    assert error < 0.8 * raw_error
    same = [credible_means(rng.exponential(1.0, 240), np.arange(240) % 12, 12).std() for _ in range(40)]
    assert np.median(same) < 0.1 * 20**-0.5  # raw means have a deviation of 20 ** -0.5


@pytest.mark.parametrize("person", [[0, 0, 0], [0, 1, 2], [2, 2, 1]])
def test_one_person_or_one_record_each_have_a_mean(person):
    means = credible_means(np.array([1.0, 2.0, 6.0]), np.array(person), 4)
    assert np.isfinite(means).all() and np.bincount(person, minlength=4) @ means == pytest.approx(9.0)
