"""Logits become smaller where the mean entropy is below a floor, and only there."""

import math

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec
from helpers.specs import mlp_spec
from scipy.stats import entropy

from longstride.learning.algorithms.entropy_floor import hold_floor, mean_entropy
from longstride.learning.algorithms.entropy_target import EntropyTarget
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Box, MultiDiscrete

CHOICES = (2, 3)
TWO_CHOICES = MultiDiscrete(CHOICES)


def model_and_rollout(steepness, space=TWO_CHOICES):
    """Return a model whose last layer is that many times a usual one, and a rollout with some masks."""
    model, rng = ActorCritic(mlp_spec((3, 8, space.outputs), space=space)), np.random.default_rng(0)
    with torch.no_grad():
        model.flat.copy_(torch.from_numpy(rng.normal(0.0, 0.5, len(model.flat)).astype(np.float32)))
        for tensor in model.layers("actor")[-1]:
            tensor.mul_(steepness)
    rows = allocate(model.spec, 64, np.zeros)
    rows.observations[:] = rng.normal(size=rows.observations.shape)
    rows.masks[:] = True
    if not model.spec.is_gaussian:
        rows.masks[::2, 1] = rows.masks[::3, 3] = False
    return model, rows


def logits_of(model, rows):
    """Return float64[T, n]; a value that is not allowed has minus infinity."""
    x = model.normalise(torch.from_numpy(rows.observations[: rows.steps]))
    (weight, bias), hidden = model.layers("actor")[-1], model.hidden_outputs("actor", x)[-1]
    return np.where(rows.masks, (hidden @ weight + bias).detach().numpy(), -np.inf).astype(np.float64)


def entropy_of(logits):
    """Return the mean entropy in nats by scipy's function, over rows and summed over choices."""
    chances = [np.exp(part - part.max(axis=1, keepdims=True)) for part in np.split(logits, [2], axis=1)]
    return sum(entropy(each, axis=1).mean() for each in chances)


@pytest.mark.parametrize("floor", [0.1, 0.4, 0.9])
def test_the_mean_entropy_is_brought_to_the_floor_and_the_likeliest_actions_stay(floor):
    model, rows = model_and_rollout(100.0)
    before = logits_of(model, rows)
    most = (rows.masks[:, :2].sum(axis=1) == 2).mean() * math.log(2) + np.log(rows.masks[:, 2:].sum(axis=1)).mean()
    assert entropy_of(before) < 0.05 * most
    factor = hold_floor(model, [rows], floor)
    after = logits_of(model, rows)
    assert entropy_of(after) == pytest.approx(floor * most, rel=1e-3)
    np.testing.assert_allclose(after[rows.masks], factor * before[rows.masks], rtol=1e-4, atol=1e-5)
    for old, new in zip(np.split(before, [2], axis=1), np.split(after, [2], axis=1), strict=True):
        np.testing.assert_array_equal(old.argmax(axis=1), new.argmax(axis=1))


def test_a_policy_above_the_floor_keeps_its_bits():
    model, rows = model_and_rollout(1.0)
    before = model.flat.clone()
    assert hold_floor(model, [rows], 0.2) == 1.0
    assert torch.equal(model.flat, before)


def test_other_layers_and_the_critic_stay():
    model, rows = model_and_rollout(100.0)
    before = {name: tensor.clone() for name, tensor in model.tensors.items()}
    assert 0.0 < hold_floor(model, [rows], 0.5) < 1.0
    changed = {name for name, tensor in model.tensors.items() if not torch.equal(tensor, before[name])}
    assert changed == {"actor.1.weight", "actor.1.bias"}


def test_real_valued_actions_and_networks_with_memory_are_left_alone():
    gaussian, rows = model_and_rollout(100.0, Box((-1.0,), (1.0,)))
    assert hold_floor(gaussian, [rows], 0.5) == 1.0
    remembering = memory_model(memory_spec())
    assert hold_floor(remembering, [], 0.5) == 1.0


def test_the_entropy_of_rows_is_that_of_scipy():
    model, rows = model_and_rollout(1.0)
    logits = torch.from_numpy(np.where(rows.masks, logits_of(model, rows), 0.0))
    found = mean_entropy(logits, torch.from_numpy(rows.masks), CHOICES)
    assert found == pytest.approx(entropy_of(logits_of(model, rows)))


def test_the_floor_is_half_of_the_target_and_ends_with_it():
    for share_done, is_held in ((0.0, True), (0.25, True), (0.5, False)):
        model, rows = model_and_rollout(100.0)
        rows.masks[:] = True  # the target looks at every eighth step, the floor at all of a small rollout
        target = EntropyTarget(0.5, CHOICES)
        target.learn(0.01, [rows], share_done)
        target.hold_floor(model, [rows])
        assert (target.figures()["logit_factor"] < 1.0) is is_held
        if is_held:
            second = EntropyTarget(0.5, CHOICES)
            second.learn(entropy_of(logits_of(model, rows)), [rows], share_done)
            assert second.share == pytest.approx(0.5 * second.target, rel=1e-3)
