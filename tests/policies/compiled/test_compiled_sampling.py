"""Compiled sampling of each action space against torch, against statistics, and greedy choice."""

from functools import cache

import numpy as np
import pytest
import torch
from oracles.slow_update import slow_distribution

from longstride.policies.compiled.sampling import (
    build_place,
    build_sampling,
    greedy_masked,
    log_slope_of_squash,
    row_of,
    sample_masked,
)
from longstride.policies.distributions import distribution_of, masked_log_softmax
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

SPACES = [
    *(Discrete(1), Discrete(2), Discrete(33)),
    *(MultiDiscrete([1]), MultiDiscrete([2, 1, 5]), MultiDiscrete([3] * 17)),
    *(Box([-1.0], [2.0]), Box([-np.inf, 0.0, -1.0], [np.inf, np.inf, 1.0]), Box([-1.0] * 9, [1.0] * 9)),
    *(Box([-1.0], [2.0], squashed=True), Box([-3.0, 0.0, 1e-3] * 3, [1.0, 500.0, 2e-3] * 3, squashed=True)),
]


LOG_STD_AT = 3


class Draws:
    """Draws of one policy output, by the compiled functions of a space."""

    def __init__(self, space, outputs, log_std, mask=None):
        self.space, self.outputs = space, np.asarray(outputs, np.float32)
        self.weights = np.zeros(LOG_STD_AT + len(log_std), np.float32)
        self.weights[LOG_STD_AT:] = log_std
        self.mask = np.ones(sum(space.choices), np.bool_) if mask is None else mask
        self.sampling = compiled_sampling(space)

    def sample(self, rng):
        """Return what step gets, what is recorded, the log-probability."""
        drawn, row = (np.zeros(row_of(self.space)[0], row_of(self.space)[1]) for _ in range(2))
        action, log_prob = self.sampling.sample(self.outputs, self.weights, self.mask, rng, drawn, row)
        return action, drawn, log_prob

    def many(self, n, seed=11):
        """Return n of what step gets, as one array."""
        rng = np.random.default_rng(seed)
        return np.stack([np.array(self.sample(rng)[0]) for _ in range(n)])


@cache
def compiled_sampling(space):
    return build_sampling(space, LOG_STD_AT)


def random_mask(space, rng):
    """Return a mask with at least one allowed value for each choice."""
    parts = [rng.random(n) < 0.6 for n in space.choices]
    for part in parts:
        part[rng.integers(len(part))] = True
    return np.concatenate([np.zeros(0, np.bool_), *parts])


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_compiled_log_probabilities_equal_those_of_torch_and_of_the_definition(space):
    rng = np.random.default_rng(3)
    evaluate = distribution_of(space)
    for _ in range(40):
        outputs = rng.normal(0, 2, space.outputs).astype(np.float32)
        log_std = rng.normal(-0.5, 0.7, 0 if space.choices else space.outputs).astype(np.float32)
        mask = random_mask(space, rng)
        _, drawn, log_prob = Draws(space, outputs, log_std, mask).sample(rng)
        recorded = torch.from_numpy(drawn.reshape(1, *space.shape))
        columns = (torch.from_numpy(x) for x in (outputs[None], log_std, mask[None]))
        of_torch = evaluate(*columns, recorded)[0]
        assert of_torch.dtype == torch.float32
        assert np.float32(log_prob) == log_prob
        assert float(log_prob) == pytest.approx(float(of_torch), rel=1e-5, abs=1e-5)
        definition, _ = slow_distribution(space, outputs.astype(float), log_std.astype(float), mask, drawn)
        assert float(log_prob) == pytest.approx(definition, rel=1e-5, abs=1e-5)


def bounded(space, drawn):
    """Return the numbers that draws become, float64[numbers], written out for each kind of bounds."""
    numbers = []
    for x, low, high, scale in zip(drawn.astype(np.float64), *space.bounds.astype(float), space.scales, strict=True):
        if space.squashed:
            numbers.append(low + (high - low) * (np.tanh(x) + 1) / 2)
        elif np.isfinite(low) and np.isfinite(high):
            numbers.append(np.clip(low + (high - low) / 2 + scale * x, low, high))
        elif np.isfinite(low):
            numbers.append(max(low, low + scale * x))
        elif np.isfinite(high):
            numbers.append(min(high, high + scale * x))
        else:
            numbers.append(scale * x)
    return np.array(numbers)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_what_step_gets_belongs_to_what_is_recorded(space):
    rng = np.random.default_rng(4)
    draws = Draws(space, rng.normal(0, 1, space.outputs), np.zeros(0 if space.choices else space.outputs))
    for _ in range(50):
        action, drawn, _ = draws.sample(rng)
        if space.choices:
            assert np.array_equal(np.atleast_1d(action), drawn)
            continue
        low, high = space.bounds
        assert action.dtype == np.float32
        assert ((low <= action) & (action <= high)).all()
        np.testing.assert_allclose(action, bounded(space, drawn), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_greedy_action_is_the_mode(space):
    rng = np.random.default_rng(5)
    outputs, mask = rng.normal(0, 3, space.outputs).astype(np.float32), random_mask(space, rng)
    action = compiled_sampling(space).greedy(outputs, mask, np.zeros(row_of(space)[0], row_of(space)[1]))
    if space.choices:
        allowed = np.where(mask, outputs, -np.inf)
        begins = np.cumsum(space.choices) - space.choices
        best = [np.argmax(allowed[b : b + n]) for b, n in zip(begins, space.choices, strict=True)]
        assert np.array_equal(np.atleast_1d(action), best)
        assert isinstance(action, int) == isinstance(space, Discrete)
    else:
        np.testing.assert_allclose(action, bounded(space, outputs), rtol=1e-6, atol=1e-6)


def test_choices_are_drawn_independently_with_their_probabilities():
    stats = pytest.importorskip("scipy.stats")
    space = MultiDiscrete([2, 3, 2])
    logits = np.array([0.0, 1.0, -1.0, 0.5, 0.0, 5.0, 0.3])
    mask = np.array([1, 1, 1, 1, 0, 0, 1], np.bool_)
    draws = Draws(space, logits, [], mask).many(20_000)
    assert draws[:, 2].min() == 1, "the first value of the last choice is forbidden"
    assert draws[:, 1].max() == 1
    first, second = np.exp(logits[:2]), np.exp(logits[2:4])
    expected = 20_000 * np.outer(first / first.sum(), second / second.sum())
    counts = np.histogram2d(draws[:, 0], draws[:, 1], [[-0.5, 0.5, 1.5]] * 2)[0]
    assert stats.chisquare(counts.ravel(), expected.ravel()).pvalue > 0.001


def test_real_actions_are_normal():
    stats = pytest.importorskip("scipy.stats")
    space = Box([-np.inf] * 2, [np.inf] * 2, scale=[1.0, 40.0])
    draws = Draws(space, [0.7, -3.0], [-1.0, 0.8]).many(20_000)
    for column, mean, std in zip(draws.T, (0.7, -120.0), (np.exp(-1.0), 40.0 * np.exp(0.8)), strict=True):
        assert stats.kstest(column, stats.norm(mean, std).cdf).pvalue > 0.001
        assert abs(column.mean() - mean) < 4 * std / 20_000**0.5
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4 / 20_000**0.5


def test_squashed_actions_follow_the_squashed_normal():
    stats = pytest.importorskip("scipy.stats")
    draws = Draws(Box([-1.0], [3.0], squashed=True), [0.4], [0.3]).many(20_000)[:, 0]
    uncovered = np.arctanh((draws.astype(np.float64) - 1.0) / 2.0)
    assert stats.kstest(uncovered, stats.norm(0.4, np.exp(0.3)).cdf).pvalue > 0.001


def test_clipped_actions_heap_up_at_the_bounds():
    stats = pytest.importorskip("scipy.stats")
    draws = Draws(Box([-0.5], [1.0], scale=[2.0]), [0.2], [0.0]).many(20_000)[:, 0]
    number = stats.norm(0.25 + 2.0 * 0.2, 2.0)
    for bound, share in ((-0.5, number.cdf(-0.5)), (1.0, number.sf(1.0))):
        assert abs((draws == np.float32(bound)).mean() - share) < 4 * (share / 20_000) ** 0.5


def test_policies_and_loops_share_the_stream_of_numpy():
    """The slow episode relies on it: one normal number for each real number, in order."""
    _, drawn, _ = Draws(Box([-9.0] * 3, [9.0] * 3), [1.0, 2.0, 3.0], [0.0, 0.5, -0.5]).sample(np.random.default_rng(8))
    normals = np.random.default_rng(8).standard_normal(3)
    np.testing.assert_allclose(drawn, [1, 2, 3] + np.exp([0.0, 0.5, -0.5]) * normals, rtol=1e-6)


@pytest.mark.parametrize("x", [-100.0, -20.0, -9.1, -3.0, 0.0, 1e-3, 3.0, 9.1, 20.0, 100.0])
def test_squashing_is_right_where_tanh_saturates(x):
    """1 - tanh(x)^2 = 4 / (e^x + e^-x)^2, in logarithms, with more digits than a float has."""
    from decimal import Decimal, getcontext

    getcontext().prec = 120
    e = Decimal(float(np.float32(x))).exp()
    expected = float((6 / (e + 1 / e) ** 2).ln())
    assert log_slope_of_squash(np.float32(x), 1.5) == pytest.approx(expected, abs=1e-12)
    y = build_place(Box([-1.0], [2.0], squashed=True))(np.float32(x), 0)
    assert -1.0 <= y <= 2.0
    assert y == pytest.approx(0.5 + 1.5 * np.tanh(x), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("space", "action", "admitted"),
    [
        (MultiDiscrete([2, 2]), [1, 0], True),
        (MultiDiscrete([2, 2]), [1, 1], False),  # forbidden by the mask below
        (MultiDiscrete([2, 2]), [2, 0], False),
        (MultiDiscrete([2, 2]), [-1, 0], False),
        (Box([0, 0], [1, 1]), [0.5, np.nan], False),
        (Box([0, -np.inf], [1, np.inf]), [0.5, np.inf], False),
        (Box([0, 0], [1, 1]), [0.5, 1.0], True),
    ],
)
def test_actions_of_heuristics_are_checked(space, action, admitted):
    mask = np.array([1, 1, 1, 0], np.bool_)[: sum(space.choices)]
    assert bool(compiled_sampling(space).admit(np.array(action, space.dtype), mask)) == admitted


def test_real_actions_of_heuristics_are_clipped():
    action = np.array([-7.0, 0.25], np.float32)
    assert compiled_sampling(Box([0, 0], [1, 1], squashed=True)).admit(action, np.zeros(0, np.bool_))
    assert action.tolist() == [0.0, 0.25]


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
