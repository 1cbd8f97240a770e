"""Compiled sampling of each action space against torch, against statistics, and greedy choice."""

import numpy as np
import pytest
import torch

from core.policy.distributions import masked_log_softmax
from core.policy.sampling import greedy_masked, sample_masked

LOGITS = np.array([0.3, -1.0, 2.0, 0.0, 1.2, 40.0], np.float32)


@pytest.mark.parametrize(
    "mask", [[1, 1, 1, 1, 1, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1]]
)
def test_sampled_actions_follow_the_masked_softmax(mask):
    stats = pytest.importorskip("scipy.stats")
    mask = np.array(mask, np.bool_)
    exponents = np.where(mask, np.exp(LOGITS.astype(np.float64) - 40.0 * mask[5]), 0.0)
    probabilities = exponents / exponents.sum()
    rng = np.random.default_rng(11)
    n = 20_000
    draws = [sample_masked(LOGITS, mask, 6, rng.random())[0] for _ in range(n)]
    counts = np.bincount(draws, minlength=6)
    assert counts[~mask].sum() == 0
    likely = probabilities * n > 5
    assert counts[~likely].sum() <= 5
    if likely.sum() > 1:
        expected = probabilities[likely] * n
        chi_square = ((counts[likely] - expected) ** 2 / expected).sum()
        assert stats.chi2.sf(chi_square, likely.sum() - 1) > 0.001


@pytest.mark.parametrize("mask", [[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0]])
@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.7, 1.0 - 2.0**-53])
def test_the_log_probability_is_that_of_the_drawn_action(mask, uniform):
    mask = np.array(mask, np.bool_)
    action, log_prob = sample_masked(LOGITS, mask, 6, uniform)
    assert mask[action]
    expected = masked_log_softmax(torch.from_numpy(LOGITS)[None], torch.from_numpy(mask)[None])[0, action]
    assert float(log_prob) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)


def test_sampling_inverts_the_cumulated_probabilities():
    """Probabilities 1/4, 1/4, 1/2 of logits 0, 0, ln 2: the cuts are at 0.25 and 0.5."""
    logits, mask = np.array([0.0, 0.0, np.log(2.0)], np.float32), np.ones(3, np.bool_)
    drawn = [sample_masked(logits, mask, 3, u)[0] for u in (0.0, 0.2499, 0.2501, 0.4999, 0.5001, 0.9999)]
    assert drawn == [0, 0, 1, 1, 2, 2]


def test_greedy_takes_the_best_allowed_action_and_the_first_of_equals():
    logits = np.array([1.0, 3.0, 3.0, 9.0], np.float32)
    assert greedy_masked(logits, np.array([1, 1, 1, 0], np.bool_), 4) == 1
    assert greedy_masked(logits, np.array([1, 0, 1, 1], np.bool_), 4) == 3
    assert greedy_masked(logits, np.array([1, 0, 0, 0], np.bool_), 4) == 0
    assert greedy_masked(logits, np.array([0, 0, 1, 1], np.bool_), 3) == 2, "only the first n count"
