"""Intervals with the error of the log, against the closed formulas of a hierarchical model."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from scipy.stats import t

from longstride.process.resamples.interval import Effect, LogError, bias_of_mining, effect_of, interval, log_error

BETWEEN, WITHIN = 0.03**2, 0.015**2


def test_the_variance_between_logs_is_unbiased():
    """Effects of resamples vary between logs and by their own episodes; n blocks show (n - 1) / n of the former."""
    rng, blocks, found = np.random.default_rng(0), 10.0, []
    shown = BETWEEN * (blocks - 1) / blocks
    for _ in range(2000):
        values = rng.normal(0.0, np.sqrt(shown + WITHIN), 20)
        found.append(log_error([Effect(value, WITHIN, 20) for value in values], blocks).variance)
    assert np.mean(found) == pytest.approx(BETWEEN, rel=0.03)


def test_no_variance_is_below_zero():
    alike = [Effect(0.1, 1.0, 20), Effect(0.1001, 1.0, 20)]
    assert log_error(alike, 10.0) == LogError(0.0, 2, 1.0)
    assert log_error(alike[:1], 10.0) is None


@pytest.mark.parametrize("between", [0.0, BETWEEN, 10 * BETWEEN])
def test_intervals_of_a_hierarchical_model_hold_the_truth(between):
    """The log moves the estimate, and episodes do; 95 % of the intervals hold the true effect of 0."""
    rng, tries, held = np.random.default_rng(1), 3000, 0
    for _ in range(tries):
        estimate = rng.normal(0.0, np.sqrt(between + WITHIN))
        values = rng.normal(estimate, np.sqrt(between + WITHIN), 20)
        error = log_error([Effect(value, WITHIN, 20) for value in values], 1e9)
        found = interval(Effect(estimate, WITHIN * rng.chisquare(29) / 29, 30), error)
        held += found.low <= 0.0 <= found.high
    assert 0.94 < held / tries < 0.985 if between == 0.0 else 0.935 < held / tries < 0.965


@pytest.mark.parametrize("between", [0.0, BETWEEN, 10 * BETWEEN])
def test_intervals_of_few_blocks_hold_the_truth_with_simulated_logs(between):
    """Blocks of a log may be alike by chance; without the simulated logs 92 to 93 % of the intervals hold the truth."""
    rng, tries, blocks, held = np.random.default_rng(4), 4000, 13, 0
    for _ in range(tries):
        alike = between * rng.chisquare(blocks - 1) / blocks  # variance between the draws from this log
        drawn, simulated = (
            [Effect(value, WITHIN, 20) for value in rng.normal(0.0, np.sqrt(variance + WITHIN), count)]
            for variance, count in ((alike, 20), (between, 10))
        )
        estimate = Effect(rng.normal(0.0, np.sqrt(between + WITHIN)), WITHIN * rng.chisquare(29) / 29, 30)
        found = interval(estimate, log_error(drawn, blocks, simulated))
        held += found.low <= 0.0 <= found.high
    assert 0.94 < held / tries < 0.985 if between == 0.0 else 0.94 < held / tries < 0.965


def test_simulated_logs_are_the_least_variance():
    apart = [Effect(0.1, 0.0, 20), Effect(0.3, 0.0, 20)]  # variance 0.02
    alike = [Effect(0.2, 0.0, 20), Effect(0.2, 0.0, 20), Effect(0.2, 0.0, 20)]
    assert log_error(alike, 1e9, apart) == LogError(pytest.approx(0.02 / 3), 3, 3.0)
    assert log_error(apart, 1e9, alike) == LogError(pytest.approx(0.02), 2, 1.0)


def test_the_interval_is_that_of_welch_and_satterthwaite():
    within, between = 4e-4, 9e-4
    found = interval(Effect(0.2, within, 30), LogError(between, 20, 19.0))
    freedom = (within + between) ** 2 / (within**2 / 29 + between**2 / 19)
    half = t.ppf(0.975, freedom) * np.sqrt(within + between)
    assert (found.low, found.high) == pytest.approx((0.2 - half, 0.2 + half))
    assert (found.of_episodes, found.of_log) == pytest.approx((4 / 13, 9 / 13))


def test_without_the_log_it_is_that_of_pairs():
    rng = np.random.default_rng(2)
    base = rng.normal(100.0, 3.0, 30)
    changed = 0.9 * base + rng.normal(0.0, 1.0, 30)
    found = interval(effect_of(changed, base), None)
    assert found.value == pytest.approx(np.log(changed.mean() / base.mean()))
    spread = np.std(changed / changed.mean() - base / base.mean(), ddof=1) / np.sqrt(30)
    assert found.high - found.low == pytest.approx(2 * t.ppf(0.975, 29) * spread)
    assert found.of_log == 0.0


def test_a_change_without_an_effect_has_none():
    same = np.array([3.0, 4.0, 5.0])
    assert interval(effect_of(same, same), LogError(0.0, 20, 19.0))[:3] == (0.0, 0.0, 0.0)


def test_the_bias_of_mining_is_found_and_chance_is_none():
    """Effects that are mined back are off by 0.1, or by nothing."""
    rng, square = np.random.default_rng(3), {0.1: [], 0.0: []}
    for bias, found in square.items():
        for _ in range(2000):
            back = [Effect(value, WITHIN, 20) for value in rng.normal(0.3 + bias, 0.05, 10)]
            found.append(bias_of_mining(Effect(rng.normal(0.3, 0.01), 0.01**2, 30), back))
    assert np.mean(square[0.1]) == pytest.approx(0.1**2, rel=0.05)
    assert np.median(square[0.0]) == 0.0
    assert bias_of_mining(Effect(0.3, 0.0, 30), []) == 0.0


def test_the_bias_of_mining_widens_the_interval():
    parts = interval(Effect(0.2, 1e-4, 30), LogError(2e-4, 20, 19.0, 1e-4, 10))
    assert (parts.of_episodes, parts.of_log, parts.of_mining) == pytest.approx((0.25, 0.5, 0.25))
