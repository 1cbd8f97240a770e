"""Logits become smaller where the mean entropy is below a floor, and only there."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from helpers.listed import shop_model
from helpers.memory_models import memory_model, memory_spec
from helpers.specs import mlp_spec
from scipy.stats import entropy
from training.test_long_horizon import LONG
from training.test_rollout_growth import _large_rollouts_for_short_runs, no_display  # noqa: F401
from training.test_trainer import assert_same_state, new_run, train

from longstride.learning.algorithms.entropy_floor import hold_floor, mean_entropy
from longstride.learning.algorithms.entropy_target import EntropyTarget
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.schedule import Coefficients
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Box, MultiDiscrete
from longstride.training.run_directory.metrics_log import read_metrics

CHOICES = (2, 3)
TWO_CHOICES = MultiDiscrete(CHOICES)


def model_and_rollout(steepness, space=TWO_CHOICES, features=0):
    """Return a model whose last layer is that many times a usual one, and a rollout with some masks."""
    spec = mlp_spec((3, 8, space.outputs), space=space, action_features=features)
    model, rng = ActorCritic(spec), np.random.default_rng(0)
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


@pytest.mark.parametrize(("space", "features"), [(Box((-1.0,), (1.0,)), 0), (TWO_CHOICES, 2)])
def test_real_valued_actions_and_features_of_actions_are_left_alone(space, features):
    model, rows = model_and_rollout(100.0, space, features)
    before = model.flat.clone()
    assert hold_floor(model, [rows], 0.5) == 1.0
    assert torch.equal(model.flat, before)


@pytest.mark.parametrize("make_model", [lambda: memory_model(memory_spec()), shop_model])
def test_networks_with_memory_or_lists_are_left_alone(make_model):
    assert hold_floor(make_model(), [], 0.5) == 1.0


class First:
    """Ranks of which the first has found a factor."""

    def gather(self, part):
        return [part]

    def from_first(self, make):
        return 0.25


def test_all_ranks_have_the_factor_of_the_first():
    model, rows = model_and_rollout(100.0)
    before = logits_of(model, rows)
    assert hold_floor(model, [rows], 0.5, First()) == 0.25
    np.testing.assert_allclose(logits_of(model, rows)[rows.masks], 0.25 * before[rows.masks], rtol=1e-4, atol=1e-5)


def test_the_entropy_of_rows_is_that_of_scipy():
    model, rows = model_and_rollout(1.0)
    logits = torch.from_numpy(np.where(rows.masks, logits_of(model, rows), 0.0))
    found = mean_entropy(logits, torch.from_numpy(rows.masks), CHOICES)
    assert found == pytest.approx(entropy_of(logits_of(model, rows)))


COEFFICIENTS = Coefficients(1.0, PpoCoefficients(0.2, 0.03, 0.5))


class NoBonus(NamedTuple):
    rate: float


@pytest.mark.parametrize("share_done", [0.0, 0.25])
def test_the_floor_is_half_of_the_target(share_done):
    model, rows = model_and_rollout(100.0)
    rows.masks[:] = True  # the target looks at every eighth step, the floor at all of a small rollout
    target = EntropyTarget(0.5, CHOICES)
    target.held(COEFFICIENTS, share_done)
    target.learn(0.01, [rows], share_done)
    target.hold_floor(model, [rows])
    assert target.figures()["logit_factor"] < 1.0
    second = EntropyTarget(0.5, CHOICES)
    second.learn(entropy_of(logits_of(model, rows)), [rows], share_done)
    assert second.share == pytest.approx(0.5 * second.target, rel=1e-3)


@pytest.mark.parametrize(
    ("start", "share_done", "loss"),
    [(0.5, 0.5, COEFFICIENTS.loss), (0.0, 0.0, COEFFICIENTS.loss), (0.5, 0.0, NoBonus(1))],
)
def test_without_a_target_that_a_bonus_holds_there_is_no_floor(start, share_done, loss):
    model, rows = model_and_rollout(100.0)
    target = EntropyTarget(start, CHOICES)
    target.held(COEFFICIENTS._replace(loss=loss), share_done)
    target.learn(0.01, [rows], share_done)
    target.hold_floor(model, [rows])
    assert target.factor == 1.0


@pytest.mark.parametrize(("factor", "rises"), [(1.0, False), (0.5, True)])
def test_the_weight_waits_only_for_an_entropy_that_comes_back_by_itself(factor, rises):
    _, rows = model_and_rollout(1.0)
    target = EntropyTarget(0.5, CHOICES, share=0.1, factor=factor)
    before = target.weight
    target.learn(0.15 * math.log(6), [rows], 0.0)
    assert target.share > 0.1
    assert (target.weight > before) is rises


def with_steep_logits(run):
    with torch.no_grad():
        run.trainer.model.layers("actor")[-1][0].mul_(1e4)
    return run


@pytest.fixture
def small_rollouts(monkeypatch):
    no_display(monkeypatch)


def test_the_next_rollout_has_the_smaller_logits_and_a_resumed_run_the_same_bits(tmp_path, small_rollouts):
    settings = LONG | {"entropy_target": 1.0}
    train(with_steep_logits(new_run(tmp_path / "whole", **settings)))
    records = read_metrics(tmp_path / "whole")
    assert records[0]["entropy_share"] < 0.1
    assert records[0]["logit_factor"] < 0.1
    assert records[1]["initial_ratio_error"] < 1e-4
    assert records[1]["entropy_share"] > 0.2
    train(with_steep_logits(new_run(tmp_path / "parts", **settings)), stop_after=1)
    assert train(new_run(tmp_path / "parts", **settings, resume=True)) is True
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
