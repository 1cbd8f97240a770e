"""Masked categorical distributions against torch.distributions."""

import math

import pytest
import torch
from torch.distributions import Categorical

from core.policy.distributions import entropy, log_prob, masked_log_softmax


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
