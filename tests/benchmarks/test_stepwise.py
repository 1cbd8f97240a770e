"""The policy in ONNX Runtime against a slow forward pass and the frequencies of its draws."""

import numpy as np
import pytest
import torch
from helpers.specs import mlp_spec

from benchmarks.peers import stepwise
from benchmarks.peers.stepwise import Onnx, Torch, largest_difference, onnx_missing
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import allocate

pytestmark = pytest.mark.skipif(bool(onnx_missing()), reason="onnx or onnxruntime is not installed")


@pytest.fixture
def played(monkeypatch):
    """A model with random weights everywhere, and 400 random rows."""
    monkeypatch.setattr(stepwise, "STEPS", 400)
    rng = np.random.default_rng(0)
    model = ActorCritic(mlp_spec([7, 16, 16, 5], [7, 8, 1], "relu", action_features=3))
    with torch.no_grad():
        model.flat.copy_(torch.from_numpy(rng.normal(0.0, 0.7, model.layout.size)))
    rows = allocate(model.spec, 400)
    rows.observations[:], rows.features[:] = rng.normal(0, 20, (401, 7)), rng.normal(0, 1, (400, 5, 3))
    rows.masks[:] = rng.random((400, 5)) < 0.7
    return model, rows


def slow_logits(model, rows):
    w = {name: t.detach().numpy().astype(np.float64) for name, t in model.tensors.items()}
    x = np.clip((rows.observations[:400] - w["observation_mean"]) * w["observation_scale"], -10, 10)
    for i in range(2):
        x = np.maximum(x @ w[f"actor.{i}.weight"] + w[f"actor.{i}.bias"], 0.0)
    return x @ w["actor.2.weight"] + w["actor.2.bias"] + rows.features @ w["actor.feature_weights"]


def test_logits_are_those_of_a_slow_forward_pass(played):
    model, rows = played
    expected = slow_logits(model, rows)
    assert np.abs(expected).max() > 10.0
    np.testing.assert_allclose(Onnx(model).logits(rows, 0, 400), expected, rtol=1e-4, atol=1e-4)
    assert largest_difference(Torch(model), Onnx(model), rows) <= 1e-4


def test_other_weights_are_noticed(played):
    model, rows = played
    before = Onnx(model)
    with torch.no_grad():
        model.tensors["actor.0.bias"] += 1e-3
    with pytest.raises(ValueError, match="logits of ONNX Runtime differ"):
        largest_difference(Torch(model), before, rows)


def test_actions_are_drawn_with_the_policys_probabilities(played):
    """5,000 draws of a row: no masked action, frequencies within five standard deviations, log-probabilities exact."""
    model, rows = played
    with torch.no_grad():
        model.tensors["actor.2.weight"] *= 0.02  # so that no action is certain
    rows.masks[0] = [True, False, True, True, True]
    logits = slow_logits(model, rows)[0]
    chances = np.exp(logits - logits.max()) * rows.masks[0]
    chances /= chances.sum()
    policy = Onnx(model)
    drawn = [policy.choose(rows, 0) for _ in range(5_000)]
    frequencies = np.bincount([action for action, _ in drawn], minlength=5) / 5_000
    assert frequencies[1] == 0.0
    assert (np.abs(frequencies - chances) <= 5 * np.sqrt(chances * (1 - chances) / 5_000)).all()
    for action, log_prob in drawn[:50]:
        assert log_prob == pytest.approx(np.log(chances[action]), abs=1e-4)
