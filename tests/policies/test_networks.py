"""The flat layout, its views, initial weights."""

import math
from dataclasses import replace

import pytest
import torch
from helpers.specs import mlp_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.policies.networks import ActorCritic, initialise
from longstride.simulators.spaces import Box

SIZES = st.lists(st.integers(1, 9), min_size=2, max_size=5)


@given(SIZES, SIZES)
@settings(max_examples=50, deadline=None)
def test_tensors_cover_the_flat_array_without_gap_or_overlap(actor, critic):
    critic = [actor[0], *critic[1:-1], 1]
    layout = mlp_spec(actor, critic).layout
    covered = []
    for name, offset in layout.offsets.items():
        covered += range(offset, offset + math.prod(layout.shapes[name]))
    assert covered == list(range(layout.size))


def test_the_layout_of_a_small_policy_by_hand():
    """2 means, 2 scales, 2 x 3 + 3, 3 x 4 + 4, mean and std of the value, 2 x 1 + 1."""
    layout = mlp_spec((2, 3, 4), (2, 1)).layout
    assert list(layout.offsets.values()) == [0, 2, 4, 10, 13, 25, 29, 30, 31, 33]
    assert layout.actor_size == 29
    assert layout.size == 34
    assert layout.shapes["actor.1.weight"] == (3, 4)


def test_log_standard_deviations_lie_behind_the_actors_layers_in_what_the_cpu_copy_reads():
    spec = mlp_spec((2, 3, 4), (2, 1), space=Box([-1.0] * 4, [1.0] * 4))
    layout = spec.layout
    assert layout.offsets["actor.log_std"] == layout.log_std_offset == 29
    assert layout.actor_size == 33
    model = ActorCritic(mlp_spec((2, 3, 4), (2, 1), "relu", space=Box([-1.0] * 4, [1.0] * 4)))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), initial_log_std=-1.5)
    assert model.flat[29:33].tolist() == [-1.5] * 4
    assert model.log_std is model.part_parameters("actor")[-1]
    assert len(model.layers("actor")) == 2
    assert ActorCritic(mlp_spec((2, 3, 4), (2, 1), "relu")).log_std.numel() == 0


def test_every_tensor_is_a_view_of_the_flat_array():
    model = ActorCritic(mlp_spec((2, 3, 4), (2, 5, 1), "relu"))
    for name, tensor in model.tensors.items():
        assert tensor.data_ptr() == model.flat.data_ptr() + 4 * model.layout.offsets[name]
    with torch.no_grad():
        model.flat.copy_(torch.arange(model.layout.size))
    for name, tensor in model.tensors.items():
        assert tensor.flatten()[0] == model.layout.offsets[name]
    assert len(list(model.parameters())) == 8
    assert sum(p.numel() for p in model.parameters()) == model.layout.size - 6


def test_an_optimiser_step_changes_the_flat_array():
    model = ActorCritic(mlp_spec((2, 3, 4), (2, 5, 1), "tanh"))
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    model.logits(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    # The gradient of a sum of outputs with respect to each output bias is 1.
    assert model.flat[25:29].tolist() == [-1.0] * 4


def orthogonal_error(weight, gain):
    """Return how far rows or columns, whichever are fewer, are from orthogonal ones of length `gain`."""
    w = weight.detach().double() / gain
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    return float((gram - torch.eye(len(gram), dtype=torch.float64)).abs().max())


@pytest.mark.parametrize("sizes", [(5, 16, 16, 3), (40, 8, 12)])
def test_orthogonal_initial_weights_and_their_gains(sizes):
    model = ActorCritic(mlp_spec(sizes, (*sizes[:-1], 1), "relu"))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    assert orthogonal_error(model.layers("actor")[-1][0], 0.01) < 1e-4
    for part in ("actor", "critic"):
        *hidden, (_, head_bias) = model.layers(part)
        assert all(orthogonal_error(weight, math.sqrt(2)) < 1e-5 for weight, _ in hidden)
        assert not head_bias.any()
        assert not any(bias.any() for _, bias in hidden)


@pytest.mark.parametrize("method", ["orthogonal", "xavier_uniform", "kaiming_uniform"])
def test_an_untrained_critic_says_zero(method):
    """Whatever else it said would be part of the first returns, which set the scale of the value normalisation."""
    model = ActorCritic(mlp_spec((5, 16, 3), (5, 16, 1), "relu"))
    initialise(model, method, torch.Generator().manual_seed(0))
    assert not model.values(torch.randn(20, 5)).any()
    assert model.layers("critic")[0][0].any()


@pytest.mark.parametrize(
    ("method", "bounds"),
    [
        # Glorot: sqrt(6 / (in + out)) for the hidden layer, times the gain for the head.
        ("xavier_uniform", (math.sqrt(6 / 60), 0.01 * math.sqrt(6 / 35))),
        # He: sqrt(6 / in); the head times its gain.
        ("kaiming_uniform", (math.sqrt(6 / 30), 0.01 * math.sqrt(6 / 30))),
    ],
)
def test_uniform_initial_weights_fill_their_range(method, bounds):
    model = ActorCritic(mlp_spec((30, 30, 5), (30, 30, 1), "relu"))
    initialise(model, method, torch.Generator().manual_seed(0))
    for (weight, bias), bound in zip(model.layers("actor"), bounds, strict=True):
        largest = float(weight.detach().abs().max())
        assert 0.9 * bound < largest <= bound * 1.0001
        assert not bias.any()


def test_initial_weights_depend_on_the_generator_only():
    flats = []
    for seed in (1, 1, 2):
        model = ActorCritic(mlp_spec((3, 8, 2), (3, 8, 1), "relu"))
        initialise(model, "orthogonal", torch.Generator().manual_seed(seed))
        flats.append(model.flat.clone())
    assert torch.equal(flats[0], flats[1])
    assert not torch.equal(flats[0], flats[2])


def test_initial_logits_are_what_the_untrained_policy_prefers():
    model = ActorCritic(mlp_spec((3, 8, 3), (3, 8, 1), "relu"))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), torch.tensor([0.0, 1.5, -2.0]))
    assert model.logits(torch.zeros(1, 3)).tolist() == [[0.0, 1.5, -2.0]]
    assert model.tensors["critic.1.bias"].tolist() == [0.0]


def test_action_features_are_weighed_by_weights_that_all_actions_share():
    model = ActorCritic(mlp_spec((3, 8, 3), (3, 8, 1), "relu", action_features=2))
    weights = torch.tensor([2.0, -1.0])
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), initial_feature_weights=weights)
    features = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 3.0]]])
    assert model.logits(torch.zeros(1, 3), features).tolist() == [[0.0, 2.0, -1.0]]
    model.logits(torch.zeros(1, 3), features).sum().backward()
    assert model.tensors["actor.feature_weights"].grad.tolist() == [2.0, 3.0]
    names = list(model.layout.offsets)
    assert names.index("actor.feature_weights") < names.index("value_mean"), "the CPU copy reads them"


def test_normalisation_starts_as_identity_and_clips():
    model = ActorCritic(mlp_spec((3, 2), (3, 1), "relu"))
    assert model.normalise(torch.tensor([[1.0, -50.0, 50.0]])).tolist() == [[1.0, -10.0, 10.0]]


def test_the_actor_alone_has_a_narrower_limit():
    model = ActorCritic(replace(mlp_spec((3, 2), (3, 1), "relu"), observation_limit=4.5))
    with torch.no_grad():
        for part in ("actor", "critic"):
            model.layers(part)[0][0].fill_(1.0)
    observations = torch.tensor([[1.0, 2.0, 50.0]])
    assert model.logits(model.normalise(observations)).tolist() == [[7.5, 7.5]]
    assert model.values(model.normalise(observations)).tolist() == [13.0]


def test_heads_stay_in_float32_where_hidden_layers_are_in_half_precision():
    model = ActorCritic(mlp_spec((3, 8, 2), (3, 8, 1), "relu"))
    tensors = {name: t.bfloat16() if model.is_hidden(name) else t for name, t in model.tensors.items()}
    assert {name for name, t in tensors.items() if t.dtype == torch.bfloat16} == {
        *("actor.0.weight", "actor.0.bias", "critic.0.weight", "critic.0.bias"),
    }
    assert model.logits(torch.ones(4, 3), tensors=tensors).dtype == torch.float32
    assert model.values(torch.ones(4, 3), tensors).dtype == torch.float32
