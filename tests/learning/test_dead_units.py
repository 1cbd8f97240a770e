"""Units that are 0 whatever is observed get new weights, and the network keeps its outputs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec
from helpers.toy_runs import toy_episodes, toy_model

from longstride.learning.dead_units import revive_dead_units
from longstride.learning.distributed.ranks import ALONE
from longstride.learning.policy_health import health_on
from longstride.policies.networks import ActorCritic


def with_dead_units(activation="relu"):
    """Return a model with three dead units in each hidden layer of both networks, and a rollout."""
    drawn = toy_model("shop")
    model = ActorCritic(replace(drawn.spec, activation=activation))
    trajectories = [each.trajectory for each in toy_episodes("shop", drawn, 2)]
    with torch.no_grad():
        model.flat.copy_(drawn.flat)
        for part in ("actor", "critic"):
            for _, bias in model.layers(part)[:-1]:
                bias[:3] = -1e3
            model.layers(part)[-1][0].normal_(0.0, 0.1, generator=torch.Generator().manual_seed(3))
    return model, trajectories


def hidden_of(model, trajectories, part="actor"):
    x = model.normalise(torch.from_numpy(np.concatenate([t.observations[: t.steps] for t in trajectories])))
    return model.hidden_outputs(part, x)


def outputs_of(model, trajectories):
    return [hidden_of(model, trajectories, p)[-1] @ model.layers(p)[-1][0] for p in ("actor", "critic")]


@torch.no_grad()
def test_dead_units_live_again_and_the_outputs_stay():
    model, trajectories = with_dead_units()
    before, outputs = health_on(model, trajectories, ALONE), outputs_of(model, trajectories)
    first = model.layers("actor")[0][0].clone()
    lives = hidden_of(model, trajectories)[0].any(dim=0)
    assert not lives[:3].any()
    revive_dead_units(model, trajectories, np.random.default_rng(0))
    after = health_on(model, trajectories, ALONE)
    assert before.dead_units > after.dead_units
    assert before.dead_units >= 3 / max(len(bias) for _, bias in model.layers("actor")[:-1])
    for old, new in zip(outputs, outputs_of(model, trajectories), strict=True):
        torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-6)
    weight, bias = model.layers("actor")[0]
    assert torch.equal(weight[:, lives], first[:, lives])
    inputs, units = weight.shape
    assert torch.allclose(weight[:, :3].norm(dim=0), torch.tensor(2.0 * min(1.0, inputs / units)).sqrt())
    assert not bias[:3].any()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["tanh", "memory", "nothing dead"])
def test_other_networks_are_left_alone(kind):
    model, trajectories = with_dead_units("tanh" if kind == "tanh" else "relu")
    if kind == "memory":
        model = memory_model(memory_spec())
    if kind == "nothing dead":
        revive_dead_units(model, trajectories, np.random.default_rng(0))
    before = model.flat.clone()
    if kind == "nothing dead":
        assert health_on(model, trajectories, ALONE).dead_units == 0.0
    revive_dead_units(model, trajectories, np.random.default_rng(1))
    assert torch.equal(model.flat, before)
