"""The distributions of each action space against torch.distributions and numerical integrals."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import (
    AffineTransform,
    Categorical,
    Independent,
    Normal,
    TanhTransform,
    TransformedDistribution,
)

from longstride.policies.distributions import distribution_of, entropy, log_prob, log_slope, masked_log_softmax
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete


def cases():
    generator = torch.Generator().manual_seed(5)
    logits = 3.0 * torch.randn(64, 7, generator=generator)
    masks = torch.rand(64, 7, generator=generator) < 0.5
    masks[torch.arange(64), torch.randint(7, (64,), generator=generator)] = True
    masks[0] = True
    masks[1] = torch.arange(7) == 3
    return logits, masks


def reference(logits, masks):
    return Categorical(logits=torch.where(masks, logits.double(), -math.inf))


def test_log_probabilities_equal_those_of_the_restricted_categorical():
    logits, masks = cases()
    actual = masked_log_softmax(logits, masks)
    expected = reference(logits, masks).logits.float()
    torch.testing.assert_close(actual[masks], expected[masks], rtol=1e-5, atol=1e-5)
    assert (actual.exp()[~masks] == 0.0).all()
    actions = reference(logits, masks).sample()
    torch.testing.assert_close(
        log_prob(actual, actions), reference(logits, masks).log_prob(actions).float(), rtol=1e-5, atol=1e-5
    )


def test_entropy_equals_that_of_the_restricted_categorical():
    logits, masks = cases()
    p = reference(logits, masks).probs
    expected = -torch.where(masks, p * p.clamp_min(1e-300).log(), 0.0).sum(-1)
    actual = entropy(masked_log_softmax(logits, masks), masks)
    torch.testing.assert_close(actual, expected.float(), rtol=1e-5, atol=1e-6)
    assert actual[1] == 0.0  # one allowed action


def test_entropy_of_equal_logits_is_the_logarithm_of_the_allowed_number():
    masks = torch.tensor([[True, True, True, True], [True, False, True, False]])
    actual = entropy(masked_log_softmax(torch.zeros(2, 4), masks), masks)
    assert actual.tolist() == pytest.approx([math.log(4), math.log(2)], rel=1e-6)


def test_gradients_are_finite_with_masks_and_zero_at_forbidden_actions():
    logits, masks = cases()
    logits = (100.0 * logits).requires_grad_()
    log_probabilities = masked_log_softmax(logits, masks)
    actions = masks.float().argmax(-1)
    (entropy(log_probabilities, masks).sum() + log_prob(log_probabilities, actions).sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~masks] == 0.0).all()
    assert logits.grad[masks].abs().max() > 0.1


def test_half_precision_logits_are_widened_first():
    logits, masks = cases()
    assert masked_log_softmax(logits.bfloat16(), masks).dtype == torch.float32


def test_choices_add_up():
    logits, masks = cases()
    sizes = (3, 1, 3)
    masks[:, [0, 3, 4]] = True
    parts = list(zip(logits.split(sizes, -1), masks.split(sizes, -1), strict=True))
    actions = torch.stack([reference(*part).sample() for part in parts], -1)
    log_probs, entropies = distribution_of(MultiDiscrete(sizes))(logits, torch.zeros(0), masks, actions)
    expected = sum(reference(*part).log_prob(action) for part, action in zip(parts, actions.unbind(-1), strict=True))
    torch.testing.assert_close(log_probs, expected.float(), rtol=1e-5, atol=1e-5)
    expected = sum(entropy(masked_log_softmax(*part), part[1]) for part in parts)
    torch.testing.assert_close(entropies, expected, rtol=1e-5, atol=1e-5)


def test_one_choice_is_a_discrete_action():
    logits, masks = cases()
    actions = reference(logits, masks).sample()
    one = distribution_of(Discrete(7))(logits, torch.zeros(0), masks, actions)
    several = distribution_of(MultiDiscrete([7]))(logits, torch.zeros(0), masks, actions.unsqueeze(-1))
    assert all(torch.equal(a, b) for a, b in zip(one, several, strict=True))


def gaussian_case(numbers=3):
    generator = torch.Generator().manual_seed(9)
    means = torch.randn(64, numbers, generator=generator)
    log_std = 0.5 * torch.randn(numbers, generator=generator) - 0.3
    draws = means + log_std.exp() * torch.randn(64, numbers, generator=generator)
    return means, log_std, torch.zeros(64, 0, dtype=torch.bool), draws


def test_a_gaussian_equals_that_of_torch():
    means, log_std, masks, draws = gaussian_case()
    normal = Independent(Normal(means.double(), log_std.double().exp()), 1)
    log_probs, entropies = distribution_of(Box([-1.0] * 3, [1.0] * 3))(means, log_std, masks, draws)
    torch.testing.assert_close(log_probs, normal.log_prob(draws.double()).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropies, normal.entropy().float(), rtol=1e-5, atol=1e-5)


def test_a_squashed_gaussian_equals_the_transformed_one_of_torch():
    """Where atanh of the action, which torch needs, is still stable: in float64 and away from the bounds."""
    means, log_std, masks, draws = gaussian_case()
    low, high = torch.tensor([-1.0, 0.0, -5.0]).double(), torch.tensor([1.0, 10.0, -4.0]).double()
    transforms = [TanhTransform(), AffineTransform((low + high) / 2, (high - low) / 2)]
    squashed = TransformedDistribution(Normal(means.double(), log_std.double().exp()), transforms)
    actions = (low + high) / 2 + (high - low) / 2 * draws.double().tanh()
    box = Box(low.tolist(), high.tolist(), squashed=True)
    log_probs, _ = distribution_of(box)(means, log_std, masks, draws)
    torch.testing.assert_close(log_probs, squashed.log_prob(actions).sum(-1).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.5, -0.5), (-0.7, 0.25)])
def test_the_density_of_squashed_actions_integrates_to_one_and_has_this_entropy(mean, log_std):
    """Integrals over the action itself, not over the draw, by the midpoint rule."""
    box = Box([-2.0], [0.5], squashed=True)
    points = (np.arange(400_000) + 0.5) / 200_000 - 1.0
    draws = torch.from_numpy(np.arctanh(points)).unsqueeze(-1)
    inputs = torch.full((len(points), 1), mean).double(), torch.tensor([log_std]).double()
    log_probs, entropies = distribution_of(box)(*inputs, torch.zeros(len(points), 0, dtype=torch.bool), draws)
    density = log_probs.exp().numpy()
    assert density.mean() * 2.5 == pytest.approx(1.0, abs=1e-5)
    expected = -(density * log_probs.numpy()).mean() * 2.5
    assert float(entropies[0]) == pytest.approx(expected, abs=1e-3)
    assert float(entropies[0]) <= math.log(2.5) + 0.01, "no density on an interval has more than the uniform one"


@pytest.mark.parametrize("x", [-200.0, -30.0, -9.1, 0.0, 4.0, 9.1, 30.0, 200.0])
def test_the_slope_of_tanh_is_right_in_float32_where_tanh_is_one(x):
    """log(1 - tanh(x)^2) = 2 (log 2 - |x| - log(1 + e^(-2 |x|))); from 9.1 on tanh is 1 in float32."""
    single = torch.tensor(x, requires_grad=True)
    slope = log_slope(single)
    exact = 2 * (math.log(2.0) - abs(x) - math.log1p(math.exp(-2 * abs(x))))
    assert float(slope.detach()) == pytest.approx(exact, rel=1e-6, abs=1e-6)
    slope.backward()
    assert float(single.grad) == pytest.approx(-2.0 * math.tanh(x), rel=1e-5, abs=1e-6)


def test_half_precision_means_are_widened_first():
    means, log_std, masks, draws = gaussian_case()
    for box in (Box([-1.0] * 3, [1.0] * 3), Box([-1.0] * 3, [1.0] * 3, squashed=True)):
        assert {x.dtype for x in distribution_of(box)(means.bfloat16(), log_std, masks, draws)} == {torch.float32}
